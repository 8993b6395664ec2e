//! The toy of the baselines with its model of six million parameters: imitation of successes against GRPO.

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_benches::trainer::toy;
use gymkhana_record::Seed;
use gymkhana_trainer::{Aggregation, Algorithm, Baseline, Precision, Replay, RlSettings, Scale, Schedule, Surrogate};

use super::{Row, Study};
use crate::table::{reported, reward, settings};

pub const STUDY: Study = Study { figure: "reward", marks: &[1.4], arms: &["imitation", "grpo"] };

const STEPS: u32 = 600;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let steps = effort.pick(STEPS, 2);
    let settings = match arm {
        "imitation" => imitation(steps),
        "grpo" => toy::settings(),
        other => bail!("unknown arm `{other}`"),
    };
    let trainer = toy::trainer(seed, Precision::Bfloat16)?;
    trainer.begin_stage(settings.algorithm.stage_models()).await?;
    let mut rows = vec![];
    for step in 0..steps {
        let (groups, _) = toy::play(&trainer, step, seed).await?;
        let metrics = trainer.rl_step(&groups, &settings).await?;
        let figures = vec![("reward", reward(&groups)), ("entropy", reported(&metrics, "entropy")?)];
        rows.push(Row { step: step.into(), figures });
    }
    Ok(rows)
}

/// Settings with an entropy bonus and replayed successes (SPEAR's buffer). Without a bonus of this size the policy soon
/// generates only a few digits and cannot learn the others. Scaling by the group's standard deviation increases the
/// weight of a group's single success. With clipped ratios, a success has no gradient once it is a quarter more
/// probable than when it was sampled. The learning rate falls to 0, because learned digits are otherwise forgotten.
fn imitation(steps: u32) -> RlSettings {
    let algorithm = Algorithm {
        baseline: Baseline::GroupMean,
        scale: Scale::GroupStd,
        ratio: None,
        surrogate: Surrogate::Plain {},
        aggregation: Aggregation::Token,
        entropy_bonus: 0.1,
        replay: Some(Replay::SelfImitation { capacity: 512, baselines: 512, stale_steps: 100, ramp_steps: 20 }),
        ..Algorithm::default()
    };
    let mut settings = settings(algorithm, 5e-4);
    (settings.optimizer.schedule, settings.optimizer.total_steps) = (Schedule::Cosine, Some(steps.into()));
    settings
}
