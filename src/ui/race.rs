//! A race: one prompt in two modes, run one after the other, then replayed side by side from the times at which their
//! tokens came. It is a replay and says so: on one machine two runs at once would slow each other down.

use crate::protocol::mode::Mode;

use super::rounds::Traced;

/// Milliseconds that a finished race stays before an unattended one goes on.
const REST_MS: u64 = 6_000;
/// Milliseconds after which an unattended race tries again what failed.
const RETRY_MS: u64 = 5_000;

/// Prompts of unattended races: short, and of different kinds, since drafts are worth more in some than in others.
pub const PROMPTS: [&str; 5] = [
    "Write a Python function fibonacci(n) using iteration.",
    "What is a binary search tree?",
    "Explain the quicksort algorithm in 3 sentences.",
    "Write a Python function is_prime(n).",
    "Write a haiku about the sea.",
];

/// Halvings of the replay's speed at most.
pub const MOST_SLOW: u32 = 4;

/// Tokens that an answer of a race may have.
pub const MAX_TOKENS: usize = 200;

/// One of the two.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lane {
    /// Mode asked for.
    pub mode: Option<Mode>,
    /// Our tag of its request.
    pub tag: Option<u64>,
    /// The server's id of it.
    pub id: Option<String>,
    /// When our client had read the whole answer, our clock; the server's last word on it may still be under way.
    pub answered_ms: Option<u64>,
    /// What it did, once it ended.
    pub run: Option<Box<Traced>>,
}

/// Where the race is.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Stage {
    /// Nothing has been started.
    #[default]
    Idle,
    /// The lane with this number is being run.
    Running(usize),
    /// Both were run; the replay goes on since then.
    Replay {
        /// Our clock at its beginning.
        since_ms: u64,
    },
    /// It did not come to a replay.
    Failed {
        /// Why.
        why: String,
        /// Our clock when it failed.
        at_ms: u64,
    },
}

/// The race.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Race {
    /// Both lanes.
    pub lanes: [Lane; 2],
    /// Where it is.
    pub stage: Stage,
    /// The prompt.
    pub prompt: String,
    /// Runs by itself, one race after another.
    pub unattended: bool,
    /// Races run.
    pub round: usize,
    /// Modes chosen by hand for the lanes.
    pub chosen: [Option<Mode>; 2],
    /// The replay is slowed down: 0 is the true speed, each step halves it.
    pub slow: u32,
}

/// What to do next in an unattended race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Wait,
    /// Start the next race.
    Start,
}

/// What a lane shows at a moment of the replay.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Tokens that had come.
    pub tokens: usize,
    /// Rounds that had ended.
    pub rounds: usize,
    /// Tokens per second since the first token; absent before the second emission.
    pub tok_s: Option<f64>,
    /// The run is over; after how many milliseconds.
    pub finished_ms: Option<u64>,
}

/// What of a run had come `at_ms` milliseconds after it was begun.
pub fn progress(run: &Traced, at_ms: u64) -> Progress {
    let arrivals = run.arrivals();
    let came = arrivals.partition_point(|(at, _)| *at <= at_ms);
    let Some((last, tokens)) = came.checked_sub(1).map(|i| arrivals[i]) else { return Progress::default() };
    let (first, first_tokens) = arrivals[0];
    let done = came == arrivals.len();
    let tok_s = if done {
        run.decode_tok_s()
    } else {
        (last > first).then(|| (tokens - first_tokens) as f64 * 1e3 / (last - first) as f64)
    };
    Progress { tokens, rounds: came - usize::from(run.first.is_some()), tok_s, finished_ms: done.then_some(last) }
}

impl Race {
    /// The two modes: what was chosen, else plain decoding against the best that is on offer.
    pub fn modes(&self, offered: &[Mode]) -> [Mode; 2] {
        let best = [Mode::Ddtree, Mode::Dflash].into_iter().find(|m| offered.contains(m)).unwrap_or(Mode::Off);
        // Unattended races take turns.
        let other =
            if self.unattended && self.round % 2 == 1 && offered.contains(&Mode::Dflash) { Mode::Dflash } else { best };
        [self.chosen[0].unwrap_or(Mode::Off), self.chosen[1].unwrap_or(other)]
    }

    /// Begins: the first lane is to be run under this tag.
    pub fn begin(&mut self, prompt: String, modes: [Mode; 2], tag: u64) {
        self.prompt = prompt;
        self.lanes = modes.map(|mode| Lane { mode: Some(mode), ..Lane::default() });
        self.lanes[0].tag = Some(tag);
        self.stage = Stage::Running(0);
        self.round += 1;
    }

    /// The lane of a tag.
    pub fn lane(&mut self, tag: u64) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|l| l.tag == Some(tag))
    }

    /// The request of a lane ended. `Ok(true)`: the second one is to be run next.
    pub fn ended(&mut self, tag: u64, run: Result<Box<Traced>, String>, now_ms: u64) -> bool {
        let Stage::Running(at) = self.stage else { return false };
        if self.lanes[at].tag != Some(tag) {
            return false;
        }
        match run {
            Ok(run) if run.len() > 1 => {
                self.lanes[at].run = Some(run);
                if at == 0 {
                    self.stage = Stage::Running(1);
                    return true;
                }
                self.stage = Stage::Replay { since_ms: now_ms };
            }
            Ok(_) => self.fail("the answer had no tokens to race with".into(), now_ms),
            Err(why) => self.fail(why, now_ms),
        }
        false
    }

    /// Gives up.
    pub fn fail(&mut self, why: String, now_ms: u64) {
        self.stage = Stage::Failed { why, at_ms: now_ms };
    }

    /// Milliseconds of the runs that the replay has come to.
    pub fn elapsed(&self, now_ms: u64) -> Option<u64> {
        match self.stage {
            Stage::Replay { since_ms } => Some(now_ms.saturating_sub(since_ms) >> self.slow.min(MOST_SLOW)),
            _ => None,
        }
    }

    /// Milliseconds from the beginning of the slower run to its end.
    pub fn length_ms(&self) -> u64 {
        let last = |l: &Lane| l.run.as_ref().and_then(|r| r.arrivals().last().map(|a| a.0));
        self.lanes.iter().filter_map(last).max().unwrap_or(0)
    }

    /// True while pictures must follow each other quickly.
    pub fn animated(&self, now_ms: u64) -> bool {
        self.elapsed(now_ms).is_some_and(|at| at <= self.length_ms() + 500)
    }

    /// What an unattended race does now.
    pub fn next(&self, now_ms: u64) -> Next {
        let due = match &self.stage {
            Stage::Idle => true,
            Stage::Running(_) => false,
            Stage::Replay { since_ms } => now_ms >= since_ms + (self.length_ms() << self.slow.min(MOST_SLOW)) + REST_MS,
            Stage::Failed { at_ms, .. } => now_ms >= at_ms + RETRY_MS,
        };
        if self.unattended && due { Next::Start } else { Next::Wait }
    }

    /// Decoding speed of the second lane over that of the first.
    pub fn ratio(&self) -> Option<f64> {
        let speed = |l: &Lane| l.run.as_ref().and_then(|r| r.decode_tok_s());
        let (a, b) = (speed(&self.lanes[0])?, speed(&self.lanes[1])?);
        (a > 0.0).then_some(b / a)
    }
}
