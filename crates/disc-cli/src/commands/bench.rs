//! Times calls, and each kernel in them: `disc bench`.
//!
//! Calls are timed without a profile; the launches of a few more calls are timed one by one, which
//! costs a little itself.
use super::arguments::BenchArguments;
use crate::{
    answer::{Answer, diagnostics},
    run::{self, Data, Loaded},
    source::Source,
};
use disc::ral::LaunchRecord;
use disc_ir::{Code, Diagnostic};
use serde_json::{Value, json};
use std::time::Duration;

/// Calls whose launches are timed.
const PROFILED: usize = 20;

pub(super) fn bench(given: &BenchArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    let (module, _) = source.module(None)?;
    let entry = run::entry(&module, given.data.entry.as_deref()).map_err(single)?;
    let data = Data::new(&module, entry, &given.data).map_err(single)?;
    let options = disc::Options { keep_names: true, ..given.machine.options() };
    let wrong = || single(Diagnostic::new(Code::E0700, format!("--seconds {} is no length of time", given.seconds)));
    let long = Duration::try_from_secs_f64(given.seconds).map_err(|_| wrong())?;
    let loaded = Loaded::new(module.clone(), &entry.name, &data.weights, &options).map_err(diagnostics)?;
    let times = loaded.time(&data.inputs, long).map_err(diagnostics)?;
    let profiles = loaded.profile(&data.inputs, PROFILED).map_err(diagnostics)?;
    let kernels = kernels(&profiles, |address| loaded.executable.kernel_name(address).unwrap_or("a kernel").to_owned());
    let peak = loaded.executable.peak_arena_bytes();
    Ok(answer(&entry.name, Calls::of(times), &kernels, peak))
}

/// The times of calls, in microseconds.
struct Calls {
    count: usize,
    least: f64,
    median: f64,
}

impl Calls {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |i: usize| times.get(i).map_or(0.0, |time| time.as_nanos() as f64 / 1e3);
        Self { count: times.len(), least: at(0), median: at(times.len() / 2) }
    }
}

/// The cost of one kernel in a call: the median over the calls.
struct Kernel {
    name: String,
    launches: usize,
    units: i64,
    threads: u32,
    microseconds: f64,
}

/// Returns the kernels of the calls, in the order of their first launch; a product that a library
/// computes is listed apart from its kernel.
fn kernels(profiles: &[Vec<LaunchRecord>], name: impl Fn(usize) -> String) -> Vec<Kernel> {
    let Some(first) = profiles.first() else { return Vec::new() };
    let place = |launch: &LaunchRecord| (launch.kernel, launch.by_library);
    let mut places: Vec<(usize, bool)> = Vec::new();
    first.iter().for_each(|launch| {
        if !places.contains(&place(launch)) {
            places.push(place(launch))
        }
    });
    let of = |at: (usize, bool)| {
        let launches =
            |call: &Vec<LaunchRecord>| -> Vec<LaunchRecord> { call.iter().filter(|l| place(l) == at).copied().collect() };
        let mut times: Vec<u64> = profiles.iter().map(|call| launches(call).iter().map(|l| l.nanoseconds).sum()).collect();
        times.sort_unstable();
        let own = launches(first);
        Kernel {
            name: if at.1 { format!("{} by the library", name(at.0)) } else { name(at.0) },
            launches: own.len(),
            units: own.iter().map(|l| l.units).sum(),
            threads: own.iter().map(|l| l.threads).max().unwrap_or(0),
            microseconds: times[times.len() / 2] as f64 / 1e3,
        }
    };
    places.into_iter().map(of).collect()
}

fn answer(entry: &str, calls: Calls, kernels: &[Kernel], peak: usize) -> Answer {
    let mut text = format!("@{entry}: {:.1} us per call, least {:.1}, {} calls\n", calls.median, calls.least, calls.count);
    let wide = kernels.iter().map(|kernel| kernel.name.len()).max().unwrap_or(0);
    for Kernel { name, launches, units, threads, microseconds } in kernels {
        let share = 100.0 * microseconds / calls.median.max(f64::MIN_POSITIVE);
        let times = if *launches == 1 { String::new() } else { format!(", {launches} launches") };
        text += &format!("  {name:<wide$}  {microseconds:>10.1} us  {share:>3.0}%  {units} units on {threads} threads{times}\n");
    }
    text += &format!("  temporary memory {peak} bytes\n");
    let rows = kernels.iter().map(|kernel| {
        json!({
            "name": kernel.name, "launches": kernel.launches, "units": kernel.units, "threads": kernel.threads,
            "us": kernel.microseconds,
        })
    });
    let rows: Vec<Value> = rows.collect();
    let json = json!({
        "entry": entry, "calls": calls.count, "median_us": calls.median, "least_us": calls.least, "kernels": rows,
        "peak_arena_bytes": peak,
    });
    Answer::new(text, json)
}
