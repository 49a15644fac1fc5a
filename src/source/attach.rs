//! Staying attached: find out which server answers, forward what it says, and begin again whenever that ends.

use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::error::SourceError;
use super::native::Client;
use super::outlet::{Gone, Outlet};
use super::probe::probe;
use super::sse::{Frame, Message};
use super::{Connection, ServerKind, Update, openai, sglang, vllm};
use crate::protocol::SCHEMA_VERSION;
use crate::protocol::event::Event;

/// Capacity that the reader's channel should have.
pub const CHANNEL_CAPACITY: usize = 1024;

/// Our server sends a sample every 250 ms: six missing ones mean that it is gone, even without a closed connection.
const SILENCE: Duration = Duration::from_millis(1500);

/// Time to find out which server answers, all requests together.
const PROBE_WAIT: Duration = Duration::from_secs(5);

/// First pause after a loss; it doubles up to [`MOST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// Why a connection is over.
#[derive(Debug)]
pub(super) enum Ended {
    /// Nobody listens any more.
    ReaderGone,
    /// The server is lost, for this reason.
    Lost(SourceError),
}

impl From<Gone> for Ended {
    fn from(Gone: Gone) -> Self {
        Ended::ReaderGone
    }
}

impl From<SourceError> for Ended {
    fn from(error: SourceError) -> Self {
        Ended::Lost(error)
    }
}

/// Attaches to the server and reports to `tx` for ever: connection changes and events, in order. It returns when it is
/// cancelled or nobody receives any more. The channel must be bounded ([`CHANNEL_CAPACITY`]): when the reader lags,
/// round events are dropped and reported as [`Event::Lagged`], everything else waits.
pub async fn attach(client: Client, tx: Sender<Update>, cancel: CancellationToken) {
    let run = async {
        let mut outlet = Outlet::new(tx);
        let mut pauses = Pauses::default();
        if outlet.connection(Connection::Connecting).await.is_err() {
            return;
        }
        loop {
            let Err(ended) = connect(&client, &mut outlet, &mut pauses).await;
            let Ended::Lost(error) = ended else { return };
            let retry_in = pauses.next();
            let lost = Connection::Lost { reason: reason(error), retry_in };
            if outlet.connection(lost).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep(retry_in) => {}
                () = outlet.gone() => return,
            }
        }
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = run => {}
    }
}

/// Who reads the reason knows the address already.
fn reason(error: SourceError) -> String {
    match error {
        SourceError::Unreachable { reason, .. } => reason,
        error => error.to_string(),
    }
}

/// One connection, from the first request to its loss.
async fn connect(client: &Client, outlet: &mut Outlet, pauses: &mut Pauses) -> Result<Never, Ended> {
    let late = || SourceError::Unreachable { url: client.url().to_owned(), reason: "no answer in time".into() };
    let found = timeout(PROBE_WAIT, probe(client)).await.map_err(|_| late())??;
    if found.kind == ServerKind::Native {
        return events(client, outlet, pauses).await;
    }
    outlet.connection(Connection::Connected { kind: found.kind }).await?;
    pauses.reset();
    match found.kind {
        ServerKind::Vllm => vllm::watch(client, &found, outlet).await,
        ServerKind::Sglang => sglang::watch(client, &found, outlet).await,
        ServerKind::OpenAi | ServerKind::Native => openai::watch(client, &found, outlet).await,
    }
}

/// Forwards the event stream of our own server.
async fn events(client: &Client, outlet: &mut Outlet, pauses: &mut Pauses) -> Result<Never, Ended> {
    let lost = |reason: &str| SourceError::Unreachable { url: client.url().to_owned(), reason: reason.to_owned() };
    let open = client.events("/spec/events", None);
    let mut stream = timeout(SILENCE, open).await.map_err(|_| lost("no answer in time"))??;
    outlet.connection(Connection::Connected { kind: ServerKind::Native }).await?;
    loop {
        match stream.next_within(SILENCE).await {
            None => return Err(lost("the server closed the connection").into()),
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(Frame::Comment)) => {}
            Some(Ok(Frame::Event(message))) => {
                // Only now is it sure that the server does more than accept connections.
                pauses.reset();
                forward(&message, outlet).await?;
            }
        }
    }
}

async fn forward(message: &Message, outlet: &mut Outlet) -> Result<(), Gone> {
    match Event::parse(&message.name, &message.data) {
        Ok(Some(event)) => {
            if let Event::Hello(state) = &event
                && state.schema > SCHEMA_VERSION
            {
                let version = state.version.clone();
                outlet.warn(format!("the server is newer ({version}): some of what it says may be missing")).await?;
            }
            outlet.event(event).await
        }
        // A newer server may have events that this version does not know.
        Ok(None) => Ok(()),
        Err(error) => outlet.unreadable(&message.name, &error).await,
    }
}

/// A connection ends only by an error.
pub(super) enum Never {}

/// Pauses between attempts: doubling, with jitter so that many dashboards do not come back in step.
#[derive(Debug, Default)]
struct Pauses {
    failures: u32,
}

impl Pauses {
    fn reset(&mut self) {
        self.failures = 0;
    }

    fn next(&mut self) -> Duration {
        let base = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(MOST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        base.mul_f64(rand::random_range(0.8..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most_and_start_over() {
        let mut pauses = Pauses::default();
        for expected in [250, 500, 1000, 2000, 2000, 2000] {
            let pause = pauses.next().as_millis();
            assert!((expected * 8 / 10..=expected).contains(&pause), "{pause} for {expected}");
        }
        pauses.failures = u32::MAX;
        assert!(pauses.next() <= MOST_PAUSE);
        pauses.reset();
        assert!(pauses.next() <= FIRST_PAUSE);
    }
}
