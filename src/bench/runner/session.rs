//! The loop of a run.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::conversation::Conversations;
use super::endpoint::Endpoint;
use super::notes::Notes;
use super::pace::Pace;
use super::{BenchError, Prepared, assemble, blocking};
use crate::bench::control::Control;
use crate::bench::guard::Guard;
use crate::bench::journal::{self, Journal};
use crate::bench::measure::{self, Broken, Figures, Measured, RETRIES, Sender};
use crate::bench::plan::{Batch, Plan, Planned, Stage};
use crate::bench::summary;
use crate::bench::warmup::Warmup;
use crate::protocol::run::{Environment, Purpose, RequestRecord, Run, RunMeta, RunProgress};
use crate::source::{ChatRequest, SourceError};

/// Least time between two looks at the figures so far.
const INTERIM: Duration = Duration::from_secs(1);

/// Why the loop ended early.
pub(super) enum Halt {
    Stopped,
    Failed(BenchError),
}

impl From<BenchError> for Halt {
    fn from(error: BenchError) -> Self {
        Halt::Failed(error)
    }
}

/// What a finished request gave.
struct Landed {
    chain: usize,
    planned: Planned,
    measured: Measured,
    energy_j: Option<f64>,
}

pub(super) struct Session {
    plan: Arc<Plan>,
    env: Environment,
    endpoints: Vec<Endpoint>,
    by_mode: Vec<usize>,
    senders: Vec<Sender>,
    id: String,
    begin: Instant,
    /// Of the run's clock at `begin`: a run that goes on counts from its first start.
    offset_ms: f64,
    records: Vec<RequestRecord>,
    done: HashSet<usize>,
    conversations: Conversations,
    /// Number of the next request that is not in the plan.
    extra: usize,
    resumed: bool,
    journal: Arc<Mutex<Journal>>,
    guard: Guard,
    tx: mpsc::Sender<RunProgress>,
    control: Control,
    pace: Pace,
    notes: Notes,
    interim: Option<Instant>,
}

impl Session {
    pub fn new(
        prepared: Prepared,
        journal: Journal,
        records: Vec<RequestRecord>,
        meta: &RunMeta,
        guard: Guard,
        tx: mpsc::Sender<RunProgress>,
        control: Control,
    ) -> Self {
        let Prepared { plan, options, env, estimate_s, endpoints, by_mode, .. } = prepared;
        let senders = by_mode
            .iter()
            .map(|at| Sender {
                client: endpoints[*at].client.clone(),
                timeout: Duration::from_secs_f64(options.timeout_s),
                retries: RETRIES,
                model: endpoints[*at].model(),
            })
            .collect();
        let done: HashSet<usize> = records.iter().map(|record| record.seq).collect();
        let extra = records.iter().map(|record| record.seq + 1).chain([plan.end()]).max().unwrap_or(0);
        let resumed = !records.is_empty();
        let offset_ms = journal::now_ms().saturating_sub(meta.started_ms) as f64;
        let pace = Pace::new(&plan, |planned| done.contains(&planned.seq), estimate_s);
        Self {
            conversations: Conversations::recall(&plan, &records),
            notes: Notes::new(&plan, &endpoints, &by_mode, resumed),
            plan,
            env,
            endpoints,
            by_mode,
            senders,
            id: meta.id.clone(),
            begin: Instant::now(),
            offset_ms: if resumed { offset_ms } else { 0.0 },
            records,
            done,
            extra,
            resumed,
            journal: Arc::new(Mutex::new(journal)),
            guard,
            tx,
            control,
            pace,
            interim: None,
        }
    }

