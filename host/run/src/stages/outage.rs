//! Outages: a server that does not answer, and batches whose episodes were all lost to failures outside of the plugins. The
//! run tries again after pauses, for at most `failures.outage_seconds`; then it ends and can be resumed.

use std::time::{Duration, Instant};

use gymkhana_orchestration::{RunError, RunResult};
use gymkhana_policy_server::ServerPool;

use crate::seats::weight_sync::{self, UpdateError};
use crate::stages::tally::BatchFailures;
use crate::stop::Halt;
use crate::training_run::TrainingRun;

/// First pause; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An outage in progress.
#[derive(Debug)]
pub(crate) struct Outage {
    since: Instant,
    limit: Duration,
    pauses: u32,
}

impl Outage {
    /// An outage that begins now and may last for `seconds`.
    pub fn begin(seconds: f64) -> Self {
        Self { since: Instant::now(), limit: Duration::from_secs_f64(seconds), pauses: 0 }
    }

    /// The next pause; `None` if the outage would last too long.
    fn next_pause(&mut self) -> Option<Duration> {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(16)).min(LONGEST_PAUSE);
        let left = self.limit.saturating_sub(self.since.elapsed());
        self.pauses += 1;
        (!left.is_zero()).then(|| pause.min(left))
    }
}

impl TrainingRun {
    /// Begins an outage.
    pub(super) fn begin_outage(&self) -> Outage {
        Outage::begin(self.file.rules.failures.outage_seconds)
    }

    /// Reports whether a server's last request failed in a way that may pass.
    pub(super) fn server_failed(&self) -> RunResult<bool> {
        weight_sync::check(&self.seats)
    }

    /// Counts the failures of a batch, waits, and gives the server its weights again, since it may have been started again.
    /// `what` names the batch.
    pub(super) async fn wait_for_recovery(
        &mut self,
        outage: &mut Outage,
        BatchFailures { tally, .. }: BatchFailures,
        what: &str,
    ) -> Result<(), Halt> {
        let last = tally.last.as_ref().map(|(id, failure)| format!("episode {id}: {failure}"));
        let problem = format!(
            "{} episodes of {what} were lost, none of them to a plugin: {}",
            tally.dropped,
            last.unwrap_or_default()
        );
        self.progress.tally.add(tally);
        self.episodes.sync()?;
        self.pause(outage, &problem).await?;
        self.seats.server().into_iter().for_each(ServerPool::forget_weights);
        self.push_weights().await
    }

    /// Pushes the weights, again while the server does not answer.
    pub(crate) async fn push_weights(&mut self) -> Result<(), Halt> {
        let mut outage = self.begin_outage();
        loop {
            match weight_sync::update(&self.seats, self.folder.reader().path()).await {
                Ok(()) => return Ok(()),
                Err(UpdateError::Failed(error)) => return Err(error.into()),
                Err(UpdateError::Silent(error)) => self.pause(&mut outage, &error.to_string()).await?,
            }
        }
    }

    /// Reports a problem and waits. A requested stop ends the wait; an outage that lasts too long ends the run.
    async fn pause(&self, outage: &mut Outage, problem: &str) -> Result<(), Halt> {
        let problem = problem.split("\nhint: ").next().unwrap_or(problem);
        let Some(pause) = outage.next_pause() else {
            let seconds = outage.limit.as_secs_f64();
            let out = self.folder.reader().path().display();
            let error =
                RunError::user(format!("an outage of more than failures.outage_seconds = {seconds}: {problem}"));
            let hint = format!("repair what failed, then continue with `host run --resume {out}`");
            return Err(Halt::Outage(error.with_hint(hint)));
        };
        self.reporter.warn(&format!("{problem}\nnext attempt in {} s", pause.as_secs_f64().ceil()));
        tokio::select! {
            () = self.stop.requested() => Err(Halt::Stopped),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_end_with_the_limit() {
        let mut long = Outage::begin(3600.0);
        let pauses: Vec<u64> = (0..7).filter_map(|_| long.next_pause()).map(|pause| pause.as_secs()).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        let mut short = Outage::begin(1.0);
        assert!(short.next_pause().is_some_and(|pause| pause <= Duration::from_secs(1)), "no longer than the limit");
        assert_eq!(Outage::begin(0.0).next_pause(), None);
    }
}
