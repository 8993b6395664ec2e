//! Ends of a job without a result: told by its episodes, or by the worker, which leaves.

use tokio::sync::watch;

use crate::messages::PolicyCallRefusal;

/// The reason for which a job ends without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The trainer has a result, or gave it up: it needs no further worker.
    Settled,
    /// Another worker has it.
    Superseded,
    /// This worker leaves: another one may have it.
    Leaves,
    /// The trainer refused a call of it.
    Refused(PolicyCallRefusal),
}

/// Ends the job, which drops the episode that waits here.
pub(super) async fn end<T>(ends: &watch::Sender<Option<Ends>>, why: Ends) -> T {
    ends.send_replace(Some(why));
    std::future::pending().await
}

/// The reason for which a job ends, when it does.
pub(super) async fn until_ended(mut ended: watch::Receiver<Option<Ends>>, mut leaves: watch::Receiver<bool>) -> Ends {
    let told = async { ended.wait_for(Option::is_some).await.ok().and_then(|why| *why) };
    let leaves = async { leaves.wait_for(|leaves| *leaves).await.is_ok() };
    tokio::select! {
        why = told => why.unwrap_or(Ends::Leaves),
        _ = leaves => Ends::Leaves,
    }
}
