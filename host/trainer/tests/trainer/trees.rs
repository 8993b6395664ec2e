//! Episodes with a shared prefix: shared turns are trained on once, with the mean of their advantages.

use crate::common::{episode, figure, segment, smallest, written};
use gymkhana_record::{EpisodeRecord, Fork, Seed, Segment};
use gymkhana_trainer::{Algorithm, RlSettings, SharedTurns, Trainer, TrainerSettings};

/// Two turns of two tokens each; the second turn begins with `last`.
fn two_turns(last: u32) -> Segment {
    let mut two = segment(&[257, 65], &written(&[66, 67]));
    two.append_given(&[257], 1);
    two.append_sampled(&written(&[last, 258]), 1).expect("equal columns");
    two
}

/// A parent with reward 1, a branch of it before the second turn with reward 0, and an unrelated episode with reward 0.
fn group() -> Vec<EpisodeRecord> {
    let parent = episode(0, 0, two_turns(70), 1.0);
    let mut branch = episode(0, 1, two_turns(71), 0.0);
    branch.forks.push(Fork { parent: parent.id, turns: vec![1], seed: Seed(0) });
    vec![parent, branch, episode(0, 2, two_turns(72), 0.0)]
}

/// Leave-one-out: 1 - 0 = 1, and 0 - (1 + 0) / 2 = -1/2 twice. The parent and its branch share the first turn, so the
/// first trained tokens have the advantages (1 - 1/2) / 2 = 1/4, -1/2 and -1/2.
#[tokio::test]
async fn a_shared_turn_has_the_mean_of_its_episodes_advantages() {
    let trainer = Trainer::create(&smallest(), &TrainerSettings::default()).expect("a model");
    let metrics = trainer.rl_step(&[group()], &RlSettings::default()).await.expect("a step");
    assert_eq!(figure(&metrics, "advantage_mean"), -0.25);
}

/// Settings with a reading of shared turns.
fn reading(shared_turns: SharedTurns) -> RlSettings {
    RlSettings { algorithm: Algorithm { shared_turns, ..Algorithm::default() }, ..RlSettings::default() }
}

/// The shared turn has an entropy of 2 nats, the parent's second turn 1, the branch's 4 and the other episode 1. Ten tokens
/// were sampled: (2 · 2 + 2 · 1 + 2 · 4 + 4 · 1) / 10. The divergences are means over the same tokens in both readings, since
/// both measure the weights before the update.
#[tokio::test]
async fn figures_count_a_shared_token_once() {
    let mut group = group();
    for (record, entropies) in group.iter_mut().zip([[2.0, 1.0], [2.0, 4.0], [1.0, 1.0]]) {
        let mut columns = std::mem::take(&mut record.segments[0]).into_columns();
        for at in (0..columns.entropies.len()).filter(|at| columns.sampled[*at]) {
            columns.entropies[at] = entropies[columns.turns[at] as usize];
        }
        record.segments[0] = Segment::from_columns(columns).expect("equal columns");
    }
    let mut divergences = Vec::new();
    for shared_turns in [SharedTurns::Once, SharedTurns::PerEpisode] {
        let trainer = Trainer::create(&smallest(), &TrainerSettings::default()).expect("a model");
        let metrics = trainer.rl_step(&[group.clone()], &reading(shared_turns)).await.expect("a step");
        assert!((figure(&metrics, "entropy") - 1.8).abs() < 1e-6, "{shared_turns:?}: {metrics:?}");
        assert_eq!(figure(&metrics, "tokens"), 10.0, "{shared_turns:?}");
        divergences.push(["behaviour_divergence", "on_policy_divergence"].map(|name| figure(&metrics, name)));
    }
    for (once, per_episode) in divergences[0].into_iter().zip(divergences[1]) {
        assert!(once > 0.0 && (once / per_episode - 1.0).abs() < 1e-4, "{divergences:?}");
    }
}

/// With an advantage of its own for each episode: 1, -1/2 and -1/2 at the first token of each.
#[tokio::test]
async fn shared_turns_may_be_trained_on_once_for_each_episode() {
    let trainer = Trainer::create(&smallest(), &TrainerSettings::default()).expect("a model");
    let metrics = trainer.rl_step(&[group()], &reading(SharedTurns::PerEpisode)).await.expect("a step");
    assert_eq!(figure(&metrics, "advantage_mean"), 0.0);
    assert_eq!(figure(&metrics, "advantage_std"), 0.5_f64.sqrt());
}

/// Turns of two tokens in two segments; the second segment contains the first reply again.
fn two_segments(last: u32) -> Vec<Segment> {
    let mut columns = segment(&[257, 66, 67, 257], &written(&[last, 258])).into_columns();
    columns.turns.fill(1);
    let second = Segment::from_columns(columns).expect("equal columns");
    vec![segment(&[257, 65], &written(&[66, 67])), second]
}

/// A repeated reply is not trained on again, and a branch trains only on its own tokens after the fork.
#[tokio::test]
async fn every_token_is_trained_on_in_the_segment_that_sampled_it() {
    let several = |record: EpisodeRecord, last: u32| EpisodeRecord { segments: two_segments(last), ..record };
    let group: Vec<EpisodeRecord> = group().into_iter().zip(70..).map(|(record, last)| several(record, last)).collect();
    let trainer = Trainer::create(&smallest(), &TrainerSettings::default()).expect("a model");
    let metrics = trainer.rl_step(&[group], &RlSettings::default()).await.expect("a step");
    assert_eq!(figure(&metrics, "tokens"), 10.0);
}

#[tokio::test]
async fn every_token_is_trained_on_once() {
    let trainer = Trainer::create(&smallest(), &TrainerSettings::default()).expect("a model");
    let metrics = trainer.rl_step(&[group()], &RlSettings::default()).await.expect("a step");
    // Four tokens per episode; only the last two of the branch are its own.
    assert_eq!(figure(&metrics, "tokens"), 10.0);
    let unrelated: Vec<EpisodeRecord> =
        group().into_iter().map(|record| EpisodeRecord { forks: vec![], ..record }).collect();
    let metrics = trainer.rl_step(&[unrelated], &RlSettings::default()).await.expect("a step");
    assert_eq!(figure(&metrics, "tokens"), 12.0);
}
