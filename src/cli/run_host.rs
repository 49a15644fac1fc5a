//! Benchmark runs behind the dashboard: who carries them out, and how their words reach the screen.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::screen_loop::Pending;
use crate::protocol::run::{Run, RunOptions, RunProgress};
use crate::ui::app::{Effect, Msg};
use crate::ui::run::library::{ExportFormat, RunListItem};

/// Messages that may wait for the screen.
const MESSAGES: usize = 256;
/// Time for a run to write what was measured after the user left.
const LEAVE: Duration = Duration::from_secs(3);

/// Carries benchmarks out and keeps them. Errors are words for people.
pub trait RunHost: Send + Sync {
    /// Runs to the end and tells how it goes; the last word is [`RunProgress::Ended`] or [`RunProgress::Failed`]. An error
    /// is shown like `Failed`. One run at a time is asked for.
    fn start(&self, options: RunOptions, progress: mpsc::Sender<RunProgress>) -> Pending<Result<(), String>>;
    /// Makes the plan of a run ([`RunProgress::Planned`]) without sending anything.
    fn plan(&self, options: RunOptions) -> Pending<Result<RunProgress, String>>;
    /// Holds the run after the request under way, or lets it go on; answered by [`RunProgress::Paused`].
    fn pause(&self, paused: bool);
    /// Ends the run after the request under way and keeps what was measured.
    fn stop(&self);
    /// The runs that were kept.
    fn list(&self) -> Pending<Result<Vec<RunListItem>, String>>;
    /// Reads a run.
    fn load(&self, id: String) -> Pending<Result<Box<Run>, String>>;
    /// Writes a run in a format; returns the file's name.
    fn export(&self, id: String, format: ExportFormat) -> Pending<Result<String, String>>;
}

/// The host's side of a dashboard.
pub struct Runs {
    host: Option<Arc<dyn RunHost>>,
    screen: mpsc::Sender<Msg>,
    jobs: JoinSet<()>,
    live: JoinSet<()>,
}

impl Runs {
    /// Without a host every wish is refused; the receiver is what the screen must be told.
    pub fn new(host: Option<Arc<dyn RunHost>>) -> (Self, mpsc::Receiver<Msg>) {
        let (screen, messages) = mpsc::channel(MESSAGES);
        (Self { host, screen, jobs: JoinSet::new(), live: JoinSet::new() }, messages)
    }

    /// Whether there is a host.
    pub fn hosted(&self) -> bool {
        self.host.is_some()
    }

    /// Carries an effect of the bench and compare screens out; gives others back.
    pub fn take(&mut self, effect: Effect) -> Option<Effect> {
        while self.jobs.try_join_next().is_some() {}
        while self.live.try_join_next().is_some() {}
        let Some(host) = self.host.clone() else {
            return self.refuse(effect);
        };
        match effect {
            Effect::StartRun(options) => {
                self.live.spawn(drive(host, options, self.screen.clone()));
            }
            Effect::PlanRun(options) => self.answer(host.plan(options), Msg::Planned),
            Effect::PauseRun(paused) => host.pause(paused),
            Effect::StopRun => host.stop(),
            Effect::ListRuns => self.answer(host.list(), Msg::Runs),
            Effect::LoadRun(id) => self.answer(host.load(id), Msg::RunLoaded),
            Effect::Export { id, format } => self.answer(host.export(id, format), Msg::Exported),
            other => return Some(other),
        }
        None
    }

    /// The screens know that there is no host and ask nothing; should they ask, they are not left waiting.
    fn refuse(&mut self, effect: Effect) -> Option<Effect> {
        let none = || "benchmarks are not available on this attachment".to_owned();
        let msg = match effect {
            Effect::StartRun(_) => Msg::Run(RunProgress::Failed(none())),
            Effect::PlanRun(_) => Msg::Planned(Err(none())),
            Effect::ListRuns => Msg::Runs(Err(none())),
            Effect::LoadRun(_) => Msg::RunLoaded(Err(none())),
            Effect::Export { .. } => Msg::Exported(Err(none())),
            Effect::PauseRun(_) | Effect::StopRun => return None,
            other => return Some(other),
        };
        self.answer(std::future::ready(msg), |msg| msg);
        None
    }

    fn answer<T: Send + 'static>(
        &mut self,
        pending: impl Future<Output = T> + Send + 'static,
        msg: impl FnOnce(T) -> Msg + Send + 'static,
    ) {
        let screen = self.screen.clone();
        self.jobs.spawn(async move {
            let answer = pending.await;
            // Nobody listens any more only when the screen is closed.
            let _ = screen.send(msg(answer)).await;
        });
    }

    /// Ends what is under way. A run gets a moment to write what was measured. The receiver must be dropped before, or
    /// the run would wait for a screen that is gone.
    pub async fn close(mut self) {
        self.jobs.abort_all();
        while self.live.try_join_next().is_some() {}
        if let Some(host) = self.host.filter(|_| !self.live.is_empty()) {
            host.stop();
            let _ = tokio::time::timeout(LEAVE, self.live.join_next()).await;
        }
        self.live.abort_all();
    }
}

