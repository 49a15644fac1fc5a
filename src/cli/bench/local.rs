//! Engine and server in this process, for runs that name no server.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::{EngineArgs, Exit, Failure, generate, serve};
use crate::engine::Engine;
use crate::server::{self, Options};
use crate::source::Client;

/// Time for the server to end.
const LEAVE: Duration = Duration::from_secs(2);

/// A running engine with its server on a loopback port.
pub(super) struct Local {
    engine: Engine,
    url: String,
    shutdown: CancellationToken,
    serving: JoinHandle<Result<(), server::ServerError>>,
}

impl Local {
    /// Loads the models (progress goes to stderr) and serves them.
    pub async fn start(args: &EngineArgs) -> Result<Self, Failure> {
        let options = Options { host: "127.0.0.1".into(), port: 0, api_key: None };
        let bound = server::bind(&options).await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let engine = generate::ready_engine(serve::engine_config(args), args.resolve()).await?;
        let url = format!("http://{}", bound.addr());
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(bound.run(engine.clone(), shutdown.clone()));
        Ok(Self { engine, url, shutdown, serving })
    }

    /// A client of it.
    pub fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.url, None)?)
    }

    /// Ends both.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.engine.shutdown();
        let _ = tokio::time::timeout(LEAVE, self.serving).await;
    }
}
