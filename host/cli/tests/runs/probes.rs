//! Runs with a probe: scores are those of the weights, and a replay needs no weights.

use std::fs;

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS};
use gymkhana_record::{EpisodeRecord, Phase};

fn played(probe: &str) -> (Desk, Vec<EpisodeRecord>) {
    let desk = Desk::with_run_file(SMALL_RUN);
    let alike = ["--set", "deterministic=true", "--set", "limits.turns=4", "--set", probe];
    desk.run(WORD_PROBLEMS, &alike).succeeded();
    let records = desk.episodes();
    (desk, records)
}

#[test]
fn the_models_word_on_the_answer_is_recorded_and_replayed() {
    let probe = "probe={ kind = \"answer\", lead = \"so: \", weight = 0.5 }";
    let (desk, records) = played(probe);
    let readings = |records: &[EpisodeRecord]| -> Vec<Vec<Option<f64>>> {
        let of = |record: &EpisodeRecord| {
            record.policy_turns.iter().map(|turn| turn.probe_score.map(|score| score.log_prob)).collect()
        };
        records.iter().map(of).collect()
    };
    for (record, found) in records.iter().zip(readings(&records)) {
        let demonstrated = record.id.phase == Phase::Demonstration;
        // An oracle has no probabilities; a policy gives every token a positive one.
        assert!(found.iter().all(|reading| reading.is_some() != demonstrated), "{}: {found:?}", record.id);
        assert!(found.iter().flatten().all(|log_prob| *log_prob < 0.0), "{found:?}");
    }
    // The weights change between the two steps, and so do the scores.
    let step = |step: u64| {
        let of_step = |record: &&EpisodeRecord| (record.id.phase, record.id.step) == (Phase::Train, step);
        readings(&records.iter().filter(of_step).cloned().collect::<Vec<_>>())
    };
    assert_ne!(step(0), step(1));
    let (_, again) = played(probe);
    assert_eq!(readings(&again), readings(&records), "the same seed, the same numbers");
    fs::remove_dir_all(desk.path("out/checkpoints")).expect("a replay needs no weights");
    let replayed = desk.host(&["replay", "out", "--forks"]).succeeded();
    assert!(replayed.contains(&format!("episodes with equal forks: {}", records.len())), "{replayed}");
}

#[test]
fn a_run_may_weigh_feedback() {
    let (desk, records) = played("probe={ kind = \"feedback\" }");
    assert!(records.iter().all(|record| record.policy_turns.first().is_none_or(|turn| turn.probe_score.is_none())));
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", records.len())), "{replayed}");
}
