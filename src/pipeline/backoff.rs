//! How long to wait before trying again.

use std::time::Duration;

/// Doubles from `initial` to `max`; reset by a success.
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// A back-off that has not been used.
    #[must_use]
    pub fn new(initial: Duration, max: Duration) -> Backoff {
        Backoff { initial, max, next: initial }
    }

    /// The delay before the next attempt.
    pub fn delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (self.next * 2).min(self.max);
        delay
    }

    /// Something worked.
    pub fn reset(&mut self) {
        self.next = self.initial;
    }
}

/// The delay after so many attempts of one thing that has no back-off of its own.
#[must_use]
pub fn delay_after(attempts: u32, initial: Duration, max: Duration) -> Duration {
    initial.saturating_mul(1 << attempts.saturating_sub(1).min(20)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_its_bound_and_starts_over() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(200), ms(1000));
        let delays: Vec<_> = (0..4).map(|_| backoff.delay()).collect();
        assert_eq!(delays, [ms(200), ms(400), ms(800), ms(1000)]);
        backoff.reset();
        assert_eq!(backoff.delay(), ms(200));
        assert_eq!(delay_after(1, ms(200), ms(1000)), ms(200));
        assert_eq!(delay_after(2, ms(200), ms(1000)), ms(400));
        assert_eq!(delay_after(u32::MAX, ms(200), ms(1000)), ms(1000));
    }
}
