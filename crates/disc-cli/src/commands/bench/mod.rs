//! Times calls, and each kernel in them: `disc bench`. On a simulated GPU it counts instead.
//!
//! Calls are timed without a profile; the launches of a few more calls are timed one by one, which
//! costs a little itself.
mod counters;
mod kernels;
mod start;
mod trace;

use super::{arguments::BenchArguments, package};
use crate::{
    answer::{Answer, diagnostics},
    arrays,
    progress::Progress,
    run::{self, Caller, Data, Integers, Loaded, RunArguments},
    source::Source,
};
use disc::ral::LaunchNames;
use disc_ir::{Code, Diagnostic};
use kernels::Kernel;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Calls whose launches are timed.
const PROFILED: usize = 20;

pub(super) use start::start;

pub(super) fn text(given: &BenchArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    package::check_text(&given.trust)?;
    let (module, _) = source.module(None)?;
    let entry = run::entry(&module, given.data.entry.as_deref()).map_err(single)?;
    let calls = Data::calls(&module, &source.named(entry).0, &given.data(), Integers::Any).map_err(single)?;
    let device = given.device.device.clone();
    let options = disc::Options { device, ..given.machine.options() };
    let weights = calls.first().map(|data| data.weights.clone()).unwrap_or_default();
    let loaded = Loaded::new(module.clone(), &weights, &options).map_err(diagnostics)?;
    let caller = loaded.entry(&entry.name).map_err(diagnostics)?;
    Bench { given, loaded: &loaded, caller, entry: &entry.name }.shapes(&calls)
}

pub(super) fn package(given: &BenchArguments) -> Result<Answer, Vec<Diagnostic>> {
    let package = package::open(&given.file, &given.trust, given.machine.target.as_ref(), &given.device)?;
    let entry = package::entry(&package, given.data.entry.as_deref())?;
    let calls = package::calls(entry, &given.data()).map_err(|error| vec![error])?;
    let loaded = Loaded::of_package(&package, given.machine.threads).map_err(diagnostics)?;
    let caller = loaded.entry_of(entry).map_err(diagnostics)?;
    Bench { given, loaded: &loaded, caller, entry: entry.name() }.shapes(&calls)
}

impl BenchArguments {
    /// Returns the values that are asked for, those after the file included.
    fn data(&self) -> RunArguments {
        let mut data = self.data.clone();
        data.values.input.extend(self.more.iter().cloned());
        data
    }
}

/// An entry that is timed.
struct Bench<'b> {
    given: &'b BenchArguments,
    loaded: &'b Loaded,
    caller: Caller<'b>,
    entry: &'b str,
}

/// The measurements of one shape.
struct Measured {
    /// The sizes of each input.
    sizes: Vec<(String, Vec<i64>)>,
    times: Times,
    kernels: Vec<Kernel>,
    peak: usize,
}

/// The times of calls, in microseconds.
struct Times {
    count: usize,
    least: f64,
    p50: f64,
    p99: f64,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |i: usize| times.get(i).map_or(0.0, |time| time.as_nanos() as f64 / 1e3);
        let percentile = |percent: usize| at((times.len() * percent).div_ceil(100).saturating_sub(1));
        Self { count: times.len(), least: at(0), p50: percentile(50), p99: percentile(99) }
    }
}

impl Bench<'_> {
    /// Measures one call after the other, or counts what they do.
    fn shapes(&self, calls: &[Data]) -> Result<Answer, Vec<Diagnostic>> {
        let given = self.given;
        if counters::has_counters(given.device.device.as_deref()) {
            return counters::shapes(self, calls);
        }
        let wrong = || vec![Diagnostic::new(Code::E0700, format!("--seconds {} is no length of time", given.seconds))];
        let long = Duration::try_from_secs_f64(given.seconds).map_err(|_| wrong())?;
        let (mut names, mut events, mut shapes) = (LaunchNames::default(), Vec::new(), Vec::new());
        let progress = Progress::bar("timing", calls.len());
        for data in calls {
            let sizes = self.sizes(data);
            progress.step(&title(&sizes));
            let times = self.caller.time(&data.inputs, long).map_err(diagnostics)?;
            let profiles = self.caller.profile(&data.inputs, PROFILED).map_err(diagnostics)?;
            if let Some(last) = profiles.last() {
                let title = format!("{} {}", self.entry, title(&sizes));
                events.extend(trace::events(shapes.len(), &title, last, &mut names));
            }
            let kernels = kernels::sums(&profiles, &mut names);
            shapes.push(Measured { sizes, times: Times::of(times), kernels, peak: self.loaded.executable.peak_arena_bytes() });
        }
        drop(progress);
        if let Some(path) = &given.trace {
            std::fs::write(path, trace::file(events)).map_err(|error| vec![arrays::unwritten(path, error)])?;
        }
        let text = shapes.iter().map(|shape| shape.text(self.entry)).collect::<String>();
        let shapes: Vec<Value> = shapes.iter().map(Measured::json).collect();
        Ok(Answer::new(text, json!({ "entry": self.entry, "unit": "us", "shapes": shapes })))
    }

    fn sizes(&self, data: &Data) -> Vec<(String, Vec<i64>)> {
        let inputs = self.caller.inputs().zip(&data.inputs);
        inputs.map(|(name, tensor)| (name.to_owned(), tensor.dims().to_vec())).collect()
    }
}

/// Returns the sizes of the inputs in a few words.
fn title(sizes: &[(String, Vec<i64>)]) -> String {
    const MOST: usize = 4;
    let one = |(name, sizes): &(String, Vec<i64>)| format!("{name}={}", product(sizes));
    let more = if sizes.len() > MOST { ", .." } else { "" };
    sizes.iter().take(MOST).map(one).collect::<Vec<_>>().join(", ") + more
}

fn product(sizes: &[i64]) -> String {
    sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

impl Measured {
    fn text(&self, entry: &str) -> String {
        let Times { count, least, p50, p99 } = self.times;
        let title = title(&self.sizes);
        let mut text = format!("@{entry} {title}: p50 {p50:.1} us, p99 {p99:.1}, least {least:.1}, {count} calls\n");
        text += &kernels::table(&self.kernels, p50);
        text + &format!("  temporary memory {} bytes\n", self.peak)
    }

    fn json(&self) -> Value {
        let inputs: Map<String, Value> = self.sizes.iter().map(|(name, sizes)| (name.clone(), json!(sizes))).collect();
        let Times { count, least, p50, p99 } = self.times;
        json!({
            "inputs": inputs, "calls": count, "p50": p50, "p99": p99, "least": least,
            "kernels": kernels::json(&self.kernels), "peak_arena_bytes": self.peak,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = Times::of((1..=200).rev().map(Duration::from_micros).collect());
        assert_eq!((times.count, times.least, times.p50, times.p99), (200, 1.0, 100.0, 198.0));
        assert_eq!(Times::of(vec![Duration::from_micros(7)]).p99, 7.0);
        assert_eq!(Times::of(Vec::new()).p50, 0.0);
    }
}
