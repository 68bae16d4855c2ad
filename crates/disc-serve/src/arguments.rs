//! The command line of a server, for each program that serves.

use crate::ServeOptions;
use clap::Args;
use std::{net::IpAddr, path::PathBuf, time::Duration};

/// The arguments of a server.
#[derive(Clone, Debug, Args)]
pub struct ServeArguments {
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
    /// Sessions that run at once.
    #[arg(long, value_parser = at_least_one, default_value_t = 1, value_name = "N")]
    pub workers: usize,
    /// The most threads of one call.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// The device to run on.
    #[arg(long)]
    pub device: Option<String>,
    /// The most rows that requests are joined to; the model's rows must not depend on each other.
    #[arg(long, value_parser = at_least_one, default_value_t = 1, value_name = "N")]
    pub max_batch: usize,
    /// Milliseconds that a request waits for others to be joined with.
    #[arg(long, default_value_t = 2, value_name = "T")]
    pub max_delay_ms: u64,
    /// Requests that may wait.
    #[arg(long, value_parser = at_least_one, default_value_t = 256, value_name = "N")]
    pub max_queue: usize,
    /// The most bytes of the body of a request.
    #[arg(long, default_value_t = 64 << 20, value_name = "BYTES")]
    pub max_body: usize,
    /// Connections that may be open at once.
    #[arg(long, value_parser = at_least_one, default_value_t = 1024, value_name = "N")]
    pub max_connections: usize,
    /// Seconds that a client may take to send a request, or to receive a part of the answer.
    #[arg(long, default_value_t = 30, value_name = "S")]
    pub client_timeout: u64,
    /// Seconds that requests in progress may take after SIGTERM.
    #[arg(long, default_value_t = 30, value_name = "S")]
    pub drain_timeout: u64,
    /// A public ed25519 key in PEM; a package that its owner did not sign is refused.
    #[arg(long, value_name = "KEY.pem")]
    pub require_signature: Option<PathBuf>,
}

/// Reads a number that is not zero.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| format!("`{text}` is no number of at least 1"))
}

impl From<ServeArguments> for ServeOptions {
    fn from(arguments: ServeArguments) -> Self {
        ServeOptions {
            entry: arguments.entry,
            host: arguments.host,
            port: arguments.port,
            workers: arguments.workers,
            threads: arguments.threads,
            device: arguments.device,
            max_batch: arguments.max_batch,
            max_delay: Duration::from_millis(arguments.max_delay_ms),
            max_queue: arguments.max_queue,
            max_body: arguments.max_body,
            max_connections: arguments.max_connections,
            client_timeout: Duration::from_secs(arguments.client_timeout),
            drain_timeout: Duration::from_secs(arguments.drain_timeout),
            require_signature: arguments.require_signature,
            ..ServeOptions::new(arguments.package)
        }
    }
}
