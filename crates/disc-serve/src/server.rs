//! Starts the parts of a server and stops them in order.

use crate::{
    http::{App, router},
    listener,
    metrics::Metrics,
    model::Model,
    options::ServeOptions,
    queue::Queue,
    worker::Worker,
};
use disc_ral::{Error, code};
use std::{
    fmt::Display,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};
use tokio::{runtime, signal::unix};

/// A server whose model is loaded and whose port is open.
pub struct Server {
    options: ServeOptions,
    address: SocketAddr,
    /// Taken by [`Server::run`], so that the port is closed before the last requests are answered.
    listener: Option<TcpListener>,
    app: Arc<App>,
    workers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens the package, makes the sessions, and opens the port.
    ///
    /// # Errors
    /// A package that cannot be opened, an entry or a device that is not there, an address that
    /// cannot be used.
    pub fn new(options: ServeOptions) -> Result<Self, Error> {
        let model = Arc::new(Model::open(&options)?);
        let (queue, metrics) = (Arc::new(Queue::new(&options)), Arc::new(Metrics::default()));
        let sessions = (0..options.workers.max(1)).map(|_| model.session()).collect::<Result<Vec<_>, _>>()?;
        let wanted = SocketAddr::new(options.host, options.port);
        let open = || {
            let listener = TcpListener::bind(wanted)?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let opened = open().map_err(|error: io::Error| bad(format_args!("the address {wanted} cannot be used: {error}")));
        let (address, listener) = opened?;
        let app = Arc::new(App {
            model,
            queue,
            metrics,
            is_draining: AtomicBool::new(false),
            max_body: options.max_body,
            client_timeout: options.client_timeout,
        });
        let mut server = Self { options, address, listener: Some(listener), app, workers: Vec::new() };
        for session in sessions {
            server.start_worker(session)?;
        }
        Ok(server)
    }

    fn start_worker(&mut self, session: disc_ral::Session) -> Result<(), Error> {
        let App { model, queue, metrics, .. } = &*self.app;
        let worker = Worker { model: Arc::clone(model), queue: Arc::clone(queue), metrics: Arc::clone(metrics), session };
        let thread = thread::Builder::new().name("disc-worker".into()).spawn(|| worker.run());
        self.workers.push(thread.map_err(|error| bad(format_args!("no thread for a worker: {error}")))?);
        Ok(())
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        &self.app.model.name
    }

    /// Serves until `stop` ends, and then answers the requests in progress.
    ///
    /// # Errors
    /// The listener cannot be used in this runtime.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let listener = tokio::net::TcpListener::from_std(listener);
        let listener = listener.map_err(|error| bad(format_args!("the port cannot be used: {error}")))?;
        let app = Arc::clone(&self.app);
        let stop = async move {
            stop.await;
            app.is_draining.store(true, Ordering::Relaxed);
            tracing::info!("stopping: no more connections are accepted");
        };
        let router = router(Arc::clone(&self.app));
        let is_drained = listener::serve(listener, router, &self.options, stop).await;
        self.app.queue.close();
        if !is_drained {
            tracing::warn!("some requests were not answered in time");
            return Ok(());
        }
        for worker in std::mem::take(&mut self.workers) {
            // A worker answers panics itself.
            let _ = worker.join();
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.app.queue.close();
    }
}

/// Serves a package until the process is asked to end (SIGTERM or SIGINT), and then answers the
/// requests in progress.
///
/// # Errors
/// As [`Server::new`], and a system that gives no threads.
pub fn serve(options: ServeOptions) -> Result<(), Error> {
    let system = |error: io::Error| bad(format_args!("the server cannot run: {error}"));
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).thread_name("disc-http").enable_all().build();
    let runtime = runtime.map_err(system)?;
    let server = Server::new(options)?;
    let result = runtime.block_on(async {
        let mut terminate = unix::signal(unix::SignalKind::terminate()).map_err(system)?;
        let mut interrupt = unix::signal(unix::SignalKind::interrupt()).map_err(system)?;
        // Who reads this may end the process at once.
        eprintln!("serving `{}` at http://{}", server.model(), server.address());
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        server.run(stop).await
    });
    // A request that outlived the drain must not keep the process.
    runtime.shutdown_background();
    result
}

fn bad(message: impl Display) -> Error {
    Error::new(code::BAD_ARGUMENT, "", message.to_string())
}
