//! The server's own events: a `sample` every 250 ms while someone listens, load progress, and a new `hello` when
//! readiness changes.

use std::mem::discriminant;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::context::Context;
use crate::protocol::event::{Event, Sample};
use crate::protocol::state::Readiness;

/// Time between samples.
const PERIOD: Duration = Duration::from_millis(250);

/// Runs until it is aborted.
pub(super) async fn run(context: Context) {
    let mut interval = interval(PERIOD);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // Followed also while nobody listens: who connects between two ticks must not miss the change.
    let mut known = context.backend.state().readiness;
    loop {
        interval.tick().await;
        let listened = context.event_readers() > 0;
        if listened || known != Readiness::Ready {
            let state = context.backend.state();
            let change = change(&known, &state.readiness);
            known = state.readiness.clone();
            match change {
                Change::None => {}
                Change::Progress => context.backend.publish(Event::Progress(state.readiness)),
                Change::Status => context.backend.publish(Event::Hello(Box::new(state))),
            }
        }
        if listened {
            let sample: Sample = (*context.fresh_sample()).clone();
            context.backend.publish(Event::Sample(Box::new(sample)));
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Change {
    None,
    Progress,
    Status,
}

fn change(before: &Readiness, now: &Readiness) -> Change {
    if discriminant(before) != discriminant(now) {
        Change::Status
    } else if before != now {
        Change::Progress
    } else {
        Change::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_status_are_told_apart() {
        let loading = |f| Readiness::Loading { what: "reading".into(), fraction: Some(f) };
        assert_eq!(change(&loading(0.1), &loading(0.1)), Change::None);
        assert_eq!(change(&loading(0.1), &loading(0.2)), Change::Progress);
        assert_eq!(change(&loading(0.9), &Readiness::Ready), Change::Status);
        assert_eq!(change(&Readiness::Ready, &Readiness::Failed { reason: "gone".into() }), Change::Status);
    }
}
