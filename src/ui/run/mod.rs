//! What the bench and compare screens know: the plan being written, the run under way, the runs that were kept.

pub mod form;
pub mod library;
pub mod live;
pub mod modes;

use form::Form;
use live::Live;

use crate::protocol::run::{RunPlan, RunProgress};

/// Milliseconds that a question waits for its second key press.
const ASK_MS: u64 = 6_000;

/// Half of the bench screen that keys move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    /// The plan.
    #[default]
    Plan,
    /// Results and requests.
    Results,
}

/// A key that must be pressed twice while a run is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Stop the run.
    Stop,
    /// Leave the program.
    Quit,
}

/// What a dry run said.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The plan.
    pub plan: Box<RunPlan>,
    /// Requests to send.
    pub total: usize,
    /// Estimated seconds.
    pub estimate_s: Option<f64>,
}

/// The bench screen.
#[derive(Debug, Clone, Default)]
pub struct Bench {
    /// Whether this attachment can run benchmarks at all.
    pub hosted: bool,
    /// The plan being written.
    pub form: Form,
    /// The run under way, or the last one.
    pub live: Option<Box<Live>>,
    /// Half that keys move.
    pub pane: Pane,
    /// Answer of the last dry run, or why there is none.
    pub dry: Option<Result<DryRun, String>>,
    /// Requests scrolled up from the newest.
    pub scroll: usize,
    asked: Option<(Question, u64)>,
}

impl Bench {
    /// True from the start of a run to its end.
    pub fn running(&self) -> bool {
        self.live.as_ref().is_some_and(|l| l.running())
    }

    /// Asks a question, or finds that it was asked a moment ago: then true, and the deed may be done.
    pub fn confirmed(&mut self, question: Question, now_ms: u64) -> bool {
        let again = self.asked.take().is_some_and(|(q, until)| q == question && now_ms <= until);
        if !again {
            self.asked = Some((question, now_ms.saturating_add(ASK_MS)));
        }
        again
    }

    /// Takes the question back. True if there was one.
    pub fn take_back(&mut self) -> bool {
        self.asked.take().is_some()
    }

    /// The question that waits for its second key press.
    pub fn question(&self, now_ms: u64) -> Option<Question> {
        self.asked.filter(|(_, until)| now_ms <= *until).map(|(q, _)| q)
    }

    /// Takes the answer of a dry run in.
    pub fn planned(&mut self, answer: Result<RunProgress, String>) {
        self.dry = Some(match answer {
            Ok(RunProgress::Planned { plan, total, estimate_s }) => Ok(DryRun { plan, total, estimate_s }),
            Ok(RunProgress::Failed(why)) | Err(why) => Err(why),
            Ok(_) => Err("the plan was not told".into()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_holds_for_a_while_and_for_one_answer() {
        let mut bench = Bench::default();
        assert!(!bench.confirmed(Question::Stop, 0));
        assert_eq!(bench.question(100), Some(Question::Stop));
        assert!(!bench.confirmed(Question::Quit, 100), "another question");
        assert!(bench.confirmed(Question::Quit, 200));
        assert!(!bench.confirmed(Question::Quit, 300), "asked anew");
        assert!(!bench.confirmed(Question::Quit, 300 + ASK_MS + 1), "too late");
        assert!(bench.take_back() && !bench.take_back());
    }
}
