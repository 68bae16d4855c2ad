//! Counts requests, in the text format of Prometheus.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The status of a request whose client went away before its answer.
const CLIENT_GONE: u16 = 499;
/// The upper bounds of the histogram's buckets in seconds.
const BOUNDS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Default)]
pub(crate) struct Metrics {
    finished: Mutex<Finished>,
    calls: AtomicU64,
    running: AtomicU64,
}

#[derive(Default)]
struct Finished {
    by_status: BTreeMap<u16, u64>,
    buckets: [u64; BOUNDS.len()],
    seconds: f64,
}

/// A request in progress. It counts when it is dropped.
pub(crate) struct Running<'a> {
    metrics: &'a Metrics,
    start: Instant,
    pub(crate) status: u16,
}

impl Metrics {
    pub(crate) fn start(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running { metrics: self, start: Instant::now(), status: CLIENT_GONE }
    }

    /// Counts a run of the model, which serves one request or several.
    pub(crate) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn finish(&self, status: u16, time: Duration) {
        let seconds = time.as_secs_f64();
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        *finished.by_status.entry(status).or_default() += 1;
        finished.seconds += seconds;
        let bucket = BOUNDS.iter().position(|&bound| seconds <= bound);
        if let Some(bucket) = bucket {
            finished.buckets[bucket] += 1;
        }
    }

    /// Writes all metrics. `waiting` is the number of requests in the queue.
    pub(crate) fn text(&self, model: &str, waiting: usize) -> String {
        let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, rows: &[(String, String)]| {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for (row, value) in rows {
                let _ = writeln!(text, "{name}{row} {value}");
            }
        };
        let plain = format!("{{model=\"{model}\"}}");
        let by_status = finished.by_status.iter();
        let rows: Vec<_> =
            by_status.map(|(status, count)| (format!("{{model=\"{model}\",status=\"{status}\"}}"), count.to_string())).collect();
        metric("disc_requests_total", "counter", "Requests for inference that were answered.", &rows);
        let calls = self.calls.load(Ordering::Relaxed).to_string();
        metric("disc_request_batches_total", "counter", "Runs of the model.", &[(plain.clone(), calls)]);
        let running = self.running.load(Ordering::Relaxed).to_string();
        metric("disc_requests_running", "gauge", "Requests in progress.", &[(plain.clone(), running)]);
        metric("disc_requests_waiting", "gauge", "Requests in the queue.", &[(plain.clone(), waiting.to_string())]);
        let total: u64 = finished.by_status.values().sum();
        let mut below = 0;
        let mut rows: Vec<_> = BOUNDS
            .iter()
            .zip(finished.buckets)
            .map(|(bound, count)| {
                below += count;
                (format!("_bucket{{model=\"{model}\",le=\"{bound}\"}}"), below.to_string())
            })
            .collect();
        rows.push((format!("_bucket{{model=\"{model}\",le=\"+Inf\"}}"), total.to_string()));
        rows.push((format!("_sum{plain}"), finished.seconds.to_string()));
        rows.push((format!("_count{plain}"), total.to_string()));
        metric("disc_request_duration_seconds", "histogram", "Times from a request to its answer.", &rows);
        text
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.metrics.running.fetch_sub(1, Ordering::Relaxed);
        self.metrics.finish(self.status, self.start.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_status_and_time() {
        let metrics = Metrics::default();
        metrics.start().status = 200;
        metrics.finish(200, Duration::from_millis(3));
        metrics.finish(503, Duration::from_secs(60));
        let text = metrics.text("a\"b", 2);
        for row in [
            "disc_requests_total{model=\"a\\\"b\",status=\"200\"} 2",
            "disc_requests_total{model=\"a\\\"b\",status=\"503\"} 1",
            "disc_requests_waiting{model=\"a\\\"b\"} 2",
            "disc_request_duration_seconds_bucket{model=\"a\\\"b\",le=\"0.0025\"} 1",
            "disc_request_duration_seconds_bucket{model=\"a\\\"b\",le=\"10\"} 2",
            "disc_request_duration_seconds_bucket{model=\"a\\\"b\",le=\"+Inf\"} 3",
            "disc_request_duration_seconds_count{model=\"a\\\"b\"} 3",
        ] {
            assert!(text.lines().any(|line| line == row), "{row} is not in {text}");
        }
    }
}
