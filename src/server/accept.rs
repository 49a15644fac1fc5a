//! Connections: how many, how long a head may take, how they end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::stall::WriteStall;

/// Connections at once. One more waits in the system's backlog.
const MAX_CONNECTIONS: usize = 512;

/// Time for a request's head, counted also while a kept-alive connection is idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of a request's head, and of a response that wait for a slow reader.
const MAX_BUFFER: usize = 64 * 1024;

/// How long a reader may take nothing of an answer before it counts as gone.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// How long running answers may go on after a shutdown.
const GRACE: Duration = Duration::from_secs(3);

/// Serves until `shutdown`, and is over within [`GRACE`] after it.
pub(super) async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        if let Some((stream, place)) = accepted {
            connections.spawn(connection(stream, place, router.clone(), shutdown.clone()));
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    if timeout(GRACE, finished).await.is_err() {
        // Dropping a connection drops its generation, which cancels it.
        connections.shutdown().await;
    }
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            debug!("accept: {error}");
            // Out of file descriptors, most likely: spinning would not free any.
            sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, _place: OwnedSemaphorePermit, router: Router, shutdown: CancellationToken) {
    // Tokens are small writes that must not wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        debug!("nodelay: {error}");
    }
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(WriteStall::new(stream, STALL_TIMEOUT)), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        biased;
        result = connection.as_mut() => result,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        debug!("connection: {error}");
    }
}