    /// Sends everything that is not done yet.
    pub async fn run(&mut self) -> Result<(), Halt> {
        let plan = Arc::clone(&self.plan);
        let planned = RunProgress::Planned {
            plan: Box::new(plan.run.clone()),
            total: self.pace.total(),
            estimate_s: self.pace.eta_s(),
        };
        self.tell(planned).await;
        for (at, stage) in plan.stages.iter().enumerate() {
            match stage {
                Stage::Warmup { mode, rounds } => {
                    let concurrency = rounds.first().map_or(1, |round| round.concurrency);
                    if self.needs_warmth(&plan.stages[at..], *mode, concurrency) {
                        self.warm_up(*mode, rounds).await?;
                    }
                    self.pace.warm(*mode, concurrency);
                }
                Stage::Batch(batch) => {
                    let before = self.records.len();
                    self.batch(batch).await?;
                    if batch.ends_block && self.records.len() > before {
                        self.tell_interim().await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The run as it is kept.
    pub async fn finish(mut self, meta: RunMeta) -> Result<Run, BenchError> {
        self.env.sensors_after = self.guard.now();
        let warnings = self.notes.all(&self.guard, &self.records);
        let (plan, env, mut records) = (self.plan.run.clone(), self.env.clone(), std::mem::take(&mut self.records));
        records.sort_by(|a, b| a.sent_ms.total_cmp(&b.sent_ms));
        blocking(move || assemble(meta, plan, env, records, warnings)).await
    }

    /// Whether something of this mode is still to be sent at this concurrency.
    fn needs_warmth(&self, stages: &[Stage], mode: usize, concurrency: usize) -> bool {
        let batches = stages.iter().filter_map(|stage| match stage {
            Stage::Batch(batch) => Some(batch),
            Stage::Warmup { .. } => None,
        });
        batches.flat_map(|batch| batch.chains.iter().flatten()).any(|planned| {
            planned.mode == mode
                && (planned.concurrency == concurrency || planned.purpose == Purpose::Bracket)
                && !self.done.contains(&planned.seq)
        })
    }

    async fn warm_up(&mut self, mode: usize, rounds: &[Batch]) -> Result<(), Halt> {
        let mut warmup = Warmup::default();
        for round in rounds {
            if warmup.is_over() {
                break;
            }
            let mut round = round.clone();
            // A program that begins anew is cold again; what it sends now was not in the plan.
            for planned in round.chains.iter_mut().flatten().filter(|_| self.resumed) {
                planned.seq = self.extra;
                self.extra += 1;
            }
            let before = self.records.len();
            self.batch(&round).await?;
            let steps: Vec<f64> =
                self.records[before..].iter().filter_map(|record| Figures::step_ms(&record.chunks)).collect();
            warmup.round((!steps.is_empty()).then(|| steps.iter().sum::<f64>() / steps.len() as f64));
        }
        if !warmup.is_steady() {
            let label = self.plan.run.modes[mode].label.clone();
            self.notes
                .add(format!("{label}: step times still differed by more than 5 % after {} warm-ups", warmup.rounds()));
        }
        Ok(())
    }

    /// Sends a batch, so many at once. On return nothing is under way.
    async fn batch(&mut self, batch: &Batch) -> Result<(), Halt> {
        let mut waiting: VecDeque<(usize, usize)> = VecDeque::new();
        for (at, chain) in batch.chains.iter().enumerate() {
            if let Some(turn) = chain.iter().position(|planned| !self.done.contains(&planned.seq)) {
                waiting.push_back((at, turn));
            }
        }
        let mut flying: JoinSet<Landed> = JoinSet::new();
        let mut told_pause = false;
        loop {
            if self.control.is_stopped() {
                return Err(Halt::Stopped);
            }
            let paused = self.control.is_paused();
            if paused != told_pause && (flying.is_empty() || !paused) {
                told_pause = paused;
                self.tell(RunProgress::Paused(paused)).await;
            }
            while !paused && flying.len() < batch.concurrency {
                let Some((chain, turn)) = waiting.pop_front() else { break };
                let planned = batch.chains[chain][turn].clone();
                if let Some(request) = self.request(&planned) {
                    self.launch(&mut flying, chain, planned, request).await;
                } else {
                    let record = measure::unsent(&self.plan, &planned, self.clock_ms());
                    self.keep(&planned, record).await?;
                    next_turn(&mut waiting, batch, chain, turn);
                }
            }
            if flying.is_empty() && waiting.is_empty() {
                return Ok(());
            }
            // Dropping the set on a return breaks off what is under way.
            tokio::select! {
                () = self.control.changed() => {}
                Some(landed) = flying.join_next() => {
                    let landed = landed.map_err(|error| BenchError::Internal(error.to_string()))?;
                    let (chain, turn) = (landed.chain, landed.planned.turn);
                    self.land(landed).await?;
                    next_turn(&mut waiting, batch, chain, turn);
                }
            }
        }
    }

    async fn launch(&mut self, flying: &mut JoinSet<Landed>, chain: usize, planned: Planned, request: ChatRequest) {
        let sending = RunProgress::Sending {
            what: self.plan.words(&planned),
            done: self.pace.count(),
            total: self.pace.total(),
            eta_s: self.pace.eta_s(),
        };
        self.tell(sending).await;
        let sender = self.senders[planned.mode].clone();
        // Among several at once nobody can tell whose energy it was.
        let energy = self.guard.energy_j().filter(|_| planned.concurrency == 1);
        flying.spawn(async move {
            let measured = sender.send(&request).await;
            Landed { chain, planned, measured, energy_j: energy }
        });
    }

    async fn land(&mut self, landed: Landed) -> Result<(), Halt> {
        let Landed { planned, measured, energy_j, .. } = landed;
        if let Err(Broken::Source(error @ SourceError::Unreachable { .. })) = &measured.seen.end
            && self.senders[planned.mode].client.ping().await.is_err()
        {
            // A dead server says nothing about a mode: the request stays to be done.
            let error = BenchError::ServerGone { reason: error.to_string(), id: self.id.clone() };
            return Err(error.into());
        }
        let energy = energy_j.and_then(|before| Some(self.guard.energy_j()? - before)).filter(|used| *used >= 0.0);
        // With failed attempts before it, the counter has seen more than this request.
        let energy = energy.filter(|_| measured.failures.is_empty());
        for (at, failure) in measured.failures.iter().enumerate() {
            self.notes.add(format!("{}: attempt {} failed: {failure}", self.plan.words(&planned), at + 1));
        }
        let since = measured.seen.sent.saturating_duration_since(self.begin).as_secs_f64() * 1e3;
        let record = measure::record(&self.plan, &planned, measured, self.offset_ms + since, energy);
        self.notes.check(&self.plan, &planned, &record);
        self.keep(&planned, record).await
    }

    /// Writes a record and tells of it.
    async fn keep(&mut self, planned: &Planned, record: RequestRecord) -> Result<(), Halt> {
        let journal = Arc::clone(&self.journal);
        let (record, written) = blocking(move || {
            let written = journal.lock().unwrap_or_else(PoisonError::into_inner).append(&record);
            (record, written)
        })
        .await?;
        written.map_err(BenchError::from)?;
        self.done.insert(record.seq);
        if record.purpose == Purpose::Warmup {
            self.pace.warmed(planned);
        } else {
            self.pace.done(planned, record.e2e_ms);
        }
        if record.purpose == Purpose::Measure {
            self.conversations.keep(planned, &record);
        }
        self.records.push(record.clone());
        self.tell(RunProgress::Done(Box::new(record))).await;
        Ok(())
    }

    /// The request of a planned turn; `None` when the turn before it gave no answer.
    fn request(&self, planned: &Planned) -> Option<ChatRequest> {
        let messages = self.conversations.messages(&self.plan, planned, &self.id)?;
        let endpoint = &self.endpoints[self.by_mode[planned.mode]];
        let run = &self.plan.run;
        Some(ChatRequest {
            messages,
            model: endpoint.asked_model(),
            max_tokens: Some(planned.max_tokens),
            temperature: Some(run.temperature),
            seed: (run.temperature > 0.0).then(|| run.seed.wrapping_add(planned.repeat as u64)),
            mode: run.modes[planned.mode].request,
            trace: endpoint.is_native(),
            continuous_usage: endpoint.counts_continuously(),
            ..ChatRequest::default()
        })
    }

    async fn tell_interim(&mut self) -> Result<(), BenchError> {
        if self.interim.is_some_and(|last| last.elapsed() < INTERIM) || self.tx.is_closed() {
            return Ok(());
        }
        let (plan, records) = (self.plan.run.clone(), std::mem::take(&mut self.records));
        let (records, summary, compare) = blocking(move || {
            let (summary, compare) = (summary::summarise(&records), summary::compare(&plan, &records));
            (records, summary, compare)
        })
        .await?;
        self.records = records;
        self.interim = Some(Instant::now());
        let warnings = self.notes.all(&self.guard, &self.records);
        self.tell(RunProgress::Interim { summary, compare, warnings }).await;
        Ok(())
    }

    fn clock_ms(&self) -> f64 {
        self.offset_ms + self.begin.elapsed().as_secs_f64() * 1e3
    }

    /// That nobody listens any more is no reason to stop measuring.
    async fn tell(&self, progress: RunProgress) {
        let _ = self.tx.send(progress).await;
    }
}

/// A conversation goes on before another is begun.
fn next_turn(waiting: &mut VecDeque<(usize, usize)>, batch: &Batch, chain: usize, turn: usize) {
    if turn + 1 < batch.chains[chain].len() {
        waiting.push_front((chain, turn + 1));
    }
}
