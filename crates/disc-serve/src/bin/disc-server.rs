//! The command `disc-server`: serves one package, without the compiler.

use clap::Parser;
use disc_serve::{ServeOptions, serve};
use std::{net::IpAddr, path::PathBuf, process::ExitCode, time::Duration};
use tracing_subscriber::filter::LevelFilter;

/// Serves a package over HTTP by the Open Inference Protocol v2.
#[derive(Parser)]
#[command(name = "disc-server", version)]
struct Arguments {
    /// The package; its stem is the name of the model.
    package: PathBuf,
    /// The entry to serve.
    #[arg(long, default_value = "main")]
    entry: String,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 for one that is free.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Sessions that run at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    workers: usize,
    /// The most threads of one call.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The device to run on.
    #[arg(long)]
    device: Option<String>,
    /// The most rows that requests are joined to; the model's rows must not depend on each other.
    #[arg(long, default_value_t = 1, value_name = "N")]
    max_batch: usize,
    /// Milliseconds that a request waits for others to be joined with.
    #[arg(long, default_value_t = 2, value_name = "T")]
    max_delay_ms: u64,
    /// Requests that may wait.
    #[arg(long, default_value_t = 256, value_name = "N")]
    max_queue: usize,
    /// The most bytes of the body of a request.
    #[arg(long, default_value_t = 64 << 20, value_name = "BYTES")]
    max_body: usize,
    /// Connections that may be open at once.
    #[arg(long, default_value_t = 1024, value_name = "N")]
    max_connections: usize,
    /// Seconds that a client may take to send a request, or to receive a part of the answer.
    #[arg(long, default_value_t = 30, value_name = "S")]
    client_timeout: u64,
    /// Seconds that requests in progress may take after SIGTERM.
    #[arg(long, default_value_t = 30, value_name = "S")]
    drain_timeout: u64,
    /// A public ed25519 key in PEM; a package that its owner did not sign is refused.
    #[arg(long, value_name = "KEY.pem")]
    require_signature: Option<PathBuf>,
}

impl From<Arguments> for ServeOptions {
    fn from(arguments: Arguments) -> Self {
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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(LevelFilter::INFO).init();
    match serve(arguments.into()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error[{}]: {}", error.code(), error.message);
            ExitCode::FAILURE
        }
    }
}
