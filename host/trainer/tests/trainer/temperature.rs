//! Replies sampled at a temperature are recorded and trained on under the distribution at that temperature, `p^(1/T)`,
//! normalised.

use crate::common::{conversation, episode, figure, near, penalty, request, score, segment, smallest, written};
use gymkhana_policy::{Policy, Sampling};
use gymkhana_record::{EpisodeRecord, Sampled, Seed, Segment};
use gymkhana_trainer::{
    AboveCap, Algorithm, CapLevel, OffPolicy, RlSettings, SftSettings, StageModels, Trainer, TrainerSettings,
};

const TEMPERATURE: f32 = 0.5;
const PROMPT: [u32; 3] = [257, 70, 257];

/// A model with a few training steps, so that its distributions are not uniform.
async fn trainer() -> Trainer {
    let trainer = Trainer::create(&smallest(), &TrainerSettings { seed: Seed(4), ..TrainerSettings::default() })
        .expect("a model");
    let demonstrations: Vec<Segment> = (65..73).map(|byte| segment(&PROMPT, &written(&[byte, byte, byte]))).collect();
    for _ in 0..20 {
        trainer.sft_step(&demonstrations, &SftSettings::default()).await.expect("a step");
    }
    trainer.begin_stage(StageModels { reference: true, ..StageModels::default() }).await.expect("a stage");
    trainer
}

async fn reply(trainer: &Trainer, place: u32, sampling: Sampling) -> Sampled {
    let mut asked = request(place, &PROMPT, 3, Seed(8).child(place));
    (asked.stop, asked.sampling) = (std::sync::Arc::from([]), sampling);
    let reply = trainer.generate(asked).await.expect("a reply").sampled;
    trainer.release(conversation(place));
    reply
}

/// Log-probability and entropy of a token at a temperature, from the probabilities of all tokens at temperature 1.
async fn by_formula(trainer: &Trainer, prefix: &[u32], token: u32, temperature: f64) -> (f32, f32) {
    let mut powers = Vec::new();
    for other in 0..trainer.config().vocab_size as u32 {
        let log_prob = score(trainer, prefix, &[other]).await.log_probs[0];
        powers.push((f64::from(log_prob) / temperature).exp());
    }
    let sum: f64 = powers.iter().sum();
    let entropy: f64 = powers.iter().map(|power| power / sum).map(|share| -share * share.ln()).sum();
    ((powers[token as usize] / sum).ln() as f32, entropy as f32)
}

#[tokio::test]
async fn replies_are_recorded_under_their_sampling_distribution() {
    let trainer = trainer().await;
    for (sampling, temperature) in
        [(Sampling::at(TEMPERATURE), f64::from(TEMPERATURE)), (Sampling::at(1.0), 1.0), (Sampling::GREEDY, 1.0)]
    {
        let reply = reply(&trainer, 0, sampling).await;
        let mut prefix = PROMPT.to_vec();
        for (index, token) in reply.tokens.iter().enumerate() {
            let (log_prob, entropy) = by_formula(&trainer, &prefix, *token, temperature).await;
            near(&[reply.log_probs[index]], &[log_prob], 1e-4);
            near(&[reply.entropies[index]], &[entropy], 1e-3);
            prefix.push(*token);
        }
    }
}

#[tokio::test]
async fn ratios_divergences_and_entropies_are_those_at_the_stages_temperature() {
    let algorithm = Algorithm { kl: Some(penalty(0.05)), entropy_bonus: 0.1, ..Algorithm::default() };
    let settings = RlSettings { algorithm, temperature: f64::from(TEMPERATURE), ..RlSettings::default() };
    let (on_policy, cold) = (trainer().await, RlSettings { temperature: 1.0, ..settings.clone() });
    let mut group: Vec<EpisodeRecord> = Vec::new();
    let (mut entropies, mut divergences) = (Vec::new(), Vec::new());
    for member in 0..8 {
        let reply = reply(&on_policy, member, Sampling::at(TEMPERATURE)).await;
        let at_1 = score(&on_policy, &PROMPT, &reply.tokens).await;
        for (old, own) in reply.log_probs.iter().zip(&at_1.log_probs) {
            let difference = f64::from(old - own);
            divergences.push(difference.exp() - difference - 1.0);
        }
        entropies.extend(reply.entropies.iter().map(|entropy| f64::from(*entropy)));
        group.push(episode(0, member, segment(&PROMPT, &reply), f64::from(member % 2)));
    }
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let off_policy = trainer().await;
    let metrics = on_policy.rl_step(&[group.clone()], &settings).await.expect("a step");
    assert!(figure(&metrics, "behaviour_divergence") < 1e-6, "{metrics:?}");
    assert!(figure(&metrics, "on_policy_divergence") < 1e-6, "{metrics:?}");
    assert!(figure(&metrics, "reference_divergence") < 1e-6, "{metrics:?}");
    // Every ratio is 1 and the advantages cancel, so the loss is the entropy bonus.
    assert!((figure(&metrics, "loss") + 0.1 * mean(&entropies)).abs() < 1e-5, "{metrics:?}");
    // At another temperature, the episodes are off-policy.
    let metrics = off_policy.rl_step(&[group.clone()], &cold).await.expect("a step");
    for name in ["behaviour_divergence", "on_policy_divergence"] {
        let found = figure(&metrics, name);
        assert!(found > 0.01 && (found / mean(&divergences) - 1.0).abs() < 1e-3, "{name}: {metrics:?}");
    }
    // After the update the tokens have a staleness of 1.
    let metrics = off_policy.rl_step(&[group.clone()], &cold).await.expect("a step");
    assert_eq!(metrics.get("on_policy_divergence"), None);
    // A correction compares with the proximal policy, whose ratios are 1; the behaviour policy still differs.
    let corrected = trainer().await;
    let off_policy =
        Some(OffPolicy { cap: 2.0, mode: AboveCap::Truncate, level: CapLevel::Token, veto: None, stale_steps: None });
    let algorithm = Algorithm { off_policy, ..cold.algorithm.clone() };
    let metrics = corrected.rl_step(&[group], &RlSettings { algorithm, ..cold }).await.expect("a step");
    assert!(figure(&metrics, "behaviour_divergence") < 1e-6, "{metrics:?}");
    let found = figure(&metrics, "on_policy_divergence");
    assert!((found / mean(&divergences) - 1.0).abs() < 1e-3, "{metrics:?}");
    let frozen = RlSettings { temperature: 0.0, ..RlSettings::default() };
    assert!(frozen.check().expect_err("no division by 0").to_string().contains("temperature"));
}
