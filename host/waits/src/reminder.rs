//! Waits that go on: the program says so every so often.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// Time between two reminders after the first.
const AGAIN: Duration = Duration::from_secs(600);

/// Moments at which a wait without a bound is reported: after a first time, then every ten minutes.
#[derive(Debug, Clone)]
pub struct Reminder {
    first: Duration,
    since: Instant,
    next: Instant,
}

impl Reminder {
    /// A wait that begins now and is reported after `first`.
    #[must_use]
    pub fn new(first: Duration) -> Self {
        let since = Instant::now();
        Self { first, since, next: since + first }
    }

    /// Begins again: the counterpart has answered.
    pub fn answered(&mut self) {
        *self = Self::new(self.first);
    }

    /// Duration of the wait if it is to be reported now.
    pub fn due(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + AGAIN;
        Some(now - self.since)
    }
}

/// Waits without a bound, and passes the duration to `say` after `first` and then every ten minutes.
pub async fn reminding<F: Future>(first: Duration, future: F, mut say: impl FnMut(Duration)) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut reminder = Reminder::new(first);
    loop {
        tokio::select! {
            biased;
            output = &mut future => return output,
            () = tokio::time::sleep_until(reminder.next) => {}
        }
        if let Some(waited) = reminder.due() {
            say(waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_wait_without_a_bound_is_reported_every_so_often() {
        let mut said = vec![];
        let waited = reminding(30 * SECOND, tokio::time::sleep(1300 * SECOND), |waited| said.push(waited.as_secs()));
        waited.await;
        assert_eq!(said, [30, 630, 1230]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_begins_the_wait_again() {
        let mut reminder = Reminder::new(30 * SECOND);
        tokio::time::advance(29 * SECOND).await;
        assert_eq!(reminder.due(), None);
        tokio::time::advance(SECOND).await;
        assert_eq!((reminder.due(), reminder.due()), (Some(30 * SECOND), None));
        reminder.answered();
        tokio::time::advance(29 * SECOND).await;
        assert_eq!(reminder.due(), None);
        tokio::time::advance(SECOND).await;
        assert_eq!(reminder.due(), Some(30 * SECOND));
    }
}
