//! How loading goes, in lines, and what it means when it fails.

use std::time::{Duration, Instant};

use super::{Exit, Failure};
use crate::protocol::state::{Readiness, State};

/// Least time between two lines about the same step: a model that loads in a moment needs no running commentary.
const PAUSE: Duration = Duration::from_millis(500);

/// What has been said about loading: a line a step, and one a tenth of it where that takes long.
#[derive(Default)]
pub struct Progress {
    what: String,
    tenth: u8,
    said: Option<Instant>,
}

impl Progress {
    /// The line to say now, if there is anything new.
    pub fn line(&mut self, what: &str, fraction: Option<f64>, now: Instant) -> Option<String> {
        let tenth = fraction.map_or(0, |f| (f.clamp(0.0, 1.0) * 10.0) as u8);
        let soon = self.said.is_some_and(|at| now.duration_since(at) < PAUSE);
        if what == self.what && (tenth == self.tenth || soon) {
            return None;
        }
        self.said = Some(now);
        what.clone_into(&mut self.what);
        self.tenth = tenth;
        Some(match fraction {
            Some(f) => format!("{what} ({:.0} %)", f.clamp(0.0, 1.0) * 100.0),
            None => what.to_owned(),
        })
    }
}

/// How the program ends when the engine has failed. A pair that could not be loaded was the wrong thing to ask for; an
/// engine that had one and broke is a failure of ours.
pub fn failure(state: &State) -> Option<Failure> {
    let Readiness::Failed { reason } = &state.readiness else { return None };
    let exit = if state.target.is_none() { Exit::Usage } else { Exit::Failed };
    Some(Failure::new(exit, reason.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::engine::api::{EngineConfig, EngineError};

    #[test]
    fn progress_is_told_once_a_tenth() {
        let mut told = Progress::default();
        let now = Instant::now();
        assert_eq!(told.line("reading", None, now).as_deref(), Some("reading"));
        assert_eq!(told.line("reading", Some(0.9), now), None, "too soon");
        let now = now + PAUSE;
        assert_eq!(told.line("reading", Some(0.01), now), None);
        assert_eq!(told.line("reading", Some(0.11), now).as_deref(), Some("reading (11 %)"));
        assert_eq!(told.line("reading", Some(0.19), now + PAUSE), None);
        assert_eq!(told.line("checking", Some(0.19), now).as_deref(), Some("checking (19 %)"), "a new step");
    }

    #[test]
    fn a_pair_that_does_not_load_is_a_usage_error_everywhere() {
        let refuse = Box::new(|_: &mut dyn FnMut(Readiness)| Err(EngineError::Load("no such file".into())));
        let engine = Engine::start(EngineConfig::default(), refuse);
        let mut state = engine.state();
        while !matches!(state.readiness, Readiness::Failed { .. }) {
            std::thread::sleep(std::time::Duration::from_millis(1));
            state = engine.state();
        }
        let failure = failure(&state).expect("it has failed");
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Usage, "no such file"));
    }
}
