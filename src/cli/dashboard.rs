//! `spectop` alone: the engine and its server in this process, and the dashboard attached to them like to any other.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::serve::engine_config;
use super::{EngineArgs, Exit, Failure, ScreenArgs, attach, loading, screen_loop};
use crate::engine::Engine;
use crate::engine::api::Resolve;
use crate::server::{self, Options};
use crate::source::Client;

/// Time for the server to end its streams after the screen is closed.
const LEAVE: Duration = Duration::from_secs(2);

/// Runs engine, server and dashboard until the user leaves; with `demo`, races run by themselves.
pub fn run(engine: &EngineArgs, screen: &ScreenArgs, resolve: Resolve, demo: bool) -> Result<(), Failure> {
    // What would keep the dashboard from opening must be said before a model is loaded for nothing.
    screen_loop::check(screen)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    let result = runtime.block_on(run_all(engine, screen, resolve, demo));
    runtime.shutdown_timeout(LEAVE);
    result
}

async fn run_all(engine: &EngineArgs, screen: &ScreenArgs, resolve: Resolve, demo: bool) -> Result<(), Failure> {
    // Loopback only, on whatever port is free: two dashboards may run side by side.
    let options = Options { host: "127.0.0.1".into(), port: 0, api_key: None };
    let bound = server::bind(&options).await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let client = Client::new(&format!("http://{}", bound.addr()), None)?;
    let sampler = attach::sampler()?;
    let for_server = Arc::clone(&sampler);
    let bound = bound.with_sensors(Arc::new(move || for_server.latest()));
    let engine = Engine::start(engine_config(engine), resolve);
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(bound.run(engine.clone(), shutdown.clone()));
    let (mut attachment, attached) = attach::attach(&client, &sampler);
    attachment.demo = demo;
    let result = screen_loop::run_attached(attachment, screen).await;
    let failed = loading::failure(&engine.state());
    drop(attached);
    shutdown.cancel();
    engine.shutdown();
    // The screen is closed and the user waits for the prompt: a stream that does not end is left behind.
    let _ = tokio::time::timeout(LEAVE, serving).await;
    // What the screen said about a pair that could not be loaded went with the screen.
    result.and(failed.map_or(Ok(()), Err))
}
