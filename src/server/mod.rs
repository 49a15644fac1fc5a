//! HTTP on top of the engine: OpenAI routes, telemetry, control.
//!
//! [`bind`] takes the port, so that its number is known and mistakes are told before models are loaded;
//! [`Bound::run`] serves until it is told to stop.

mod accept;
mod auth;
pub mod backend;
mod body;
mod context;
mod control;
mod error;
mod mode_request;
mod openai;
mod prometheus;
mod routes;
mod sse;
mod stall;
mod telemetry;
mod ticker;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use thiserror::Error;
use tokio::net::{TcpListener, lookup_host};
use tokio_util::sync::CancellationToken;

pub use body::MAX_BODY;
pub use context::MAX_EVENT_READERS;
pub use error::ApiError;

use crate::engine::Engine;
use crate::protocol::sensor::Sensors;
use auth::Key;
use backend::Backend;
use context::Context;

/// Gives the latest readings of GPUs and host. Called up to four times a second; must not block.
pub type SensorSource = Arc<dyn Fn() -> Sensors + Send + Sync>;

/// Where to listen.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address or name of one of this machine's interfaces.
    pub host: String,
    /// Port; 0 takes any free one.
    pub port: u16,
    /// Key that clients must send; needed unless the address is loopback. An empty one counts as none.
    pub api_key: Option<String>,
}

/// Why the server does not listen, or stopped.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Someone else listens there.
    #[error("port {port} on {host} is taken; choose another with --port, or 0 for any free one")]
    PortTaken {
        /// Address.
        host: String,
        /// Port.
        port: u16,
    },
    /// The system does not let this user listen there.
    #[error("this user may not listen on port {port} of {host}; choose a port above 1023 with --port")]
    Forbidden {
        /// Address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Anyone could connect.
    #[error(
        "{host} can be reached from other machines; set a key with --api-key (or SPECTOP_API_KEY), or listen on 127.0.0.1"
    )]
    KeyNeeded {
        /// Address.
        host: String,
    },
    /// The host is not an address of this machine.
    #[error("cannot listen on \"{host}\": {problem}; use an address of this machine, such as 127.0.0.1")]
    BadHost {
        /// As given.
        host: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Anything else.
    #[error("cannot listen on {host}:{port}: {source}")]
    Listen {
        /// Address.
        host: String,
        /// Port.
        port: u16,
        /// The system's answer.
        source: io::Error,
    },
}

/// A port that is taken, not yet served.
pub struct Bound {
    listener: TcpListener,
    addr: SocketAddr,
    key: Option<Key>,
    sensors: Option<SensorSource>,
}

/// Takes the port.
pub async fn bind(options: &Options) -> Result<Bound, ServerError> {
    let host = options.host.trim();
    let port = options.port;
    let key = options.api_key.as_deref().filter(|key| !key.is_empty());
    let addresses = addresses(host, port).await?;
    if key.is_none() && !addresses.iter().all(|a| a.ip().is_loopback()) {
        return Err(ServerError::KeyNeeded { host: host.to_owned() });
    }
    let listener = TcpListener::bind(addresses.as_slice()).await.map_err(|error| refused(host, port, error))?;
    let addr = listener.local_addr().map_err(|error| refused(host, port, error))?;
    Ok(Bound { listener, addr, key: key.map(Key::new), sensors: None })
}

async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, ServerError> {
    let bad = |problem: &str| ServerError::BadHost { host: host.to_owned(), problem: problem.to_owned() };
    let name = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if name.is_empty() {
        return Err(bad("it is empty"));
    }
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let found = lookup_host((name, port)).await.map_err(|error| bad(&error.to_string()))?;
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(bad("the name has no address")) } else { Ok(found) }
}

fn refused(host: &str, port: u16, error: io::Error) -> ServerError {
    let host = host.to_owned();
    match error.kind() {
        io::ErrorKind::AddrInUse => ServerError::PortTaken { host, port },
        io::ErrorKind::PermissionDenied => ServerError::Forbidden { host, port },
        io::ErrorKind::AddrNotAvailable => ServerError::BadHost { host, problem: error.to_string() },
        _ => ServerError::Listen { host, port, source: error },
    }
}

impl Bound {
    /// Where it listens, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Readings for `sample` events; without this they stay empty.
    #[must_use]
    pub fn with_sensors(mut self, sensors: SensorSource) -> Self {
        self.sensors = Some(sensors);
        self
    }

    /// Serves until `shutdown` is cancelled. Then no connection is accepted any more, event streams end, and running
    /// answers get a few seconds before they are cut off. The engine is left to the caller.
    pub async fn run(self, engine: Engine, shutdown: CancellationToken) -> Result<(), ServerError> {
        self.run_backend(Arc::new(engine), shutdown).await
    }

    /// [`Bound::run`] on anything that can play the engine.
    pub async fn run_backend(self, backend: Arc<dyn Backend>, shutdown: CancellationToken) -> Result<(), ServerError> {
        let context = Context::new(backend, self.key, self.sensors, shutdown.clone());
        let ticker = tokio::spawn(ticker::run(context.clone()));
        accept::serve(self.listener, routes::router(context), shutdown).await;
        ticker.abort();
        Ok(())
    }
}
