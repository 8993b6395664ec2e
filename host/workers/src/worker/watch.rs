//! Whether a run or a server on the bus goes on: its description is there, and its owner answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::Operation;
use bytes::Bytes;
use gymkhana_orchestration::Reporter;
use gymkhana_waits::Reminder;

use crate::bus::{Bus, Names, RunKey, SILENCE};
use crate::description::Description;
use crate::reply::{OwnerConnection, SendOutcome};

/// Time between two looks at the description.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Time after which a run that the bus does not know has ended. A bus that lost it gets it again from the trainer.
const LOST: Duration = Duration::from_secs(60);
/// Time in which the owner answers that it lives.
const ANSWERED: Duration = Duration::from_secs(2);

/// The reason for which the work on a run or a server is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// It ended.
    Ended,
    /// It has a new life: it was started again, or the bus had lost it.
    Renewed,
    /// The trainer or the server did not answer for the time that the worker waits.
    Lost,
    /// The worker was asked to stop.
    Stopped,
}

/// Whether the trainer or the server answers.
pub(crate) async fn owner_lives(owner: &OwnerConnection, names: &Names) -> bool {
    // An answer to an earlier question is none to this one.
    let Ok(question) = getrandom::u64() else { return false };
    let question = Bytes::copy_from_slice(&question.to_le_bytes());
    matches!(owner.ask(names.alive(), question, ANSWERED).await, SendOutcome::Answered(_))
}

/// One life of a run or a server.
pub(crate) struct Watch {
    pub bus: Bus,
    pub owner: Arc<OwnerConnection>,
    pub run: RunKey,
    pub names: Names,
    pub epoch: String,
    pub reporter: Arc<dyn Reporter>,
    /// Time for which the worker waits for an owner that does not answer.
    pub patience: Duration,
}

impl Watch {
    /// Waits until it has ended, has a new life, or has lost its owner.
    pub async fn until_over(&self) -> Over {
        let (mut known, mut answered) = (Instant::now(), Instant::now());
        let mut silence = Reminder::new(SILENCE);
        while known.elapsed() < LOST {
            tokio::time::sleep(POLL_INTERVAL).await;
            if owner_lives(&self.owner, &self.names).await {
                answered = Instant::now();
                silence.answered();
            } else if answered.elapsed() >= self.patience {
                return Over::Lost;
            }
            let runs = self.bus.runs().await;
            if let Some(waited) = silence.due() {
                self.report(waited, runs.is_ok());
            }
            let Ok(Some(runs)) = runs else {
                known = Instant::now();
                continue;
            };
            match runs.entry(self.run.to_string()).await {
                Ok(Some(entry)) if entry.operation == Operation::Put => match Description::parse(&entry.value) {
                    Ok(found) if found.epoch == self.epoch => known = Instant::now(),
                    _ => return Over::Renewed,
                },
                Ok(Some(_)) => return Over::Ended,
                // A bus without its disk gets it again from its owner.
                Ok(None) => {}
                // The bus is away; the owner may be there when it is back.
                Err(_) => known = Instant::now(),
            }
        }
        Over::Ended
    }

    /// Says who is silent.
    fn report(&self, waited: Duration, bus_answers: bool) {
        let (run, waited, most) = (&self.run, waited.as_secs(), self.patience.as_secs());
        self.reporter.warn(&if bus_answers {
            format!("the owner of run {run} has not answered for {waited} s; this worker leaves the run after {most} s")
        } else {
            format!(
                "the bus has not answered for {waited} s; this worker leaves run {run} after {most} s\nhint: check that \
                 nats-server runs and can be reached"
            )
        });
    }
}