/// A run from its start to its last word. There always is a last word: the screen waits for it.
async fn drive(host: Arc<dyn RunHost>, options: RunOptions, screen: mpsc::Sender<Msg>) {
    let (send, mut progress) = mpsc::channel(MESSAGES);
    let mut run = JoinSet::new();
    run.spawn(host.start(options, send));
    let mut ended = false;
    while let Some(progress) = progress.recv().await {
        ended |= matches!(progress, RunProgress::Ended { .. } | RunProgress::Failed(_));
        let _ = screen.send(Msg::Run(progress)).await;
    }
    let why = match run.join_next().await {
        Some(Ok(Err(why))) => why,
        Some(Err(error)) => format!("the run broke off: {error}"),
        Some(Ok(Ok(()))) | None => "the run ended without a result".into(),
    };
    if !ended {
        let _ = screen.send(Msg::Run(RunProgress::Failed(why))).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Notify;

    use super::*;

    /// Ends as told; without that, when it is stopped.
    #[derive(Default)]
    struct Scripted {
        last: Mutex<Option<Result<(), String>>>,
        panics: bool,
        stopped: Arc<Notify>,
        wrote: Arc<AtomicBool>,
    }

    impl RunHost for Scripted {
        fn start(&self, _: RunOptions, progress: mpsc::Sender<RunProgress>) -> Pending<Result<(), String>> {
            let last = self.last.lock().expect("not poisoned").take();
            let (stopped, panics, wrote) = (Arc::clone(&self.stopped), self.panics, Arc::clone(&self.wrote));
            Box::pin(async move {
                let _ = progress.send(RunProgress::Paused(false)).await;
                assert!(!panics, "as told");
                if let Some(result) = last {
                    return result;
                }
                stopped.notified().await;
                // More than the screen could hold if nobody took it away.
                for _ in 0..2 * MESSAGES {
                    let _ = progress.send(RunProgress::Paused(false)).await;
                }
                wrote.store(true, Ordering::SeqCst);
                Ok(())
            })
        }
        fn plan(&self, _: RunOptions) -> Pending<Result<RunProgress, String>> {
            Box::pin(async { Ok(RunProgress::Paused(true)) })
        }
        fn pause(&self, _: bool) {}
        fn stop(&self) {
            self.stopped.notify_one();
        }
        fn list(&self) -> Pending<Result<Vec<RunListItem>, String>> {
            Box::pin(async { Ok(Vec::new()) })
        }
        fn load(&self, id: String) -> Pending<Result<Box<Run>, String>> {
            Box::pin(async move { Err(format!("{id} is gone")) })
        }
        fn export(&self, id: String, format: ExportFormat) -> Pending<Result<String, String>> {
            Box::pin(async move { Ok(format!("{id}.{}", format.ending())) })
        }
    }

    fn options() -> RunOptions {
        RunOptions {
            suites: vec!["story".into()],
            prompts: None,
            modes: vec!["off".into()],
            repeats: 1,
            concurrency: vec![1],
            temperature: 0.0,
            max_tokens: 8,
            seed: 1,
            timeout_s: 1.0,
        }
    }

    async fn last_word(host: Scripted) -> String {
        let (mut runs, mut messages) = Runs::new(Some(Arc::new(host)));
        assert!(runs.take(Effect::StartRun(options())).is_none());
        loop {
            match messages.recv().await.expect("a last word") {
                Msg::Run(RunProgress::Failed(why)) => return why,
                Msg::Run(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_run_always_has_a_last_word() {
        let failing = Scripted { last: Mutex::new(Some(Err("no such suite".into()))), ..Scripted::default() };
        assert_eq!(last_word(failing).await, "no such suite");
        let silent = Scripted { last: Mutex::new(Some(Ok(()))), ..Scripted::default() };
        assert!(last_word(silent).await.contains("without a result"));
        assert!(last_word(Scripted { panics: true, ..Scripted::default() }).await.contains("broke off"));
    }

    #[tokio::test]
    async fn answers_come_back_and_other_effects_too() {
        let (mut runs, mut messages) = Runs::new(Some(Arc::new(Scripted::default())));
        assert_eq!(runs.take(Effect::Redraw), Some(Effect::Redraw));
        runs.take(Effect::LoadRun("r1".into()));
        let Some(Msg::RunLoaded(Err(why))) = messages.recv().await else { panic!("an answer") };
        assert_eq!(why, "r1 is gone");
        runs.take(Effect::Export { id: "r1".into(), format: ExportFormat::Html });
        assert!(matches!(messages.recv().await, Some(Msg::Exported(Ok(file))) if file == "r1.html"));
    }

    #[tokio::test]
    async fn without_a_host_wishes_are_refused() {
        let (mut runs, mut messages) = Runs::new(None);
        assert!(!runs.hosted());
        runs.take(Effect::StartRun(options()));
        assert!(matches!(messages.recv().await, Some(Msg::Run(RunProgress::Failed(_)))));
        assert_eq!(runs.take(Effect::StopRun), None);
        assert_eq!(runs.take(Effect::Quit), Some(Effect::Quit));
    }

    #[tokio::test]
    async fn leaving_stops_a_run_and_lets_it_write() {
        let host = Scripted::default();
        let wrote = Arc::clone(&host.wrote);
        let (mut runs, messages) = Runs::new(Some(Arc::new(host)));
        runs.take(Effect::StartRun(options()));
        drop(messages);
        runs.close().await;
        assert!(wrote.load(Ordering::SeqCst));
    }
}
