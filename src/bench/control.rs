//! Pausing and stopping a run from outside.

use tokio::sync::watch;

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Go,
    Pause,
    Stop,
}

/// The user's side: cheap to clone. Dropping all of them changes nothing; the run goes on.
#[derive(Debug, Clone)]
pub struct Handle {
    wish: watch::Sender<Wish>,
}

/// The run's side.
#[derive(Debug, Clone)]
pub struct Control {
    wish: watch::Receiver<Wish>,
}

/// A handle, and what [`super::runner::run`] takes.
pub fn control() -> (Handle, Control) {
    let (send, receive) = watch::channel(Wish::Go);
    (Handle { wish: send }, Control { wish: receive })
}

impl Handle {
    /// Pauses after the requests that are under way, or goes on. Nothing after [`Handle::stop`].
    pub fn pause(&self, pause: bool) {
        self.wish.send_if_modified(|wish| {
            let wanted = if pause { Wish::Pause } else { Wish::Go };
            let changes = *wish != Wish::Stop && *wish != wanted;
            if changes {
                *wish = wanted;
            }
            changes
        });
    }

    /// Pauses, or goes on.
    pub fn toggle_pause(&self) {
        self.pause(!self.is_paused());
    }

    /// Whether a pause is asked for.
    pub fn is_paused(&self) -> bool {
        *self.wish.borrow() == Wish::Pause
    }

    /// Ends the run at once and keeps what was measured; requests under way are broken off and not counted.
    pub fn stop(&self) {
        self.wish.send_replace(Wish::Stop);
    }
}

impl Control {
    /// Whether the run is to end.
    pub fn is_stopped(&self) -> bool {
        *self.wish.borrow() == Wish::Stop
    }

    /// Whether nothing new is to be sent for now.
    pub fn is_paused(&self) -> bool {
        *self.wish.borrow() == Wish::Pause
    }

    /// Waits for another wish; for ever when nobody can have one any more.
    pub async fn changed(&mut self) {
        if self.wish.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the run is to end.
    pub async fn stopped(&mut self) {
        if self.wish.wait_for(|wish| *wish == Wish::Stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_is_final() {
        let (handle, mut control) = control();
        handle.toggle_pause();
        assert!(control.is_paused() && handle.is_paused());
        handle.toggle_pause();
        assert!(!control.is_paused());
        handle.stop();
        handle.pause(true);
        handle.pause(false);
        assert!(control.is_stopped());
        control.stopped().await;
        drop(handle);
        assert!(control.is_stopped());
    }
}
