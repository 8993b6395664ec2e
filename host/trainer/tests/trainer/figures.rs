//! Reported figures against numbers by hand: every token in the loss counts, once, with or without an advantage.

use crate::common::{episode, figure, score, segment, smallest, written};
use gymkhana_record::{EpisodeRecord, Sampled, Seed};
use gymkhana_trainer::{
    AdaptiveKl, Algorithm, Demonstrations, Estimator, Kl, KlPlace, Mask, Optimizer, Preset, ReferenceUpdate, RlData,
    RlSettings, Trainer, TrainerSettings, WeightSchedule, WeightShape,
};

const PROMPT: [u32; 2] = [257, 65];
const REPLY: [u32; 2] = [66, 67];

fn trainer() -> Trainer {
    Trainer::create(&smallest(), &TrainerSettings { seed: Seed(4), ..TrainerSettings::default() }).expect("a model")
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
        let algorithm = Algorithm {
            kl: Some(Kl { beta: 0.1, schedule: None, adaptive: None, estimator, place, first_turns: None }),
            ..Algorithm::default()
        };
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

/// The weight falls from 0.8 over 0.4 to 0. The loss is the mean negative log-probability before each step. Without a token
/// in the loss of the episodes, the demonstrations have an optimiser step of their own, unless their weight is 0.
#[tokio::test]
async fn demonstrations_are_learned_with_their_weight() {
    let falls = WeightSchedule { shape: WeightShape::Linear, to: 0.0, begin: 0, over: 2, every: None };
    for masks in [vec![], vec![Mask::CutEpisode]] {
        let trainer = trainer();
        let demonstrations = Some(Demonstrations { batch: 1, weight: 0.8, schedule: Some(falls) });
        let algorithm = Algorithm { masks: masks.clone(), ..Algorithm::default() };
        let optimizer = Optimizer { learning_rate: 1e-2, ..Optimizer::default() };
        let settings = RlSettings { algorithm, demonstrations, optimizer, ..RlSettings::default() };
        let groups = [moving_group(&trainer).await];
        let shown = [segment(&PROMPT, &written(&[70, 71]))];
        let data = RlData { demonstrations: &shown, is_cut: &|_, _| true, ..RlData::from(&groups[..]) };
        let mut last = f64::INFINITY;
        for weight in [0.8, 0.4] {
            let log_probs = score(&trainer, &PROMPT, &[70, 71]).await.log_probs;
            let metrics = trainer.rl_step_on(data, &settings).await.expect("a step");
            near(figure(&metrics, "demonstration_weight"), weight);
            let loss = figure(&metrics, "demonstration_loss");
            near(loss, -f64::from(log_probs[0] + log_probs[1]) / 2.0);
            assert_eq!(figure(&metrics, "updates"), 1.0, "{masks:?}");
            assert!(loss < last, "{loss}");
            last = loss;
        }
        let metrics = trainer.rl_step_on(data, &settings).await.expect("a step");
        assert_eq!(metrics.get("demonstration_loss"), None);
        assert_eq!(figure(&metrics, "updates"), if masks.is_empty() { 1.0 } else { 0.0 });
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

/// Settings with a penalty of weight 0.4, after `change`, and a rate at which the policy moves in each step.
fn moving(change: impl FnOnce(&mut Algorithm, &mut Kl)) -> RlSettings {
    let (estimator, place) = (Estimator::K3, KlPlace::Loss);
    let mut kl = Kl { beta: 0.4, schedule: None, adaptive: None, estimator, place, first_turns: None };
    let mut algorithm = Algorithm::default();
    change(&mut algorithm, &mut kl);
    algorithm.kl = Some(kl);
    let optimizer = Optimizer { learning_rate: 1e-2, ..Optimizer::default() };
    RlSettings { optimizer, algorithm, ..RlSettings::default() }
}

/// A group whose second episode has another reply, so that the policy moves.
async fn moving_group(trainer: &Trainer) -> Vec<EpisodeRecord> {
    let (own, other) = (score(trainer, &PROMPT, &REPLY).await, score(trainer, &PROMPT, &[68, 69]).await);
    let mut group = group(0, &own, 0.0, [1.0, 0.0]);
    group[1].segments = vec![segment(&PROMPT, &Sampled { versions: vec![0; 2], ..other })];
    group
}

/// Halfway from 0.4 to 0 is 0.2; halfway from 0 to 0.02 is 0.01.
#[tokio::test]
async fn scheduled_weights_are_reported_step_by_step() {
    let falls = |to| Some(WeightSchedule { shape: WeightShape::Linear, to, begin: 0, over: 2, every: None });
    let settings = moving(|algorithm, kl| {
        kl.schedule = falls(0.0);
        algorithm.entropy_schedule = falls(0.02);
    });
    let trainer = trainer();
    trainer.begin_stage(settings.algorithm.stage_models()).await.expect("a stage");
    let groups = [moving_group(&trainer).await];
    for (beta, entropy) in [(0.4, 0.0), (0.2, 0.01), (0.0, 0.02), (0.0, 0.02)] {
        let metrics = trainer.rl_step(&groups, &settings).await.expect("a step");
        near(figure(&metrics, "kl_beta"), beta);
        near(figure(&metrics, "entropy_weight"), entropy);
        assert!(beta == 0.4 || figure(&metrics, "reference_divergence") > 0.0, "measured at weight 0, too");
    }
}

/// The first step has no divergence: an error of -1, clipped to -0.2, with 2 episodes and a horizon of 4. The next weight
/// follows from the reported divergence. A checkpoint keeps it.
#[tokio::test]
async fn the_adaptive_weight_follows_the_divergence_and_survives_a_resume() {
    let settings = moving(|_, kl| kl.adaptive = Some(AdaptiveKl { target: 1e-3, horizon: 4.0 }));
    let trainer = trainer();
    trainer.begin_stage(settings.algorithm.stage_models()).await.expect("a stage");
    let groups = [moving_group(&trainer).await];
    let first = trainer.rl_step(&groups, &settings).await.expect("a step");
    let second = trainer.rl_step(&groups, &settings).await.expect("a step");
    near(figure(&first, "kl_beta"), 0.4);
    near(figure(&second, "kl_beta"), 0.4 * 0.9);
    let error = (figure(&second, "reference_divergence") / 1e-3 - 1.0).clamp(-0.2, 0.2);
    assert!(error > 0.0, "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    trainer.save(&folder.path().join("last"), &serde_json::Value::Null).await.expect("saved");
    let resumed = Trainer::open(&folder.path().join("last"), &TrainerSettings::default()).expect("a checkpoint");
    let third = resumed.rl_step(&groups, &settings).await.expect("a step");
    near(figure(&third, "kl_beta"), 0.4 * 0.9 * (1.0 + error * 2.0 / 4.0));
}

/// The reference that is replaced after every step equals the policy at the start of the next one. The moving average is
/// between it and the policy at the start of the stage.
#[tokio::test]
async fn the_reference_follows_the_policy() {
    let mut found = Vec::new();
    let update = |every, ema| Some(ReferenceUpdate { every, ema });
    for reference in [None, update(Some(1), None), update(Some(2), None), update(None, Some(0.5))] {
        let settings = moving(|algorithm, _| algorithm.reference = reference);
        let trainer = trainer();
        trainer.begin_stage(settings.algorithm.stage_models()).await.expect("a stage");
        let groups = [moving_group(&trainer).await];
        let mut divergences = Vec::new();
        for _ in 0..3 {
            let metrics = trainer.rl_step(&groups, &settings).await.expect("a step");
            divergences.push(figure(&metrics, "reference_divergence"));
        }
        found.push(divergences);
    }
    let [fixed, every, second, average] = &found[..] else { panic!("four runs") };
    assert!(fixed[1] > 1e-5 && fixed[2] > 1e-5, "{fixed:?}");
    assert!(every[1].abs() < 1e-9 && every[2].abs() < 1e-9, "{every:?}");
    assert!(second[1] == fixed[1] && second[2].abs() < 1e-9, "{second:?}");
    assert!(average[1] > every[1] && average[1] < fixed[1] && average[2] > 0.0, "{average:?}");
}
