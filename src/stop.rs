//! One signal that says: finish what you are at, and end.

use std::time::Duration;

use tokio::sync::watch;

/// Tells everybody to stop.
#[derive(Debug, Clone)]
pub struct Stopper(watch::Sender<bool>);

/// Heard by everybody.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    /// A signal that has not been given.
    #[must_use]
    pub fn new() -> Stopper {
        Stopper(watch::Sender::new(false))
    }

    /// Gives it.
    pub fn set(&self) {
        self.0.send_replace(true);
    }

    /// Something that hears it.
    #[must_use]
    pub fn listen(&self) -> Stop {
        Stop(self.0.subscribe())
    }
}

impl Default for Stopper {
    fn default() -> Stopper {
        Stopper::new()
    }
}

impl Stop {
    /// Whether it was given.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once it is given.
    pub async fn given(&mut self) {
        // The sender's end is the end of the process, which is a signal as good.
        let _ = self.0.wait_for(|given| *given).await;
    }

    /// For threads: sleeps for `duration`, or until it is given.
    pub fn wait(&self, duration: Duration) {
        let step = Duration::from_millis(20);
        let mut left = duration;
        while !self.is_set() && !left.is_zero() {
            let nap = left.min(step);
            std::thread::sleep(nap);
            left -= nap;
        }
    }
}
