//! Options of a server.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

/// Options of a server. Start from [`ServeOptions::new`].
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The file of the package. Its stem is the name of the model.
    pub package: PathBuf,
    /// The entry that is served.
    pub entry: String,
    /// The address to listen on.
    pub host: IpAddr,
    /// The port to listen on; 0 for one that is free.
    pub port: u16,
    /// Sessions that run at once, each in a thread of its own.
    pub workers: usize,
    /// The most threads of one call; by default the processors that the process may use, divided
    /// among the workers.
    pub threads: Option<usize>,
    /// The device to run on; `cpu` by default.
    pub device: Option<String>,
    /// The most rows that requests are joined to; 1 joins none. The rows of a model that is served
    /// with more must not depend on each other.
    pub max_batch: usize,
    /// The longest time that a request waits for others to be joined with.
    pub max_delay: Duration,
    /// Requests that may wait; more are refused with status 503.
    pub max_queue: usize,
    /// The most bytes of the body of a request; a larger one is refused with status 413.
    pub max_body: usize,
    /// Connections that may be open at once; more wait to be accepted.
    pub max_connections: usize,
    /// The longest time that a client may take to send the head of a request, to send its body, or
    /// to receive a part of the answer.
    pub client_timeout: Duration,
    /// The longest time that the server waits for requests in progress before it stops.
    pub drain_timeout: Duration,
    /// A public ed25519 key in PEM; a package that its owner did not sign is refused.
    pub require_signature: Option<PathBuf>,
}

impl ServeOptions {
    /// Returns the defaults for a package.
    pub fn new(package: impl Into<PathBuf>) -> Self {
        Self {
            package: package.into(),
            entry: "main".into(),
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8000,
            workers: 1,
            threads: None,
            device: None,
            max_batch: 1,
            max_delay: Duration::from_millis(2),
            max_queue: 256,
            max_body: 64 << 20,
            max_connections: 1024,
            client_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            require_signature: None,
        }
    }
}
