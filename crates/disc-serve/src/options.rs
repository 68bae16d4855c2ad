//! Options of a server, which are the arguments of a command line too.

use clap::{Args, Parser};
use std::{ffi::OsString, net::IpAddr, path::PathBuf, time::Duration};

/// Options of a server. Start from [`ServeOptions::new`].
#[derive(Clone, Debug, Args)]
pub struct ServeOptions {
    /// The package; its stem is the name of the model.
    pub package: PathBuf,
    /// The entry to serve.
    #[arg(long, default_value = "main")]
    pub entry: String,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// The port to listen on; 0 for one that is free.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Calls that run at once, each in a thread of its own with a session of its own.
    #[arg(long, value_parser = at_least_one, default_value_t = 1, value_name = "N")]
    pub workers: usize,
    /// The most threads of one call; by default the processors that the process may use, divided
    /// among the workers.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// The device to run on; `cpu` by default.
    #[arg(long)]
    pub device: Option<String>,
    /// The most rows that requests are joined to; 1 joins none. The rows of a model that is served
    /// with more must not depend on each other.
    #[arg(long, value_parser = at_least_one, default_value_t = 1, value_name = "N")]
    pub max_batch: usize,
    /// Milliseconds that a request waits at most for others to be joined with.
    #[arg(long = "max-delay-ms", value_parser = milliseconds, default_value = "2", value_name = "T")]
    pub max_delay: Duration,
    /// Requests that may wait; more are refused with status 503.
    #[arg(long, value_parser = at_least_one, default_value_t = 256, value_name = "N")]
    pub max_queue: usize,
    /// The most bytes of the body of a request; a larger one is refused with status 413.
    #[arg(long, default_value_t = 64 << 20, value_name = "BYTES")]
    pub max_body: usize,
    /// Connections that may be open at once; more wait to be accepted.
    #[arg(long, value_parser = at_least_one, default_value_t = 1024, value_name = "N")]
    pub max_connections: usize,
    /// Seconds that a client may take to send the head of a request, to send its body, or to
    /// receive a part of the answer.
    #[arg(long, value_parser = seconds, default_value = "30", value_name = "S")]
    pub client_timeout: Duration,
    /// Seconds that the server waits for requests in progress before it stops.
    #[arg(long, value_parser = seconds, default_value = "30", value_name = "S")]
    pub drain_timeout: Duration,
    /// A public ed25519 key in PEM; a package that its owner did not sign is refused.
    #[arg(long, value_name = "KEY.pem")]
    pub require_signature: Option<PathBuf>,
}

impl ServeOptions {
    /// Returns the defaults, which are those of the command line, for a package.
    pub fn new(package: impl Into<PathBuf>) -> Self {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            options: ServeOptions,
        }
        let arguments: [OsString; 3] = ["serve".into(), "--".into(), package.into().into()];
        Line::try_parse_from(arguments).expect("a package is all that a server needs").options
    }
}

/// Reads a number that is not zero.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| format!("`{text}` is no number of at least 1"))
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    whole(text).map(Duration::from_millis)
}

fn seconds(text: &str) -> Result<Duration, String> {
    whole(text).map(Duration::from_secs)
}

fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_command_line() {
        let options = ServeOptions::new("--odd name.discpkg");
        assert_eq!(options.package, PathBuf::from("--odd name.discpkg"));
        assert_eq!((options.port, options.max_queue, options.workers), (8000, 256, 1));
        assert_eq!((options.max_delay, options.client_timeout), (Duration::from_millis(2), Duration::from_secs(30)));
        assert!(at_least_one("0").is_err() && whole("-1").is_err());
    }
}
