//! Doing a run: the plan is sent, measured, written and told, request by request.
//!
//! A screen or the command line calls [`run`] with a channel for [`RunProgress`] and keeps the [`Handle`] of
//! [`control`]. Nothing here waits for the reader of the channel while a request is being measured.

mod conversation;
mod endpoint;
mod notes;
mod pace;
mod session;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use self::endpoint::Endpoint;
use self::session::{Halt, Session};
pub use super::control::{Control, Handle, control};
use super::guard::Guard;
pub use super::guard::SensorSource;
use super::journal::{self, Header, Journal, JournalError};
use super::modes::{self, ModeError, Offer};
use super::plan::{Plan, PlanError, PrefixCache};
use super::suite::{self, SuiteError};
use super::{guard, summary};
use crate::protocol::run::{Environment, RUN_SCHEMA, RequestRecord, Run, RunMeta, RunOptions, RunProgress, RunStatus};
use crate::source::{Client, SourceError};

/// Speed that is assumed for an estimate when the server has not decoded anything yet, tokens per second.
pub const ASSUMED_TOK_S: f64 = 100.0;

/// What is to be run.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// A new run. Without modes, those that the server offers.
    New(RunOptions),
    /// The rest of one that was broken off: its id, or `last`.
    Resume(String),
}

/// Everything that a run needs.
#[derive(Clone)]
pub struct Setup {
    /// What.
    pub start: Start,
    /// The server, for modes that name none.
    pub client: Option<Client>,
    /// Key for servers that modes name.
    pub api_key: Option<String>,
    /// What to do about prefix caches; absent: what fits the server.
    pub prefix_cache: Option<PrefixCache>,
    /// Where runs are kept: [`journal::default_folder`].
    pub folder: PathBuf,
    /// Readings of this machine, if it is the server's.
    pub sensors: Option<SensorSource>,
}

/// Why a run cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The server.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The server will not be able to generate.
    #[error("the server cannot generate: {0}")]
    NotReady(String),
    /// No server is named.
    #[error("the mode \"{0}\" names no server, and no other is given")]
    NoServer(String),
    /// The prompts.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// The modes.
    #[error(transparent)]
    Mode(#[from] ModeError),
    /// The options.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The disk.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The run cannot be continued.
    #[error("the run {id} cannot go on: {problem}")]
    Resume {
        /// Its id.
        id: String,
        /// Why.
        problem: String,
    },
    /// The server went away.
    #[error("{reason}; what was measured is kept, go on with --resume {id}")]
    ServerGone {
        /// What it said last.
        reason: String,
        /// The run.
        id: String,
    },
    /// Stopped before it began.
    #[error("stopped before anything was measured")]
    Stopped,
    /// A bug.
    #[error("internal error: {0}")]
    Internal(String),
}

/// A plan, and the servers that it is for. Nothing was sent but questions.
pub struct Prepared {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The options, with the modes filled in.
    pub options: RunOptions,
    /// Where it would be done.
    pub env: Environment,
    /// Seconds that it may take, if every answer has its full length.
    pub estimate_s: Option<f64>,
    /// Speed on which the estimate is based, tokens per second.
    pub tok_s: f64,
    endpoints: Vec<Endpoint>,
    /// Endpoint of each mode.
    by_mode: Vec<usize>,
    resumed: Option<(Journal, Vec<RequestRecord>, RunMeta)>,
}

/// Makes the plan and asks the servers what they offer: a dry run ends here. A run to go on with is opened.
pub async fn prepare(setup: &Setup) -> Result<Prepared, BenchError> {
    match &setup.start {
        Start::New(options) => prepare_new(setup, options.clone()).await,
        Start::Resume(id) => prepare_resume(setup, id).await,
    }
}

async fn prepare_new(setup: &Setup, mut options: RunOptions) -> Result<Prepared, BenchError> {
    let main = match &setup.client {
        Some(client) => Some(Endpoint::open(client.clone()).await?),
        None => None,
    };
    let offer = main.as_ref().map_or_else(Offer::default, Endpoint::offer);
    if options.modes.is_empty() {
        options.modes = modes::default_words(&offer);
    }
    let specs = modes::read(&options.modes, &offer)?;
    let (endpoints, by_mode) = endpoint::open_all(main, &specs, setup.api_key.as_deref()).await?;
    let prefix_cache = match setup.prefix_cache {
        Some(policy) => policy,
        None if endpoints.iter().all(Endpoint::is_native) => PrefixCache::None,
        None => PrefixCache::AsIs,
    };
    let mut suites = Vec::new();
    for name in &options.suites {
        suites.push(suite::load(name, options.prompts).await?);
    }
    let plan = Plan::new(&options, specs, &suites, prefix_cache)?;
    finish(options, plan, endpoints, by_mode, None)
}

