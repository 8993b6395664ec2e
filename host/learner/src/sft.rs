//! One supervised step: demonstrations to moved weights.

use gymkhana_algorithm::SftSettings;
use gymkhana_engine::{Column, Engine, Loss, Pass, Sequence, Stepped};
use gymkhana_record::StepMetrics;
use gymkhana_record::step_metrics::sft;

/// One optimiser step on demonstrations.
///
/// # Errors
/// If the engine fails.
pub fn sft_step<E: Engine>(
    engine: &mut E,
    sequences: &[Sequence],
    settings: &SftSettings,
) -> Result<StepMetrics, E::Error> {
    let pass = Pass {
        temperature: 1.0,
        entropies: false,
        micro_batch_tokens: settings.micro_batch_tokens,
        activation_checkpointing: settings.activation_checkpointing,
        share_beginnings: true,
    };
    engine.begin_update()?;
    let learning_rate = settings.optimizer.learning_rate_at(engine.optimizer_steps());
    let passed = engine.accumulate(sequences, Loss::Supervised, pass)?;
    let stepped = engine.step(&settings.optimizer, None)?;
    let by_expert = |sequence: &Sequence| {
        sequence.stats.column(Column::Advantage).iter().filter(|by_expert| **by_expert > 0.0).count()
    };
    let tokens: usize = sequences.iter().map(by_expert).sum();
    let mut metrics = StepMetrics::default();
    if let Stepped::Taken { gradient_norm } = stepped {
        metrics = [(sft::LOSS, passed.sums.loss), (sft::LOSS_SAMPLED, passed.sums.loss_by_expert)].into();
        if let Some(norm) = gradient_norm {
            metrics.push(sft::GRADIENT_NORM, norm);
        }
    }
    metrics.append(StepMetrics::from([
        (sft::SKIPPED_UPDATES, f64::from(u8::from(stepped == Stepped::Skipped))),
        (sft::LEARNING_RATE, learning_rate),
        (sft::TOKENS, tokens as f64),
        (sft::POSITIONS, passed.positions as f64),
    ]));
    Ok(metrics)
}
