//! Self-play in Kuhn poker: exploitability of the average and of the last strategy, with and without role baselines
//! (SPIRAL).

use std::cell::RefCell;

use anyhow::{Context, Result, bail};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, Seed};
use gymkhana_trainer::{Aggregation, Baseline, Schedule};
use kuhn_poker::rules::{Act, DEALS, information_set, mover, won};
use kuhn_poker::strategy::{Strategy, Tally, information_sets};

use super::{Row, Study};
use crate::table::{Table, play_groups, preset, settings, trainer_of};

pub const STUDY: Study = Study { figure: "averaged", marks: &[0.05], arms: &["role-baselines", "no-baseline"] };

const STEPS: u64 = 3000;
const EVERY: u64 = 25;
/// Number of groups of eight hands; all hands of a step are played concurrently.
const GROUPS: u32 = 32;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let mut flags = preset("spiral-rae")?;
    flags.aggregation = Aggregation::Token;
    // The entropy bonus damps the rotation around the equilibrium and shifts the fixed point: at 0.1 per nat, to an
    // exploitability of 0.02 if only bets and passes counted.
    flags.entropy_bonus = 0.1;
    flags.constant_tokens = None;
    match arm {
        "role-baselines" => {}
        "no-baseline" => (flags.baseline, flags.average_decay) = (Baseline::None, None),
        other => bail!("unknown arm `{other}`"),
    }
    let trainer = trainer_of(GROUPS, seed)?;
    trainer.begin_stage(flags.stage_models()).await?;
    let mut settings = settings(flags, 3e-3);
    (settings.optimizer.schedule, settings.optimizer.total_steps) = (Schedule::Cosine, Some(effort.pick(STEPS, 2)));
    let (mut rows, mut all, mut latest) = (vec![], Tally::default(), Tally::default());
    for step in 0..effort.pick(STEPS, 2) {
        let hands = RefCell::new(vec![]);
        let groups = play_groups(GROUPS, &trainer, step, seed, |table| one(table, &hands)).await?;
        for decisions in hands.take() {
            all.add(&decisions)?;
            latest.add(&decisions)?;
        }
        trainer.rl_step(&groups, &settings).await?;
        if (step + 1).is_multiple_of(effort.pick(EVERY, 1)) {
            let exploitability =
                |tally: &Tally| tally.strategy(0.5).map(|strategy: Strategy| strategy.exploitability());
            let figures = vec![("averaged", exploitability(&all)?), ("last", exploitability(&latest)?)];
            rows.push(Row { step: step + 1, figures });
            latest = Tally::default();
        }
    }
    Ok(rows)
}

/// Observation of a player: its information set as one letter, so that the model distinguishes all sets.
fn shown(set: &str) -> Result<char> {
    let place = information_sets().iter().position(|known| known == set);
    Ok(char::from(b'A' + place.with_context(|| format!("`{set}` is not an information set"))? as u8))
}

/// A hand: an even token bets or calls, an odd one passes or folds.
async fn one(mut table: Table<'_>, hands: &RefCell<Vec<String>>) -> Result<EpisodeRecord> {
    let cards = DEALS[table.chance("deal").stream().below(DEALS.len() as u64) as usize];
    let (mut acts, mut decisions) = (vec![], String::new());
    while let Some(player) = mover(&acts) {
        let set = information_set(cards[player], &acts);
        table.show(player as u32, &shown(&set)?.to_string());
        let bets = table.say(player as u32, 1).await?[0] % 2 == 0;
        let act = if bets { Act::Bet } else { Act::Pass };
        decisions.push_str(&format!("{set}:{} ", act.letter()));
        acts.push(act);
    }
    let gain = won(cards, &acts);
    hands.borrow_mut().push(decisions);
    Ok(table.end(Ending::Terminated, vec![gain, -gain]))
}
