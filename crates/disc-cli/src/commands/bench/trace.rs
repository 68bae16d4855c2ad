//! Writes launches as a trace in the format of Chrome, which Perfetto reads too.
use disc::ral::{LaunchNames, LaunchRecord};
use serde_json::{Value, json};

/// Returns the events of one call: a process of the trace, named `title`.
pub(super) fn events(process: usize, title: &str, launches: &[LaunchRecord], names: &mut LaunchNames) -> Vec<Value> {
    let start = launches.iter().map(|launch| launch.start).min();
    let title = json!({ "name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": { "name": title } });
    let event = |launch: &LaunchRecord| {
        let begin = start.map_or(0.0, |start| launch.start.duration_since(start).as_nanos() as f64 / 1e3);
        json!({
            "name": names.of(launch), "cat": "kernel", "ph": "X", "pid": process, "tid": 0, "ts": begin,
            "dur": launch.nanoseconds as f64 / 1e3,
            "args": {
                "units": launch.units, "threads": launch.threads, "estimated_ns": launch.cost, "lines": launch.lines.join(", "),
            },
        })
    };
    [title].into_iter().chain(launches.iter().map(event)).collect()
}

/// Returns the contents of a trace file.
pub(super) fn file(events: Vec<Value>) -> String {
    format!("{}\n", json!({ "displayTimeUnit": "ns", "traceEvents": events }))
}
