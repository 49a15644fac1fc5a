//! Any other OpenAI-compatible server: its name and whether it answers. It tells nothing about its decoding.

use std::time::Duration;

use super::attach::{Ended, Never};
use super::foreign::{state, ticks};
use super::native::Client;
use super::outlet::Outlet;
use super::probe::Probe;
use crate::protocol::event::Event;

/// Time between two looks: rare, because the server may be somebody's paid service.
const PAUSE: Duration = Duration::from_secs(5);

/// Asks for the models until the server is lost.
pub(super) async fn watch(client: &Client, found: &Probe, outlet: &mut Outlet) -> Result<Never, Ended> {
    let notice = "An OpenAI-compatible server: it tells text and usage only. Acceptance, rounds and live mode \
                  switching need a spectop server.";
    outlet.event(Event::Hello(Box::new(state("openai", found, notice.into())))).await?;
    let mut ticks = ticks(PAUSE);
    ticks.tick().await;
    loop {
        tokio::select! {
            _ = ticks.tick() => client.get("/v1/models").await?.success().map(drop)?,
            () = outlet.gone() => return Err(Ended::ReaderGone),
        }
    }
}
