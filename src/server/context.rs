//! What all routes share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::SensorSource;
use super::auth::Key;
use super::backend::Backend;
use super::error::ApiError;
use crate::engine::api::EngineError;
use crate::protocol::event::Sample;
use crate::protocol::state::Readiness;

/// Readers that `/spec/events` may have at once.
pub const MAX_EVENT_READERS: usize = 64;

/// Requests that may be tokenised at once; the engine's queue bounds them from there on.
const MAX_ADMITTING: usize = 32;

/// How old a sample may be when `/metrics` shows it.
const SAMPLE_AGE: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Context(Arc<Shared>);

impl std::ops::Deref for Context {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// See [`Context`].
pub(super) struct Shared {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) key: Option<Key>,
    pub(super) sensors: Option<SensorSource>,
    /// Ends event streams.
    pub(super) shutdown: CancellationToken,
    /// One permit a reader of `/spec/events`.
    pub(super) event_places: Arc<Semaphore>,
    /// One permit a request being tokenised.
    pub(super) admission: Arc<Semaphore>,
    last_sample: Mutex<Option<(Instant, Arc<Sample>)>>,
}

impl Context {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        key: Option<Key>,
        sensors: Option<SensorSource>,
        shutdown: CancellationToken,
    ) -> Self {
        Self(Arc::new(Shared {
            backend,
            key,
            sensors,
            shutdown,
            event_places: Arc::new(Semaphore::new(MAX_EVENT_READERS)),
            admission: Arc::new(Semaphore::new(MAX_ADMITTING)),
            last_sample: Mutex::new(None),
        }))
    }
}

impl Shared {
    /// Readers of `/spec/events` right now.
    pub(super) fn event_readers(&self) -> usize {
        MAX_EVENT_READERS - self.event_places.available_permits()
    }

    /// A new sample with the sensors' readings.
    pub(super) fn fresh_sample(&self) -> Arc<Sample> {
        let mut sample = self.backend.sample();
        if let Some(sensors) = &self.sensors {
            sample.sensors = sensors();
        }
        let sample = Arc::new(sample);
        *self.last_sample.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), sample.clone()));
        sample
    }

    /// The last sample if it is recent. The engine measures some rates from one sample to the next, so that a scrape
    /// must not take samples between those of the event stream.
    pub(super) fn recent_sample(&self) -> Arc<Sample> {
        let last = self.last_sample.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match last {
            Some((at, sample)) if at.elapsed() < SAMPLE_AGE => sample,
            _ => self.fresh_sample(),
        }
    }

    /// An error unless requests are answered.
    pub(super) fn check_ready(&self) -> Result<(), ApiError> {
        match self.backend.state().readiness {
            Readiness::Ready => Ok(()),
            Readiness::Failed { reason } => {
                Err(ApiError::Unavailable { code: "model_failed", message: reason, retry: false })
            }
            Readiness::Loading { what, .. } => Err(EngineError::Loading(what).into()),
        }
    }
}
