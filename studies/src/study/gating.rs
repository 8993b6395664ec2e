//! Dense rewards that exceed the outcome: summed with it, or behind a gate (G-RA). The host's own code sums and gates.

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, PluginScore, Score, Seed};
use gymkhana_rollout::{Gate, ProvokedReward, RewardSum, RewardTerm};

use super::{Row, Study};
use crate::table::{Table, mean, play, preset, settings, trainer};

pub const STUDY: Study = Study { figure: "outcome", marks: &[], arms: &["gated", "summed"] };

const STEPS: u64 = 200;
/// Turns of an episode. Each turn can polish; an answer ends the episode.
const TURNS: usize = 8;
/// Reward of polishing: over all turns twice the reward of the right answer.
const POLISH: f64 = 0.25;
/// Number of possible answers.
const LETTERS: u64 = 4;
/// Names of the two rewards.
const OUTCOME: &str = "outcome";
const POLISHED: &str = "polish";

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let gated = match arm {
        "gated" => true,
        "summed" => false,
        other => bail!("unknown arm `{other}`"),
    };
    let rewards = RewardRule::new(gated)?;
    let flags = preset("g-ra")?;
    let trainer = trainer(seed)?;
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 3e-3);
    let mut rows = vec![];
    for step in 0..effort.pick(STEPS, 2) {
        let groups = play(&trainer, step, seed, |table| one(table, &rewards)).await?;
        let outcome = mean(&groups, |episode| f64::from(u8::from(episode.success)));
        let polished = mean(&groups, |episode| episode.policy_turns.len() as f64);
        rows.push(Row { step, figures: vec![("outcome", outcome), ("turns", polished)] });
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

/// A letter is shown. A token below 128 answers it with its last bits and ends the episode; any other token polishes.
async fn one(mut table: Table<'_>, rewards: &RewardRule) -> Result<EpisodeRecord> {
    let letter = table.chance_of_group("letter").stream().below(LETTERS);
    let (mut polish, mut outcome, mut ending) = (0.0, 0.0, Ending::TurnLimit);
    table.show(0, &char::from(b'A' + letter as u8).to_string());
    for _ in 0..TURNS {
        let token = table.say(0, 1).await?[0];
        if token < 128 {
            outcome = f64::from(u8::from(u64::from(token) % LETTERS == letter));
            ending = Ending::Terminated;
            break;
        }
        polish += POLISH;
        table.show(0, "+");
    }
    let mut record = table.end(ending, vec![]);
    rewards.apply(&mut record, outcome, polish);
    Ok(record)
}

/// The host's sum of two rewards, the second with or without a gate on the first.
struct RewardRule {
    sum: RewardSum,
    outcome: RewardTerm,
    polish: RewardTerm,
}

impl RewardRule {
    fn new(gated: bool) -> Result<Self> {
        let success = format!("{OUTCOME}.total").parse()?;
        let gate = gated.then(|| Gate::parse(POLISHED, &format!("{OUTCOME}.total >= 0.5"))).transpose()?;
        Ok(Self {
            sum: RewardSum { environment: 1.0.into(), provoked: ProvokedReward::Least, success },
            outcome: 1.0.into(),
            polish: RewardTerm { gate, ..RewardTerm::from(1.0) },
        })
    }

    /// Sets the record's rewards and success from the two scores of its one seat.
    fn apply(&self, record: &mut EpisodeRecord, outcome: f64, polish: f64) {
        let score = |plugin: &str, total: f64| {
            let score = Score { seat: 0, total, components: vec![], turns: vec![], evidence: vec![] };
            PluginScore { plugin: plugin.to_owned(), scores: vec![score] }
        };
        record.scores = vec![score(OUTCOME, outcome), score(POLISHED, polish)];
        self.sum.assemble(record, &[(OUTCOME, &self.outcome), (POLISHED, &self.polish)], 1);
    }
}
