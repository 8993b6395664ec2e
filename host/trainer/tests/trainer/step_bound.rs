//! The bound on an optimiser step, by the log-probabilities before and after it.

use gymkhana_policy::Policy;
use gymkhana_record::{EpisodeRecord, Sampled, Seed, Segment};
use gymkhana_trainer::{Algorithm, Optimizer, RlSettings, Surrogate, TinyModel, Trainer, TrainerSettings};

use crate::common::{episode, score};

/// Tokens of each reply.
const TOKENS: usize = 8;

/// An episode whose reply consists of one token.
fn said(group: u32, member: u32, reward: f64, token: u32) -> EpisodeRecord {
    let mut segment = Segment::new(0);
    segment.append_given(&[1], 0);
    let (log_probs, entropies, versions) = (vec![-5.0; TOKENS], vec![1.0; TOKENS], vec![0; TOKENS]);
    let sampled = Sampled { tokens: vec![token; TOKENS], log_probs, entropies, versions };
    segment.append_sampled(&sampled, 0).expect("equal columns");
    episode(group, member, segment, reward)
}

/// Log-probabilities of the replies.
async fn scored(trainer: &Trainer) -> Vec<f32> {
    assert!(trainer.can_score());
    let mut all = vec![];
    for token in 2..6 {
        all.extend(score(trainer, &[1], &[token; TOKENS]).await.log_probs);
    }
    all
}

/// Half of the mean squared log-ratio by which one step moves a small model, and the metric of the divergence.
async fn moved(step_divergence: Option<f64>) -> (f64, Option<f64>) {
    let size = TinyModel { layers: 1, width: 8, heads: 1, kv_heads: 1, mlp: 8, context: 32 };
    let trainer = Trainer::create(&size, &TrainerSettings { seed: Seed(3), ..TrainerSettings::default() });
    let trainer = trainer.expect("a model");
    let algorithm = Algorithm { surrogate: Surrogate::Plain {}, ratio: None, ..Algorithm::default() };
    let optimizer = Optimizer { learning_rate: 0.02, ..Optimizer::default() };
    let settings = RlSettings { algorithm, optimizer, step_divergence, ..RlSettings::default() };
    // The group of equal rewards is only measured.
    let groups = [vec![said(0, 0, 1.0, 2), said(0, 1, 0.0, 3)], vec![said(1, 0, 1.0, 4), said(1, 1, 1.0, 5)]];
    let before = scored(&trainer).await;
    let metrics = trainer.rl_step(&groups, &settings).await.expect("a step");
    let after = scored(&trainer).await;
    let squares = after.iter().zip(&before).map(|(after, before)| f64::from(after - before).powi(2)).sum::<f64>();
    (squares / 2.0 / before.len() as f64, metrics.get("step_divergence"))
}

#[tokio::test]
async fn a_step_at_a_high_rate_moves_the_policy_by_the_bound() {
    let (unbounded, none) = moved(None).await;
    assert!(unbounded > 1e-3 && none.is_none(), "{unbounded}, {none:?}");
    let (loose, found) = moved(Some(1e9)).await;
    assert_eq!(loose, unbounded);
    assert!((found.expect("measured") / unbounded - 1.0).abs() < 1e-3, "{found:?} is not {unbounded}");
    for bound in [1e-4, 1e-5] {
        // One of the two groups has a gradient.
        let (bounded, found) = moved(Some(2.0 * bound)).await;
        // The divergence of a long step does not grow with the square of its length alone.
        assert!((0.5..2.0).contains(&(bounded / bound)), "{bounded} is not near {bound}");
        assert!((found.expect("measured") / unbounded - 1.0).abs() < 1e-3, "{found:?} is not {unbounded}");
    }
}
