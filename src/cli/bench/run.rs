//! `spectop bench run`.

use std::io::Write as _;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::local::Local;
use super::progress::Reporter;
use super::{MeasureArgs, RunArgs, output, runs, table};
use crate::bench::plan::Stage;
use crate::bench::runner::{self, Handle, Prepared, Setup, Start};
use crate::bench::{journal, modes};
use crate::cli::{EngineArgs, Exit, Failure, attach};
use crate::protocol::run::{Run, RunOptions, RunStatus};
use crate::source::Client;

/// Runs the subcommand.
pub fn run(engine: &EngineArgs, args: &RunArgs) -> Result<(), Failure> {
    modes::check(&args.modes).map_err(runner::BenchError::from)?;
    let start = match &args.resume {
        Some(id) => Start::Resume(id.clone()),
        None => Start::New(args.measure.options(args.modes.clone(), args.concurrency.clone())),
    };
    let Some(run) = measure(engine, args.url.as_deref(), &args.measure, start)? else { return Ok(()) };
    output::write(&run, &args.measure.output, &table::verdicts(&run))?;
    verdict(&run)
}

/// What the exit code says about a run.
pub(super) fn verdict(run: &Run) -> Result<(), Failure> {
    if run.meta.status == RunStatus::Stopped {
        let text =
            format!("stopped; what was measured is kept, go on with `spectop bench run --resume {}`", run.meta.id);
        return Err(Failure::new(Exit::Interrupted, text));
    }
    match runs::failed(run) {
        0 => Ok(()),
        n => {
            let text = format!("{n} of {} requests failed; see the warnings above", runs::measured(run));
            Err(Failure::new(Exit::FailedRequests, text))
        }
    }
}

/// Measures, and shows how it goes on stderr. Nothing comes back from a dry run.
pub(super) fn measure(
    engine: &EngineArgs,
    url: Option<&str>,
    args: &MeasureArgs,
    start: Start,
) -> Result<Option<Run>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    let result = runtime.block_on(measure_with(engine, url, args, start));
    // Whatever hangs in the background must not keep the user waiting.
    runtime.shutdown_background();
    result
}

async fn measure_with(
    engine: &EngineArgs,
    url: Option<&str>,
    args: &MeasureArgs,
    start: Start,
) -> Result<Option<Run>, Failure> {
    let folder = journal::default_folder()?;
    let mut local = None;
    let client = match url {
        Some(url) => Some(Client::new(url, args.api_key.as_deref())?),
        None if every_mode_has_a_server(&start, &folder)? => None,
        None => {
            let interrupted = async {
                let _ = tokio::signal::ctrl_c().await;
                Failure::new(Exit::Interrupted, "interrupted")
            };
            let started = tokio::select! {
                started = Local::start(engine) => started?,
                failure = interrupted => return Err(failure),
            };
            let client = started.client()?;
            local = Some(started);
            Some(client)
        }
    };
    let sampler = attach::sampler()?;
    let setup = Setup {
        start,
        client,
        api_key: args.api_key.clone(),
        prefix_cache: args.prefix_cache.map(Into::into),
        folder,
        sensors: Some(Arc::new(move || sampler.latest())),
    };
    let result =
        if args.dry_run { dry_run(&runner::prepare(&setup).await?).map(|()| None) } else { go(setup).await.map(Some) };
    if let Some(local) = local {
        local.stop().await;
    }
    result
}

async fn go(setup: Setup) -> Result<Run, Failure> {
    let (tx, mut progress) = mpsc::channel(64);
    let (handle, control) = runner::control();
    let signals = tokio::spawn(listen(handle));
    let mut reporter = Reporter::new();
    let telling = async {
        while let Some(progress) = progress.recv().await {
            reporter.tell(&progress);
        }
    };
    let (result, ()) = tokio::join!(runner::run(setup, tx, control), telling);
    signals.abort();
    Ok(result?)
}

/// The first Ctrl-C stops and keeps, the second quits at once.
async fn listen(handle: Handle) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    crate::cli::out::tell("\nstopping; what was measured is kept (Ctrl-C again to quit at once)");
    handle.stop();
    if tokio::signal::ctrl_c().await.is_ok() {
        // Every finished request is in the journal already.
        std::process::exit(i32::from(Exit::Interrupted as u8));
    }
}

/// Whether there is no mode for which a server has to be started here.
fn every_mode_has_a_server(start: &Start, folder: &std::path::Path) -> Result<bool, Failure> {
    Ok(match start {
        Start::New(RunOptions { modes, .. }) => !modes.is_empty() && modes.iter().all(|mode| mode.contains('=')),
        Start::Resume(id) => {
            let found = journal::find(folder, id, journal::is_open)?;
            let modes = match journal::Contents::read(&found.file.with_extension("jsonl")) {
                Ok(contents) => contents.header.plan.modes,
                // What is wrong with it is told when the run is opened.
                Err(_) => return Ok(true),
            };
            modes.iter().all(|mode| mode.url.is_some())
        }
    })
}

fn dry_run(prepared: &Prepared) -> Result<(), Failure> {
    let mut out = Vec::new();
    write_plan(&mut out, prepared).map_err(|error| Failure::new(Exit::Failed, format!("cannot write: {error}")))?;
    output::print(&String::from_utf8_lossy(&out))
}

fn write_plan(out: &mut Vec<u8>, prepared: &Prepared) -> std::io::Result<()> {
    let plan = &prepared.plan;
    let env = &prepared.env;
    writeln!(out, "server   {} {}", env.server, env.model.as_deref().unwrap_or("—"))?;
    for suite in &plan.run.suites {
        writeln!(out, "suite    {} ({} prompts, {})", suite.name, suite.prompts, suite.source)?;
    }
    let modes: Vec<&str> = plan.run.modes.iter().map(|mode| mode.label.as_str()).collect();
    writeln!(out, "modes    {} (baseline {})", modes.join(", "), modes.first().unwrap_or(&"—"))?;
    writeln!(out, "seed     {}, plan {}", plan.run.seed, plan.run.hash)?;
    for stage in &plan.stages {
        match stage {
            Stage::Warmup { mode, rounds } => {
                let concurrency = rounds.first().map_or(1, |round| round.concurrency);
                let label = &plan.run.modes[*mode].label;
                writeln!(out, "         warm-up {label} ×{concurrency}, 3 to {} rounds", rounds.len())?;
            }
            Stage::Batch(batch) => {
                for planned in batch.chains.iter().flatten() {
                    writeln!(out, "{:>7}  {}", planned.seq, plan.words(planned))?;
                }
            }
        }
    }
    let requests = plan.requests().count();
    write!(out, "{requests} requests at most")?;
    match prepared.estimate_s {
        Some(seconds) => writeln!(
            out,
            ", up to {} when every answer has its full length at {:.0} tok/s",
            table::duration(seconds),
            prepared.tok_s
        ),
        None => writeln!(out),
    }
}
