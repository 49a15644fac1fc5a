//! The one thread that owns the models: admission, batching, mode switches.
//!
//! Every turn takes in commands, admits requests, and runs one round of all running sessions in one target forward.
//! Prompts are prefilled in chunks that ride along with the decoding rows of the others, so that a long prompt delays
//! nobody by more than a chunk.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::protocol::event::{Event, FinishReason, Level, RequestEvent, RequestPhase};
use crate::protocol::mode::{Limits, Mode, ModeChange, ModeRequest, ModeSettings};

use super::api::{Delta, EngineError};
use super::backend::Backend;
use super::measure;
use super::rounds::{Core, Task, Work};
use super::session::{Clock, Queued, Session};
use super::shared::{Shared, Text, lock, now_ms};

/// Prompt rows in a forward that also decodes.
const PREFILL_BESIDE: usize = 64;
/// Prompt rows in a forward that does nothing else.
const PREFILL_ALONE: usize = 128;
/// Fewest prompt rows a session gets, so that many waiting prompts do not starve each other in slivers.
const PREFILL_LEAST: usize = 16;

/// Largest tree that `auto` considers.
const AUTO_NODES: usize = 31;

/// How long nobody may want anything before costs are measured unasked.
const BEFORE_MEASURING: Duration = Duration::from_secs(1);

/// What is answered, in part, to learn what drafts are worth: code and prose, since drafters differ most there.
const REHEARSAL: [&str; 2] = [
    "Write a Python function that checks whether a string is a palindrome.",
    "Explain in a few sentences why leaves change their colour in autumn.",
];

/// What handles ask of the thread.
pub enum Command {
    /// A new request.
    Submit(Box<Queued>),
    /// A mode switch, and where to answer.
    Mode(ModeRequest, oneshot::Sender<Result<ModeChange, EngineError>>),
    /// End.
    Stop,
}

/// The scheduler.
pub struct Scheduler<'a, B: Backend> {
    core: Core<B>,
    shared: Arc<Shared>,
    text: &'a Text,
    commands: &'a Receiver<Command>,
    settings: ModeSettings,
    limits: Limits,
    queue: VecDeque<Box<Queued>>,
    running: Vec<Session<B>>,
    round: u64,
    stop: bool,
}

/// Checks settings against the limits.
pub fn check(settings: &ModeSettings, limits: &Limits) -> Result<(), EngineError> {
    let invalid = |field, problem| Err(EngineError::Invalid { field, problem });
    if !limits.modes.contains(&settings.mode) {
        let offer: Vec<&str> = limits.modes.iter().map(|m| m.name()).collect();
        return invalid(
            "mode",
            format!("\"{}\" needs a drafter, and none is loaded; on offer: {}", settings.mode, offer.join(", ")),
        );
    }
    if !settings.mode.drafts() {
        return Ok(());
    }
    let [least, most] = limits.block_size;
    if !(least..=most).contains(&settings.block_size) {
        return invalid("block_size", format!("{} is outside {least} to {most}", settings.block_size));
    }
    let [least, most] = limits.tree_budget;
    if !(least..=most).contains(&settings.tree_budget) {
        return invalid("tree_budget", format!("{} is outside {least} to {most}", settings.tree_budget));
    }
    Ok(())
}

impl<'a, B: Backend> Scheduler<'a, B> {
    /// A scheduler over loaded models.
    pub fn new(
        core: Core<B>,
        shared: Arc<Shared>,
        text: &'a Text,
        commands: &'a Receiver<Command>,
        settings: ModeSettings,
        limits: Limits,
    ) -> Self {
        Self {
            core,
            shared,
            text,
            commands,
            settings,
            limits,
            queue: VecDeque::new(),
            running: Vec::new(),
            round: 0,
            stop: false,
        }
    }

    /// Runs until it is told to stop or every handle is gone. An error is the message of a panic: every client has
    /// then been told.
    pub fn run(&mut self) -> Result<(), String> {
        self.guarded(|own| own.prepare(&own.settings.clone()))?;
        while !self.stop {
            self.guarded(|own| {
                own.take_commands();
                own.drop_abandoned();
                own.admit();
                if !own.running.is_empty() {
                    own.turn();
                }
                own.publish_gauges();
            })?;
        }
        let now = self.shared.clock();
        for session in self.running.drain(..) {
            session.finish(FinishReason::Cancelled, self.settings, now, &self.shared);
        }
        for queued in self.queue.drain(..) {
            let _ = queued.client.send(Delta::Failed(EngineError::Stopped));
        }
        self.publish_gauges();
        Ok(())
    }

