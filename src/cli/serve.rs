//! `spectop serve`: engine and server without a screen.

use std::io::{Write, stderr, stdout};
use std::pin::pin;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use super::loading::{self, Progress};
use super::{EngineArgs, Exit, Failure, ServeArgs};
use crate::engine::Engine;
use crate::engine::api::{EngineConfig, Resolve};
use crate::protocol::event::{Event, Level, LogLine};
use crate::protocol::state::{Readiness, State};
use crate::server::{self, Bound, SensorSource};

/// How often readiness is looked at while loading.
const LOOK: Duration = Duration::from_millis(100);

/// Time for work that is under way in the background when everything else has stopped.
const LEAVE: Duration = Duration::from_secs(1);

/// How the command line wants the engine.
pub fn engine_config(args: &EngineArgs) -> EngineConfig {
    EngineConfig {
        device: args.device,
        threads: args.threads,
        precision: args.dtype.into(),
        context: args.context,
        mode: args.mode_request(),
        ..EngineConfig::default()
    }
}

/// Where the command line wants the server.
pub fn server_options(args: &ServeArgs) -> server::Options {
    server::Options { host: args.host.clone(), port: args.port, api_key: args.api_key.clone() }
}

/// Serves until it is interrupted (exit code 130), terminated (0), or loading fails (2). The address goes to stdout
/// before anything is loaded, so that a script which started this can read it; all else goes to stderr.
pub fn run(
    engine: &EngineArgs,
    serve: &ServeArgs,
    resolve: Resolve,
    sensors: Option<SensorSource>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start the runtime: {error}")))?;
    let result = runtime.block_on(serve_until_told(engine_config(engine), serve, resolve, sensors));
    runtime.shutdown_timeout(LEAVE);
    result
}

async fn serve_until_told(
    config: EngineConfig,
    serve: &ServeArgs,
    resolve: Resolve,
    sensors: Option<SensorSource>,
) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let bound =
        server::bind(&server_options(serve)).await.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    say(&mut stdout(), &format!("listening on http://{}", bound.addr()));
    let bound = match sensors {
        Some(sensors) => Bound::with_sensors(bound, sensors),
        None => bound,
    };
    let engine = Engine::start(config, resolve);
    let shutdown = CancellationToken::new();
    let mut server = pin!(bound.run(engine.clone(), shutdown.clone()));
    let result = tokio::select! {
        result = server.as_mut() => return result.map_err(|error| Failure::new(Exit::Failed, error.to_string())),
        failure = report(&engine) => Err(failure),
        told = signals.wait() => told,
    };
    shutdown.cancel();
    let stopped = server.await.map_err(|error| Failure::new(Exit::Failed, error.to_string()));
    engine.shutdown();
    result.and(stopped)
}

/// Tells stderr how loading goes and what is logged. Returns when loading has failed, with the reason.
async fn report(engine: &Engine) -> Failure {
    let mut events = engine.subscribe();
    let mut look = interval_at(Instant::now(), LOOK);
    let mut told = Progress::default();
    let mut loading = true;
    loop {
        tokio::select! {
            event = events.recv() => match event.as_deref() {
                Ok(Event::Log(line)) => say(&mut stderr(), &log_line(line)),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Failure::new(Exit::Failed, "the engine has stopped"),
            },
            _ = look.tick(), if loading => {
                let state = engine.state();
                if let Some(failure) = loading::failure(&state) {
                    return failure;
                }
                match &state.readiness {
                    Readiness::Loading { what, fraction } => {
                        if let Some(line) = told.line(what, *fraction, std::time::Instant::now()) {
                            say(&mut stderr(), &line);
                        }
                    }
                    Readiness::Ready => {
                        loading = false;
                        say(&mut stderr(), &ready_line(&state));
                    }
                    Readiness::Failed { .. } => {}
                }
            }
        }
    }
}

fn ready_line(state: &State) -> String {
    let target = state.target.as_ref().map_or("no model", |m| m.name.as_str());
    let draft = state.draft.as_ref().map_or_else(|| "no drafter".into(), |m| format!("drafter {}", m.name));
    let notice = state.notice.as_ref().map_or_else(String::new, |n| format!("\nnote: {n}"));
    format!("ready: {target}, {draft}, mode {}{notice}", state.mode.label())
}

fn log_line(line: &LogLine) -> String {
    let level = match line.level {
        Level::Info => "info",
        Level::Warn => "warning",
        Level::Error => "error",
    };
    format!("{level}: {}: {}", line.source, line.message)
}

/// Prints a line. That nobody reads it any more is no reason to stop serving.
fn say(out: &mut impl Write, line: &str) {
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The signals that end the program.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(Exit::Failed, format!("cannot listen to signals: {error}")))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    #[cfg(unix)]
    async fn wait(&mut self) -> Result<(), Failure> {
        tokio::select! {
            _ = self.interrupt.recv() => Err(Failure::new(Exit::Interrupted, "interrupted")),
            _ = self.terminate.recv() => Ok(()),
        }
    }

    #[cfg(not(unix))]
    fn listen() -> Result<Self, Failure> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn wait(&mut self) -> Result<(), Failure> {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Err(Failure::new(Exit::Interrupted, "interrupted")),
            Err(error) => Err(Failure::new(Exit::Failed, format!("cannot listen to signals: {error}"))),
        }
    }
}
