//! Benchmarks behind the screens: the same runner that `spectop bench run` drives.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::bench::runs;
use super::run_host::RunHost;
use super::screen_loop::Pending;
use crate::bench::export::{self, Format};
use crate::bench::journal;
use crate::bench::runner::{self, Handle, Setup, Start};
use crate::gpu::Sampler;
use crate::protocol::run::{Run, RunOptions, RunProgress};
use crate::source::Client;
use crate::ui::run::library::{ExportFormat, RunListItem};

/// Runs that are read for the list; older ones are found by `spectop bench list`.
const LISTED: usize = 100;

/// Carries out runs on the server that a dashboard is attached to.
pub struct BenchHost {
    client: Client,
    sampler: Arc<Sampler>,
    live: Arc<Mutex<Option<Handle>>>,
}

impl BenchHost {
    /// Runs go to this server.
    pub fn new(client: Client, sampler: Arc<Sampler>) -> Self {
        Self { client, sampler, live: Arc::default() }
    }

    fn setup(&self, options: RunOptions) -> Result<Setup, String> {
        let sampler = Arc::clone(&self.sampler);
        Ok(Setup {
            start: Start::New(options),
            client: Some(self.client.clone()),
            api_key: None,
            prefix_cache: None,
            folder: folder()?,
            sensors: Some(Arc::new(move || sampler.latest())),
        })
    }

    fn with_live(&self, act: impl FnOnce(&Handle)) {
        if let Some(handle) = self.live.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            act(handle);
        }
    }
}

fn folder() -> Result<PathBuf, String> {
    journal::default_folder().map_err(|error| error.to_string())
}

/// Reads a run from its file, away from the threads that serve the screen.
async fn load(id: String) -> Result<Box<Run>, String> {
    let read = move || runs::load(&id).map(Box::new).map_err(|failure| failure.message);
    tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?
}

impl RunHost for BenchHost {
    fn start(&self, options: RunOptions, progress: mpsc::Sender<RunProgress>) -> Pending<Result<(), String>> {
        let setup = self.setup(options);
        let live = Arc::clone(&self.live);
        Box::pin(async move {
            let (handle, control) = runner::control();
            *live.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
            let result = runner::run(setup?, progress, control).await;
            *live.lock().unwrap_or_else(PoisonError::into_inner) = None;
            result.map(|_| ()).map_err(|error| error.to_string())
        })
    }

    fn plan(&self, options: RunOptions) -> Pending<Result<RunProgress, String>> {
        let setup = self.setup(options);
        Box::pin(async move {
            let prepared = runner::prepare(&setup?).await.map_err(|error| error.to_string())?;
            Ok(RunProgress::Planned {
                plan: Box::new(prepared.plan.run.clone()),
                total: prepared.plan.requests().count(),
                estimate_s: prepared.estimate_s,
            })
        })
    }

    fn pause(&self, paused: bool) {
        self.with_live(|handle| handle.pause(paused));
    }

    fn stop(&self) {
        self.with_live(Handle::stop);
    }

    fn list(&self) -> Pending<Result<Vec<RunListItem>, String>> {
        let read = || -> Result<Vec<RunListItem>, String> {
            let listed = journal::list(&folder()?).map_err(|error| error.to_string())?;
            // One that cannot be read any more is left out, like those that `list` itself skips.
            let runs = listed.iter().take(LISTED).filter_map(|run| runs::load(&run.meta.id).ok());
            Ok(runs.map(|run| RunListItem::of(&run)).collect())
        };
        Box::pin(async move { tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())? })
    }

    fn load(&self, id: String) -> Pending<Result<Box<Run>, String>> {
        Box::pin(load(id))
    }

    fn export(&self, id: String, format: ExportFormat) -> Pending<Result<String, String>> {
        let format = match format {
            ExportFormat::Markdown => Format::Markdown,
            ExportFormat::Json => Format::Json,
            ExportFormat::Html => Format::Html,
            ExportFormat::Csv => Format::Csv,
        };
        Box::pin(async move {
            let run = load(id).await?;
            let write = move || -> Result<String, String> {
                let text = export::write(format, &run, None).map_err(|error| error.to_string())?;
                // Not among the runs: a run in JSON would be listed there a second time.
                let reports = folder()?.with_file_name("reports");
                std::fs::create_dir_all(&reports).map_err(|error| format!("{}: {error}", reports.display()))?;
                let file = reports.join(format!("{}.{}", run.meta.id, format.extension()));
                journal::write_whole(&file, text.as_bytes()).map_err(|error| error.to_string())?;
                Ok(file.display().to_string())
            };
            tokio::task::spawn_blocking(write).await.map_err(|error| error.to_string())?
        })
    }
}
