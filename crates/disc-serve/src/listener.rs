//! Accepts connections, with limits on what each client may cost.

use crate::options::ServeOptions;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use socket2::SockRef;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

/// Time until the next try after the system gave no connection: it is out of files.
const PAUSE: Duration = Duration::from_millis(50);
/// The most bytes of the head of a request.
const MAX_HEAD: usize = 64 << 10;

/// Serves connections until `stop` ends. Then it accepts no more, and waits for requests in
/// progress. Returns false if some were still running at the end of `drain_timeout`.
pub(crate) async fn serve(listener: TcpListener, router: Router, options: &ServeOptions, stop: impl Future<Output = ()>) -> bool {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(options.max_connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accept = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, accept(&listener, options.client_timeout).await)
        };
        let (permit, stream) = tokio::select! {
            next = accept => next,
            () = &mut stop => break,
        };
        let service = TowerToHyperService::new(router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(options.client_timeout).max_buf_size(MAX_HEAD);
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A client that breaks the protocol or goes away ends only its own connection.
            if let Err(error) = connection.await {
                tracing::debug!("a connection ended: {error}");
            }
            drop(permit);
        });
    }
    drop(listener);
    tokio::time::timeout(options.drain_timeout, graceful.shutdown()).await.is_ok()
}

async fn accept(listener: &TcpListener, client_timeout: Duration) -> TcpStream {
    loop {
        match listener.accept().await.and_then(|(stream, _)| limit(stream, client_timeout)) {
            Ok(stream) => return stream,
            Err(error) => {
                tracing::warn!("no connection was accepted: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Lets the system end a connection whose client takes no more of the answer.
fn limit(stream: TcpStream, client_timeout: Duration) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_user_timeout(Some(client_timeout))?;
    Ok(stream)
}