    /// Measuring for `auto` runs the models as a turn does: a device can fail in either, and clients must hear of it.
    fn guarded(&mut self, work: impl FnOnce(&mut Self)) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| work(self))).map_err(|panic| self.give_up(&*panic))
    }

    fn give_up(&mut self, panic: &(dyn std::any::Any + Send)) -> String {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown cause");
        for session in self.running.drain(..) {
            session.fail(EngineError::Internal(text.to_owned()), &self.shared);
        }
        for queued in self.queue.drain(..) {
            let _ = queued.client.send(Delta::Failed(EngineError::Internal(text.to_owned())));
        }
        self.publish_gauges();
        text.to_owned()
    }

    fn publish_gauges(&self) {
        self.shared.running.store(self.running.len(), Ordering::Relaxed);
        let used = self.running.iter().map(|s| s.sequence.cached).sum();
        // Reasons are told while `auto` decides for somebody, and for as long as it would for the next request.
        let asked = self.settings.mode == Mode::Auto
            || self.running.iter().any(|s| self.settings.with(s.wish).mode == Mode::Auto);
        let forecast = self.core.controller.as_ref().filter(|_| asked).and_then(|c| c.forecast());
        let mut facts = lock(&self.shared.facts);
        facts.kv_used = used;
        if facts.auto.as_ref() != forecast {
            facts.auto = forecast.cloned();
        }
    }

    fn take_commands(&mut self) {
        loop {
            let idle = self.running.is_empty() && self.queue.is_empty();
            let command = match (idle, self.may_prepare()) {
                (false, _) => self.commands.try_recv(),
                (true, false) => self.commands.recv().map_err(|RecvError| TryRecvError::Disconnected),
                (true, true) => match self.commands.recv_timeout(BEFORE_MEASURING) {
                    Err(RecvTimeoutError::Timeout) => {
                        self.prepare_now();
                        continue;
                    }
                    other => other.map_err(|_| TryRecvError::Disconnected),
                },
            };
            match command {
                Ok(Command::Submit(queued)) => {
                    let event = RequestEvent {
                        id: queued.id.clone(),
                        phase: RequestPhase::Queued,
                        at_ms: now_ms(),
                        prompt_tokens: queued.request.prompt.len(),
                        max_tokens: queued.request.max_tokens,
                        prompt_tail: None,
                        token: None,
                        finish_reason: None,
                        metrics: None,
                        error: None,
                    };
                    self.shared.publish(Event::Request(event));
                    self.queue.push_back(queued);
                }
                Ok(Command::Mode(wish, answer)) => {
                    // An error means that whoever asked has gone; the switch holds all the same.
                    let _ = answer.send(self.switch(wish));
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    self.stop = true;
                    return;
                }
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    fn switch(&mut self, wish: ModeRequest) -> Result<ModeChange, EngineError> {
        let settings = self.settings.with(wish);
        check(&settings, &self.limits)?;
        self.prepare(&settings);
        let change = ModeChange { settings, effective_round: self.round + 1, at_ms: now_ms() };
        if settings != self.settings {
            let what = self.settings.change_label(&settings);
            let message = format!("mode {what}, effective from round {}", change.effective_round);
            self.settings = settings;
            lock(&self.shared.facts).mode = settings;
            self.shared.log(Level::Info, "engine", message);
        }
        self.shared.publish(Event::Mode(change));
        Ok(change)
    }

    /// `auto` needs to know this machine's costs: they are measured while nobody asks for anything, or when somebody
    /// asks for `auto` before that.
    fn prepare(&mut self, settings: &ModeSettings) {
        if settings.mode == Mode::Auto && self.may_prepare() {
            self.prepare_now();
        }
    }

    fn may_prepare(&self) -> bool {
        self.core.controller.is_none() && self.core.drafter.is_some()
    }

    fn prepare_now(&mut self) {
        let started = Instant::now();
        let prompts = REHEARSAL.iter().filter_map(|text| {
            let message = serde_json::json!({"role": "user", "content": text});
            self.text.encode_chat(&[message], &serde_json::Map::new()).ok()
        });
        measure::prepare(&mut self.core, AUTO_NODES, prompts.collect());
        if let Some(controller) = &mut self.core.controller {
            let costs = controller.costs();
            let points: Vec<String> =
                [1, 2, 4, 8, 16, 32].iter().map(|&n| format!("{n}: {:.1}", costs.verify_ms(n, 64))).collect();
            let block = self.core.drafter.as_ref().map_or(0, |d| d.config.block_size);
            let message = format!(
                "measured for auto in {:.1} s: draft of {block} slots {:.1} ms, verify by rows {} ms; a drafting round is worth {:+.2} tokens over plain decoding",
                started.elapsed().as_secs_f64(),
                costs.draft_ms(block),
                points.join(", "),
                controller.habit().worth(),
            );
            self.shared.log(Level::Info, "engine", message);
        }
    }

    fn drop_abandoned(&mut self) {
        let now = self.shared.clock();
        let mut i = 0;
        while i < self.running.len() {
            if self.running[i].abandoned() {
                let session = self.running.remove(i);
                session.finish(FinishReason::Cancelled, self.settings, now, &self.shared);
            } else {
                i += 1;
            }
        }
        let before = self.queue.len();
        self.queue.retain(|queued| !queued.client.is_closed());
        let gone = before - self.queue.len();
        if gone > 0 {
            self.shared.waiting.fetch_sub(gone, Ordering::Relaxed);
            lock(&self.shared.stats).counters.requests_cancelled += gone as u64;
        }
    }

    fn admit(&mut self) {
        while self.running.len() < self.limits.max_running {
            let Some(mut queued) = self.queue.pop_front() else { return };
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            let prompt = std::mem::take(&mut queued.request.prompt);
            let max_len = prompt.len().saturating_add(queued.request.max_tokens).min(self.limits.context);
            let stops =
                if queued.request.ignore_eos { Vec::new() } else { self.core.target.config.stop_tokens.clone() };
            // First, since a sequence starts with what the controller knows.
            self.prepare(&self.settings.with(queued.request.mode));
            let sequence = self.core.sequence(prompt, max_len, stops, queued.request.sampling);
            let session = Session::start(*queued, sequence, self.shared.clock());
            self.shared.publish(Event::Request(session.started_event(self.text)));
            self.running.push(session);
        }
    }

    fn tasks(&self) -> Vec<Task> {
        let prefilling = self.running.iter().filter(|s| s.sequence.unfilled() > 0).count();
        let room = if prefilling == self.running.len() { PREFILL_ALONE } else { PREFILL_BESIDE };
        let share = (room / prefilling.max(1)).max(PREFILL_LEAST);
        self.running
            .iter()
            .map(|s| match s.sequence.unfilled() {
                0 => Task::Decode(self.settings.with(s.wish)),
                left => Task::Prefill(left.min(share)),
            })
            .collect()
    }

    /// One round of all running sessions.
    fn turn(&mut self) {
        self.round += 1;
        let started = self.shared.clock();
        let tasks = self.tasks();
        let mut work: Vec<Work<'_, B>> = self
            .running
            .iter_mut()
            .zip(&tasks)
            .map(|(session, &task)| Work { sequence: &mut session.sequence, task })
            .collect();
        let (outcomes, stages) = self.core.round(&mut work);
        drop(work);
        let now = self.shared.clock();
        let clock = Clock { round: self.round, now, stages };
        let mut steps = Vec::with_capacity(outcomes.len());
        let mut done = Vec::new();
        for (i, ((session, outcome), task)) in self.running.iter_mut().zip(&outcomes).zip(&tasks).enumerate() {
            let mode = match task {
                Task::Decode(settings) => Some(*settings),
                Task::Prefill(_) => None,
            };
            let (step, finished) = session.take(outcome, mode, clock, self.text, &self.shared);
            steps.push(step);
            if let Some(reason) = finished {
                done.push((i, reason));
            }
        }
        lock(&self.shared.stats).forward(now, now - started, stages, steps);
        for (i, reason) in done.into_iter().rev() {
            let session = self.running.remove(i);
            session.finish(reason, self.settings, self.shared.clock(), &self.shared);
        }
    }
}
