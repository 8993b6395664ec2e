//! Branching at the prefix with the most uncertain outcome, where success and failure are both likely (TRACE).

use futures::future::try_join_all;
use gymkhana_record::{Ending, EpisodeRecord};
use gymkhana_rules::Prefixes;

use super::GroupPlan;
use crate::episode::state::Actor;
use crate::replay::overrides::turns_taken;
use crate::{ForkError, Rollout, RolloutError};

/// The prefix whose continuations most likely have mixed outcomes: index of the record, and the turn before which to
/// branch. Ties go to the earliest turn of the first record.
fn choose(rule: Prefixes, records: &[EpisodeRecord]) -> Option<(usize, u32)> {
    let mut best: Option<(f64, usize, u32)> = None;
    let counted = |record: &&EpisodeRecord| record.ending != Ending::Dropped;
    let all: Vec<&EpisodeRecord> = records.iter().filter(counted).collect();
    let mean = share(all.iter().copied(), 0.0, 0.5);
    for (place, record) in records.iter().enumerate().filter(|(_, record)| counted(record)) {
        for turn in turns_of(record) {
            let through = all.iter().copied().filter(|other| goes_through(other, record, turn));
            let open = mixed(share(through, rule.prior, mean), rule.continuations);
            if best.is_none_or(|(most, ..)| open > most + 1e-12) {
                best = Some((open, place, turn));
            }
        }
    }
    best.map(|(_, place, turn)| (place, turn))
}

/// Probability that `count` continuations include both successes and failures.
fn mixed(success: f64, count: u32) -> f64 {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    1.0 - success.powi(count) - (1.0 - success).powi(count)
}

/// Share of solved episodes, with `weight` further episodes of success rate `mean`; `mean` without any episode.
fn share<'a>(records: impl Iterator<Item = &'a EpisodeRecord>, weight: f64, mean: f64) -> f64 {
    let (mut solved, mut all) = (weight * mean, weight);
    for record in records {
        solved += f64::from(u8::from(record.success));
        all += 1.0;
    }
    if all > 0.0 { solved / all } else { mean }
}

/// Whether an episode went through the state before this turn of another episode.
fn goes_through(record: &EpisodeRecord, of: &EpisodeRecord, turn: u32) -> bool {
    turn == 0 || record.id == of.id || record.forks.iter().any(|fork| fork.parent == of.id && fork.taken() >= turn)
}

/// Turns before which an episode can branch: all for an episode from the start, and for a branch those after it left
/// its parent.
fn turns_of(record: &EpisodeRecord) -> std::ops::Range<u32> {
    record.forks.last().map_or(0, |fork| fork.taken() + 1)..turns_taken(record)
}

impl Rollout {
    /// Plays members from the start, concurrently and without scoring.
    async fn run_members(
        &self,
        group: &GroupPlan,
        members: std::ops::Range<u32>,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, RolloutError> {
        try_join_all(members.map(|member| self.run_member(group.member(member), actor))).await
    }

    /// Plays a group's roots and spends the rest of its size on prefixes.
    pub(super) async fn run_prefixes(
        &self,
        group: &GroupPlan,
        rule: Prefixes,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, ForkError> {
        let mut records = self.run_members(group, 0..rule.roots, actor).await?;
        let mut next = rule.roots;
        while next < group.size {
            // The success rule may need the rewards.
            self.score_group(&mut records, &[]).await;
            let members = next..group.size.min(next + rule.continuations);
            next = members.end;
            let plans = members.clone().map(|member| group.member(member)).collect();
            let forks = match choose(rule, &records) {
                Some((place, turn)) => self.fork_unscored(&records[place], turn, plans, actor).await,
                None => Ok(self.run_members(group, members.clone(), actor).await?),
            };
            records.extend(match forks {
                Ok(forks) => self.try_again(group, forks, actor).await?,
                Err(error) => {
                    self.could_not_fork(error)?;
                    self.run_members(group, members, actor).await?
                }
            });
            records.iter_mut().for_each(EpisodeRecord::clear_scores);
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With p = 1/2 and two continuations, half of the pairs are mixed; with p of 0 or 1, none is.
    #[test]
    fn uncertain_prefixes_score_highest() {
        for (success, count, expected) in [(0.5, 2, 0.5), (0.5, 3, 0.75), (0.0, 2, 0.0), (1.0, 4, 0.0), (0.9, 2, 0.18)]
        {
            assert!((mixed(success, count) - expected).abs() < 1e-12, "{success} {count}");
        }
        assert!((share([].into_iter(), 0.0, 0.3) - 0.3).abs() < 1e-12);
        assert!((share([].into_iter(), 2.0, 0.3) - 0.3).abs() < 1e-12);
    }
}
