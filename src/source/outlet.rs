//! The way to the reader: a bounded channel. Round events, of which there are thousands a second, are dropped when the
//! reader lags, counted, and reported as `lagged`; everything else waits for its place.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::{Connection, Update, now_ms};
use crate::protocol::event::{Event, Lagged, Level, LogLine};

/// Least time between two complaints about events that cannot be read.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(5);

/// The reader has gone: nothing is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// The sending side.
#[derive(Debug)]
pub(super) struct Outlet {
    tx: Sender<Update>,
    dropped: u64,
    complained: Option<Instant>,
    unreadable: u64,
}

impl Outlet {
    pub(super) fn new(tx: Sender<Update>) -> Self {
        Self { tx, dropped: 0, complained: None, unreadable: 0 }
    }

    /// Waits until the reader has gone.
    pub(super) async fn gone(&self) {
        self.tx.closed().await;
    }

    /// The connection changed.
    pub(super) async fn connection(&mut self, connection: Connection) -> Result<(), Gone> {
        self.send(Update::Connection(connection)).await
    }

    /// The server said something.
    pub(super) async fn event(&mut self, event: Event) -> Result<(), Gone> {
        if !matches!(event, Event::Round(_)) {
            return self.send(Update::Event(event)).await;
        }
        if self.dropped > 0 {
            match self.tx.try_send(self.lagged()) {
                Ok(()) => self.dropped = 0,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Closed(_)) => return Err(Gone),
            }
        }
        match self.tx.try_send(Update::Event(event)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                self.dropped += 1;
                Ok(())
            }
            Err(TrySendError::Closed(_)) => Err(Gone),
        }
    }

    /// An event could not be read. The reader is told, but not a thousand times a second.
    pub(super) async fn unreadable(&mut self, name: &str, error: &serde_json::Error) -> Result<(), Gone> {
        self.unreadable += 1;
        if self.complained.is_some_and(|at| at.elapsed() < COMPLAINT_PAUSE) {
            return Ok(());
        }
        self.complained = Some(Instant::now());
        let message = match std::mem::take(&mut self.unreadable) {
            1 => format!("skipped a \"{name}\" event that cannot be read: {error}"),
            n => format!("skipped {n} events that cannot be read, the last one \"{name}\": {error}"),
        };
        self.warn(message).await
    }

    /// A warning from this side of the connection.
    pub(super) async fn warn(&mut self, message: String) -> Result<(), Gone> {
        let line = LogLine { at_ms: now_ms(), level: Level::Warn, source: "attach".into(), message };
        self.event(Event::Log(line)).await
    }

    async fn send(&mut self, update: Update) -> Result<(), Gone> {
        if self.dropped > 0 {
            self.tx.send(self.lagged()).await.map_err(|_| Gone)?;
            self.dropped = 0;
        }
        self.tx.send(update).await.map_err(|_| Gone)
    }

    fn lagged(&self) -> Update {
        Update::Event(Event::Lagged(Lagged { dropped: self.dropped }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::mode::Mode;
    use crate::protocol::state::StageTimes;
    use crate::protocol::trace::{Round, RoundEnd, Token};
    use tokio::sync::mpsc;

    fn round(number: u64) -> Event {
        Event::Round(Round {
            request: "r".into(),
            round: number,
            step: 0,
            mode: Mode::Off,
            proposed: Vec::new(),
            left_out: Vec::new(),
            accepted: vec![0],
            bonus: Token::new(1, b"x"),
            committed: vec![Token::new(1, b"x")],
            accepted_drafts: 0,
            end: RoundEnd::Plain,
            shadow_hit: None,
            stages: StageTimes::default(),
            rows: 1,
            context: 1,
            at_ms: 0,
        })
    }

    #[tokio::test]
    async fn rounds_are_dropped_and_counted_and_nothing_else_is() {
        let (tx, mut rx) = mpsc::channel(4);
        let mut outlet = Outlet::new(tx);
        for number in 0..10 {
            outlet.event(round(number)).await.unwrap();
        }
        let sender = tokio::spawn(async move {
            outlet.warn("after".into()).await.unwrap();
            outlet.event(round(10)).await.unwrap();
        });
        let mut seen = Vec::new();
        while let Some(update) = rx.recv().await {
            seen.push(match update {
                Update::Event(Event::Round(round)) => format!("round {}", round.round),
                Update::Event(Event::Lagged(lagged)) => format!("lagged {}", lagged.dropped),
                Update::Event(Event::Log(line)) => line.message,
                other => format!("{other:?}"),
            });
        }
        sender.await.unwrap();
        assert_eq!(seen, ["round 0", "round 1", "round 2", "round 3", "lagged 6", "after", "round 10"]);
    }

    #[tokio::test]
    async fn complaints_are_rare_and_a_gone_reader_is_noticed() {
        let (tx, mut rx) = mpsc::channel(64);
        let mut outlet = Outlet::new(tx);
        let error = serde_json::from_str::<u8>("x").unwrap_err();
        for _ in 0..20 {
            outlet.unreadable("round", &error).await.unwrap();
        }
        assert!(matches!(rx.try_recv(), Ok(Update::Event(Event::Log(_)))));
        assert!(rx.try_recv().is_err());
        drop(rx);
        assert_eq!(outlet.event(round(1)).await, Err(Gone));
        assert_eq!(outlet.warn("x".into()).await, Err(Gone));
    }
}