async fn prepare_resume(setup: &Setup, id: &str) -> Result<Prepared, BenchError> {
    let found = journal::find(&setup.folder, id, journal::is_open)?;
    let id = found.meta.id.clone();
    let refuse = |problem: &str| BenchError::Resume { id: id.clone(), problem: problem.to_owned() };
    if found.meta.status == RunStatus::Complete {
        return Err(refuse("it is complete"));
    }
    let path = found.file.with_extension("jsonl");
    if !path.is_file() {
        return Err(refuse("its journal is not there any more"));
    }
    let (journal, contents) = Journal::reopen(&path)?;
    let Header { meta, options, plan: kept, env, .. } = contents.header;
    let main = match &setup.client {
        Some(client) => Some(Endpoint::open(client.clone()).await?),
        None => None,
    };
    let (endpoints, by_mode) = endpoint::open_all(main, &kept.modes, setup.api_key.as_deref()).await?;
    let mut suites = Vec::new();
    for name in &options.suites {
        suites.push(suite::load(name, options.prompts).await?);
    }
    let policy = PrefixCache::parse(&kept.prefix_cache).ok_or_else(|| refuse("its plan is of another version"))?;
    let plan = Plan::new(&options, kept.modes.clone(), &suites, policy)?;
    if plan.run.hash != kept.hash {
        return Err(refuse("the prompts of its suites have changed"));
    }
    let prepared = finish(options, plan, endpoints, by_mode, Some((journal, contents.records, meta)))?;
    if prepared.env.model != env.model || prepared.env.server != env.server {
        let name = |env: &Environment| format!("{} on {}", env.model.as_deref().unwrap_or("?"), env.server);
        return Err(refuse(&format!("it was begun with {}, and this is {}", name(&env), name(&prepared.env))));
    }
    Ok(prepared)
}

fn finish(
    options: RunOptions,
    plan: Plan,
    endpoints: Vec<Endpoint>,
    by_mode: Vec<usize>,
    resumed: Option<(Journal, Vec<RequestRecord>, RunMeta)>,
) -> Result<Prepared, BenchError> {
    let first = by_mode.first().and_then(|at| endpoints.get(*at));
    let first = first.ok_or_else(|| BenchError::Internal("a plan without a server".into()))?;
    let env = first.environment();
    let tok_s = first.speed().unwrap_or(ASSUMED_TOK_S);
    let estimate_s = plan.estimate_s(tok_s);
    Ok(Prepared { plan: Arc::new(plan), options, env, estimate_s, tok_s, endpoints, by_mode, resumed })
}

/// Does a run. Progress goes to `tx` (nobody has to read it); the run is returned as it is kept. When the user stops it
/// through the handle, what was measured is kept too, with the status `stopped`.
pub async fn run(setup: Setup, tx: mpsc::Sender<RunProgress>, control: Control) -> Result<Run, BenchError> {
    let result = run_all(setup, &tx, control).await;
    if let Err(error) = &result {
        let _ = tx.send(RunProgress::Failed(error.to_string())).await;
    }
    result
}

async fn run_all(setup: Setup, tx: &mpsc::Sender<RunProgress>, mut control: Control) -> Result<Run, BenchError> {
    let prepared = tokio::select! {
        biased;
        () = control.stopped() => return Err(BenchError::Stopped),
        prepared = prepare(&setup) => prepared?,
    };
    // Of another machine these would say nothing.
    let local = prepared.endpoints.iter().all(Endpoint::is_local);
    let guard = Guard::start(setup.sensors.clone().filter(|_| local)).await;
    let mut prepared = prepared;
    let (journal, records, meta) = if let Some(resumed) = prepared.resumed.take() {
        resumed
    } else {
        let meta = new_meta(&prepared);
        prepared.env.sensors_before = guard.before();
        let header =
            Header::new(meta.clone(), prepared.options.clone(), prepared.plan.run.clone(), prepared.env.clone());
        (Journal::create(&setup.folder, &header)?, Vec::new(), meta)
    };
    let mut session = Session::new(prepared, journal, records, &meta, guard, tx.clone(), control);
    let outcome = session.run().await;
    let status = match outcome {
        Ok(()) => RunStatus::Complete,
        Err(Halt::Stopped) => RunStatus::Stopped,
        Err(Halt::Failed(error)) => return Err(error),
    };
    let meta = RunMeta { status, finished_ms: Some(journal::now_ms()), ..meta };
    let run = session.finish(meta).await?;
    let folder = setup.folder.clone();
    let (run, written) = blocking(move || {
        let written = journal::write_run(&folder, &run);
        (run, written)
    })
    .await?;
    let file = written?.display().to_string();
    let _ = tx.send(RunProgress::Ended { run: Box::new(run.clone()), file: Some(file) }).await;
    Ok(run)
}

fn new_meta(prepared: &Prepared) -> RunMeta {
    let started_ms = journal::now_ms();
    let suites: Vec<&str> =
        prepared.options.suites.iter().map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
    let modes: Vec<&str> = prepared.plan.run.modes.iter().map(|mode| mode.label.as_str()).collect();
    RunMeta {
        id: journal::new_id(started_ms),
        title: format!("{}: {}", suites.join("+"), modes.join(", ")),
        started_ms,
        finished_ms: None,
        status: RunStatus::Unfinished,
        made_by: concat!("spectop ", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

/// A run from what its journal holds, finished or not.
pub fn from_journal(contents: journal::Contents) -> Run {
    let Header { meta, plan, env, .. } = contents.header;
    let warnings = guard::drift_warning(&contents.records).into_iter().collect();
    assemble(meta, plan, env, contents.records, warnings)
}

fn assemble(
    meta: RunMeta,
    plan: crate::protocol::run::RunPlan,
    env: Environment,
    requests: Vec<RequestRecord>,
    warnings: Vec<String>,
) -> Run {
    Run {
        schema: RUN_SCHEMA.to_owned(),
        summary: summary::summarise(&requests),
        compare: summary::compare(&plan, &requests),
        meta,
        plan,
        env,
        requests,
        warnings,
    }
}

/// Work that would hold up everything else.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, BenchError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| BenchError::Internal(error.to_string()))
}
