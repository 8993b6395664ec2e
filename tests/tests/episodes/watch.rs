//! Metrics of a rollout while it runs: each call is counted once at its boundary, and active calls are visible.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common::{Table, call, limits, play, rollout};
use gymkhana_record::{Boundary, EpisodeRecord};
use gymkhana_rollout::{Rollout, WaitKind};

/// Number of finished waits by kind: queue, generate, tool, environment, reward, train.
fn counts(rollout: &Rollout) -> [usize; 6] {
    WaitKind::ALL.map(|wait| rollout.metrics().times(wait).counts.iter().sum::<u64>() as usize)
}

fn calls(record: &EpisodeRecord, at: impl Fn(&Boundary) -> bool) -> usize {
    record.costs.iter().filter(|cost| at(&cost.at)).count()
}

#[tokio::test]
async fn every_call_is_counted_once_at_its_boundary() {
    let table = Table::new().tool("calculator", &[]).reward("answer-match", &[]);
    let rollout = rollout(&table, limits()).await;
    assert_eq!(counts(&rollout), [0; 6], "queries before a run are not counted");
    let sum = |text: &str| call("calculate", &format!(r#"{{"expression": "{text}"}}"#));
    let record = play(&rollout, &[&format!("{}{}", sum("1+1"), sum("2+2")), &sum("3+3"), "7"]).await;
    let environment = calls(&record, |at| matches!(at, Boundary::Environment(_)));
    assert!(environment >= 2, "a start and a step: {:?}", record.costs);
    assert_eq!(counts(&rollout), [0, 3, 3, environment, 1, 0]);
    assert!(WaitKind::ALL.iter().all(|wait| rollout.metrics().running(*wait) == 0));
    let slept: u64 = WaitKind::ALL.iter().map(|wait| rollout.metrics().times(*wait).sum).sum();
    assert!(slept > 0, "times are counted in nanoseconds");
}

#[tokio::test]
async fn an_active_call_is_visible() {
    let rollout = rollout(&Table::new().tool("guest-hostile-tool", &[]), limits()).await;
    let replies = [call("loop", "{}"), "7".to_owned()];
    let replies = replies.each_ref().map(String::as_str);
    let mut playing = std::pin::pin!(play(&rollout, &replies));
    let seen = async {
        while rollout.metrics().running(WaitKind::Tool) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        record = &mut playing => panic!("it ended unseen: {:?}", record.failures),
        () = seen => {}
    }
    assert_eq!(counts(&rollout)[WaitKind::Tool as usize], 0, "it goes on");
    let record = playing.await;
    assert_eq!(record.failures.len(), 1, "the loop was ended");
    assert_eq!(rollout.metrics().running(WaitKind::Tool), 0);
    assert_eq!(counts(&rollout)[WaitKind::Tool as usize], 1);
}

#[tokio::test]
async fn a_cancelled_episode_has_no_active_waits() {
    let rollout = rollout(&Table::new().tool("guest-hostile-tool", &[]), limits()).await;
    let replies = [call("loop", "{}")];
    let replies = replies.each_ref().map(String::as_str);
    {
        let playing = play(&rollout, &replies);
        let seen = async {
            while rollout.metrics().running(WaitKind::Tool) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            record = playing => panic!("it ended unseen: {:?}", record.failures),
            () = seen => {}
        }
    }
    assert!(WaitKind::ALL.iter().all(|wait| rollout.metrics().running(*wait) == 0));
}
