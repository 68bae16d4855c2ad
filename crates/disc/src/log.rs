//! Logs to standard error, filtered by `DISC_LOG`. Without it, warnings only.
//!
//! Logs are neither dumps nor errors. A filter is a level (`debug`), or levels for parts
//! (`disc_passes=debug,disc_llvm=trace`).
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts to log. The first call counts; a program that has a logger of its own keeps it.
pub fn start() {
    let wanted = std::env::var("DISC_LOG").ok().filter(|text| !text.is_empty());
    let filter = wanted.as_deref().unwrap_or("warn");
    match filter.parse::<Targets>() {
        Ok(targets) => {
            let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(false).without_time();
            // An error means that there is a logger already.
            let _ = tracing_subscriber::registry().with(targets).with(layer).try_init();
        }
        Err(error) => eprintln!("DISC_LOG = `{filter}` is no filter: {error}"),
    }
}
