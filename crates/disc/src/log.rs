//! Logs to standard error, filtered by `DISC_LOG`. Without it, warnings only.
//!
//! Logs are neither dumps nor errors. A filter is a level (`debug`), or levels for parts
//! (`disc_passes=debug,disc_llvm=trace`).
use std::io::{self, Write};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt,
    layer::{Identity, SubscriberExt},
    util::SubscriberInitExt,
};

/// Starts to log. The first call counts; a program that has a logger of its own keeps it.
pub fn start() {
    start_with(Identity::new(), || false);
}

/// Starts to log, and to hand events to `other`, whatever `DISC_LOG` says. Without `DISC_LOG`
/// nothing goes to standard error while `takes_warnings` returns true: they are elsewhere.
pub fn start_with(other: impl Layer<Registry> + Send + Sync, takes_warnings: fn() -> bool) {
    let wanted = std::env::var("DISC_LOG").ok().filter(|text| !text.is_empty());
    let filter = wanted.as_deref().unwrap_or("warn");
    let is_default = wanted.is_none();
    match filter.parse::<Targets>() {
        Ok(targets) => {
            let writer = move || -> Box<dyn Write> {
                if is_default && takes_warnings() { Box::new(io::sink()) } else { Box::new(io::stderr()) }
            };
            let layer = fmt::layer().with_writer(writer).with_ansi(false).without_time().with_filter(targets);
            // An error means that there is a logger already.
            let _ = tracing_subscriber::registry().with(other).with(layer).try_init();
        }
        Err(error) => eprintln!("DISC_LOG = `{filter}` is no filter: {error}"),
    }
}
