//! Branching where the policy is uncertain: token entropy rises after tool answers, where a second attempt is most
//! informative (ARPO; AEPO for the budget and the penalty).

use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;
use gymkhana_record::{EpisodeRecord, Sampled, Turn};
use gymkhana_rules::{Branch, Probe};
use tracing::{Instrument, info_span};

use super::GroupPlan;
use crate::episode::EpisodeStart;
use crate::episode::generate::Generation;
use crate::episode::state::{Actor, EpisodeState};
use crate::replay::overrides::ReplayOverrides;
use crate::{ForkError, Rollout};

/// Mean entropy of a turn's first tokens, in nats.
fn mean_entropy(rule: &Branch, entropies: &[f32]) -> f64 {
    let looked_at = &entropies[..entropies.len().min(rule.tokens as usize)];
    looked_at.iter().map(|entropy| f64::from(*entropy)).sum::<f64>() / looked_at.len().max(1) as f64
}

/// Branching score of a turn.
fn branching_score(rule: &Branch, entropy: f64, first: f64, vocabulary: usize) -> f64 {
    rule.base + rule.slope * (entropy - first) / (vocabulary.max(2) as f64).ln()
}

/// Number of episodes from the start.
fn root_count(rule: &Branch, size: u32, probe: &EpisodeRecord) -> u32 {
    let Some(Probe { beta }) = rule.probe else { return rule.roots };
    let turns = turn_entropies(probe).map(|(after_answers, entropies)| (after_answers, mean_entropy(rule, &entropies)));
    let (after, first): (Vec<_>, Vec<_>) = turns.partition(|(after_answers, _)| *after_answers);
    let mean = |of: &[(bool, f64)]| of.iter().map(|(_, entropy)| entropy).sum::<f64>() / of.len().max(1) as f64;
    if after.is_empty() {
        return size;
    }
    let share = 1.0 / (1.0 + (-beta * (first.first().map_or(0.0, |(_, entropy)| *entropy) - mean(&after))).exp());
    ((f64::from(size) * share).round() as u32).clamp(rule.roots, size)
}

/// Entropies of each turn's tokens, and whether the turn follows tool answers.
fn turn_entropies(record: &EpisodeRecord) -> impl Iterator<Item = (bool, Vec<f32>)> {
    let turns = record.segments.iter().flat_map(|segment| {
        let last = segment.turns().last().map_or(0, |last| last + 1);
        (0..last).map(|turn| {
            let own = (0..segment.len()).filter(|&at| segment.sampled()[at] && segment.turns()[at] == turn);
            (turn > 0, own.map(|at| segment.entropies()[at]).collect::<Vec<f32>>())
        })
    });
    turns.filter(|(_, entropies)| !entropies.is_empty())
}

/// A path and the branches that it may still create.
struct BranchPath<'a> {
    play: Box<EpisodeState<'a>>,
    /// Member numbers that this path and its branches can still use.
    budget: Vec<u32>,
    /// Mean entropy of the first turn's first tokens.
    first: Option<f64>,
    /// Number of consecutive turns in which it has branched.
    parted: u32,
    /// Whether it is a branch before its first turn, where the path has just branched.
    fresh: bool,
}

/// Outcome of following a path.
struct Followed<'a> {
    ended: Option<EpisodeRecord>,
    /// Paths that continue.
    open: Vec<BranchPath<'a>>,
    /// Members that remain unused.
    unused: Vec<u32>,
}

