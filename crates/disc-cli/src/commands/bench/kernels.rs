//! Sums up the launches of some calls by kernel.
use comfy_table::{CellAlignment, Table, presets};
use disc::ral::{LaunchNames, LaunchRecord};
use serde_json::{Value, json};

/// The cost of one kernel in a call: the median over the calls.
pub(super) struct Kernel {
    name: String,
    launches: usize,
    units: i64,
    threads: u32,
    microseconds: f64,
}

/// Returns the kernels of the calls, in the order of their first launch; a product that a library
/// computes is listed apart from its kernel.
pub(super) fn sums(profiles: &[Vec<LaunchRecord>], names: &mut LaunchNames) -> Vec<Kernel> {
    let Some(first) = profiles.first() else { return Vec::new() };
    let place = |launch: &LaunchRecord| (launch.kernel, launch.by_library);
    let mut places: Vec<&LaunchRecord> = Vec::new();
    first.iter().for_each(|launch| {
        if places.iter().all(|known| place(known) != place(launch)) {
            places.push(launch);
        }
    });
    let of = |at: &LaunchRecord| {
        let launches =
            |call: &[LaunchRecord]| -> Vec<LaunchRecord> { call.iter().filter(|l| place(l) == place(at)).cloned().collect() };
        let mut times: Vec<u64> = profiles.iter().map(|call| launches(call).iter().map(|l| l.nanoseconds).sum()).collect();
        times.sort_unstable();
        let own = launches(first);
        Kernel {
            name: names.of(at),
            launches: own.len(),
            units: own.iter().map(|l| l.units).sum(),
            threads: own.iter().map(|l| l.threads).max().unwrap_or(0),
            microseconds: times[times.len() / 2] as f64 / 1e3,
        }
    };
    places.into_iter().map(of).collect()
}

/// Returns a table of the kernels, with their shares of a call of this length.
pub(super) fn table(kernels: &[Kernel], call: f64) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["", "kernel", "us", "share", "units", "threads", "launches"]);
    for Kernel { name, launches, units, threads, microseconds } in kernels {
        let share = 100.0 * microseconds / call.max(f64::MIN_POSITIVE);
        let (time, share) = (format!("{microseconds:.1}"), format!("{share:.0}%"));
        let counts = [units.to_string(), threads.to_string(), launches.to_string()];
        table.add_row([String::new(), name.to_string(), time, share].into_iter().chain(counts));
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("{}\n", table.trim_fmt())
}

pub(super) fn json(kernels: &[Kernel]) -> Vec<Value> {
    let row = |kernel: &Kernel| {
        json!({
            "name": kernel.name, "launches": kernel.launches, "units": kernel.units, "threads": kernel.threads,
            "us": kernel.microseconds,
        })
    };
    kernels.iter().map(row).collect()
}
