//! Reported figures against numbers by hand: every token in the loss counts, once, with or without an advantage.

mod common;

use common::{episode, figure, score, segment, smallest, written};
use gymkhana_record::{EpisodeRecord, Sampled, Seed};
use gymkhana_trainer::{Algorithm, Estimator, Kl, KlPlace, Optimizer, Preset, RlSettings, Settings, Trainer};

const PROMPT: [u32; 2] = [257, 65];
const REPLY: [u32; 2] = [66, 67];

fn trainer() -> Trainer {
    Trainer::create(&smallest(), &Settings { seed: Seed(4), ..Settings::default() }).expect("a model")
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
}

/// A group of two episodes whose recorded log-probabilities are `below` nats under the trainer's.
fn group(number: u32, own: &Sampled, below: f32, rewards: [f64; 2]) -> Vec<EpisodeRecord> {
    let mut reply = own.clone();
    reply.versions = vec![0; REPLY.len()];
    reply.log_probs.iter_mut().for_each(|log_prob| *log_prob -= below);
    let of_member = |(member, reward)| episode(number, member, segment(&PROMPT, &reply), reward);
    (0..).zip(rewards).map(of_member).collect()
}

/// All ratios of the first group are exp(1/2), above the clip range: its two tokens with a positive advantage are clipped.
/// The second group has equal rewards and ratios of 1.
#[tokio::test]
async fn episodes_without_an_advantage_are_measured() {
    let trainer = trainer();
    let own = score(&trainer, &PROMPT, &REPLY).await;
    let groups = [group(0, &own, 0.5, [1.0, 0.0]), group(1, &own, 0.0, [0.5, 0.5])];
    let metrics = trainer.rl_step(&groups, &RlSettings::default()).await.expect("a step");
    near(figure(&metrics, "clip_fraction"), 2.0 / 8.0);
    // k3 of 1/2 nat for half of the tokens.
    near(figure(&metrics, "behaviour_divergence"), ((-0.5_f64).exp() + 0.5 - 1.0) / 2.0);
    near(figure(&metrics, "on_policy_divergence"), ((-0.5_f64).exp() + 0.5 - 1.0) / 2.0);
}

/// The reference is the policy before the first step, so that the second step finds a divergence.
#[tokio::test]
async fn the_divergence_from_the_reference_is_measured_wherever_the_penalty_stands() {
    for (estimator, place) in
        [(Estimator::K3, KlPlace::Reward), (Estimator::K1, KlPlace::Tokens), (Estimator::K2, KlPlace::Loss)]
    {
        let trainer = trainer();
        let algorithm =
            Algorithm { kl: Some(Kl { beta: 0.1, estimator, place, first_turns: None }), ..Algorithm::default() };
        trainer.begin_stage(algorithm.stage_models()).await.expect("a stage");
        let optimizer = Optimizer { learning_rate: 1e-2, ..Optimizer::default() };
        let settings = RlSettings { optimizer, algorithm, ..RlSettings::default() };
        let before = score(&trainer, &PROMPT, &REPLY).await;
        let other = score(&trainer, &PROMPT, &[68, 69]).await;
        let mut groups = [group(0, &before, 0.0, [1.0, 0.0])];
        groups[0][1].segments = vec![segment(&PROMPT, &Sampled { versions: vec![0; 2], ..other.clone() })];
        trainer.rl_step(&groups, &settings).await.expect("a step");
        let after = score(&trainer, &PROMPT, &REPLY).await;
        let other_after = score(&trainer, &PROMPT, &[68, 69]).await;
        let now = after.log_probs.iter().chain(&other_after.log_probs);
        let reference = before.log_probs.iter().chain(&other.log_probs);
        let estimates = now.zip(reference).map(|(now, reference)| {
            let d = f64::from(now - reference);
            match estimator {
                Estimator::K1 => d,
                Estimator::K2 => d * d / 2.0,
                Estimator::K3 => (-d).exp() + d - 1.0,
            }
        });
        let expected = estimates.sum::<f64>() / 4.0;
        let metrics = trainer.rl_step(&groups, &settings).await.expect("a step");
        let found = figure(&metrics, "reference_divergence");
        assert!(found != 0.0 && (found / expected - 1.0).abs() < 1e-2, "{place:?}: {found} is not {expected}");
    }
}

/// The first step solves the task, the second fails it twice: its group gets the stored success.
#[tokio::test]
async fn backfilled_groups_are_counted() {
    let trainer = trainer();
    let algorithm = Preset::named("dart").and_then(|preset| preset.algorithm()).expect("a preset");
    trainer.begin_stage(algorithm.stage_models()).await.expect("a stage");
    let settings = RlSettings { algorithm, ..RlSettings::default() };
    let own = Sampled { log_probs: vec![-5.0; 2], ..written(&REPLY) };
    for (rewards, expected) in [([1.0, 0.0], 0.0), ([0.0, 0.0], 1.0)] {
        let metrics = trainer.rl_step(&[group(0, &own, 0.0, rewards)], &settings).await.expect("a step");
        assert_eq!(figure(&metrics, "backfilled"), expected);
    }
}