impl Rollout {
    /// Plays a group with branching paths. The roots share the budget of branches evenly, and a branch gets half of its
    /// path's remaining budget, so that no path depends on the speed of another. Unused members are played from the
    /// start.
    pub(super) async fn run_branching(
        &self,
        group: &GroupPlan,
        rule: &Branch,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, ForkError> {
        let mut records = Vec::new();
        if rule.probe.is_some() {
            records.push(self.run_member(group.member(0), actor).await?);
        }
        let first = records.len() as u32;
        let roots = records.first().map_or(rule.roots, |probe| root_count(rule, group.size, probe));
        let (mut budgets, mut unused) = (vec![vec![]; (roots - first) as usize], vec![]);
        for member in roots..group.size {
            match budgets.len() {
                0 => unused.push(member),
                paths => budgets[(member - roots) as usize % paths].push(member),
            }
        }
        let trees = (first..roots).zip(budgets).map(|(root, budget)| self.run_tree(group, rule, root, budget, actor));
        for (tree, left) in try_join_all(trees).await? {
            records.extend(self.try_again(group, tree, actor).await?);
            unused.extend(left);
        }
        let rest = unused.into_iter().map(|member| self.run_member(group.member(member), actor));
        records.extend(try_join_all(rest).await?);
        records.sort_by_key(|record| record.id);
        Ok(records)
    }

    /// Plays one episode from the start with all its branches. Returns the records and the unused members.
    async fn run_tree<'a>(
        &'a self,
        group: &GroupPlan,
        rule: &Branch,
        root: u32,
        budget: Vec<u32>,
        actor: Actor<'_>,
    ) -> Result<(Vec<EpisodeRecord>, Vec<u32>), ForkError> {
        let play = match EpisodeState::begin(self, group.member(root), ReplayOverrides::default()).await? {
            EpisodeStart::Running(play) => play,
            EpisodeStart::Finished(record) => return Ok((vec![*record], budget)),
        };
        let (mut records, mut unused) = (Vec::new(), Vec::new());
        let follow = |path: BranchPath<'a>| {
            let span = info_span!("episode", id = %path.play.policy.plan.id);
            self.follow(group, rule, path, actor).instrument(span)
        };
        let mut following = FuturesUnordered::new();
        following.push(follow(BranchPath { play, budget, first: None, parted: 0, fresh: false }));
        while let Some(followed) = following.next().await {
            let followed = followed?;
            records.extend(followed.ended);
            unused.extend(followed.unused);
            following.extend(followed.open.into_iter().map(follow));
        }
        Ok((records, unused))
    }

    /// Plays a path until it ends or branches.
    async fn follow<'a>(
        &'a self,
        group: &GroupPlan,
        rule: &Branch,
        mut path: BranchPath<'a>,
        actor: Actor<'_>,
    ) -> Result<Followed<'a>, ForkError> {
        loop {
            let generation = path.play.generate_reply(actor).await?;
            let branch = match &generation {
                Generation::SampledReply(said) => self.branch(group, rule, &mut path, &said.sampled).await?,
                Generation::Ended(_) => None,
            };
            let ending = path.play.act(generation).await?;
            let mut open: Vec<BranchPath<'a>> = branch.into_iter().collect();
            if let Some(ending) = ending {
                let BranchPath { play, budget, .. } = path;
                play.release(actor);
                let ended = Some(play.finish(ending).await?);
                // An ended path leaves its budget to its branch.
                let unused = match open.first_mut() {
                    Some(branch) => {
                        branch.budget.extend(budget);
                        vec![]
                    }
                    None => budget,
                };
                return Ok(Followed { ended, open, unused });
            }
            if !open.is_empty() {
                open.push(path);
                return Ok(Followed { ended: None, open, unused: vec![] });
            }
        }
    }

    /// Branch before the reply that was just sampled, if the rule creates one.
    async fn branch<'a>(
        &'a self,
        group: &GroupPlan,
        rule: &Branch,
        path: &mut BranchPath<'a>,
        sampled: &Sampled,
    ) -> Result<Option<BranchPath<'a>>, ForkError> {
        let entropy = mean_entropy(rule, &sampled.entropies);
        let first = *path.first.get_or_insert(entropy);
        let answered = matches!(path.play.episode.data.turns.last(), Some(Turn::Answer { .. }));
        if std::mem::take(&mut path.fresh) || !answered || path.budget.is_empty() {
            return Ok(None);
        }
        let score = branching_score(rule, entropy, first, self.chat.vocabulary());
        let parts = match rule.penalty {
            None => score > rule.threshold,
            Some(penalty) => {
                let chance = score * (1.0 - penalty).powi(path.parted.min(1000) as i32);
                path.play.policy.plan.seed.child("branch").child(path.play.taken()).stream().unit() < chance
            }
        };
        if !parts {
            path.parted = 0;
            return Ok(None);
        }
        let play = match path.play.fork(group.member(path.budget[0])).await {
            Ok(play) => play,
            Err(error) => return self.could_not_fork(error).map(|()| None),
        };
        path.budget.remove(0);
        path.parted += 1;
        let budget = path.budget.split_off(path.budget.len().div_ceil(2));
        Ok(Some(BranchPath { play, budget, first: Some(first), parted: path.parted, fresh: true }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: ln 256 = 5.545; 0.5 + 0.2 * (2 - 0.6137) / 5.545 = 0.55.
    #[test]
    fn score_grows_with_entropy() {
        let rule = Branch::default();
        assert!((branching_score(&rule, 2.0, 0.613_7, 256) - 0.55).abs() < 1e-4);
        assert!((branching_score(&rule, 1.0, 1.0, 256) - 0.5).abs() < 1e-12);
        assert!((mean_entropy(&rule, &[1.0; 30]) - 1.0).abs() < 1e-12);
        let short = Branch { tokens: 2, ..rule };
        assert!((mean_entropy(&short, &[1.0, 2.0, 9.0]) - 1.5).abs() < 1e-12);
        assert!(mean_entropy(&short, &[]).abs() < 1e-12);
    }
}
