//! The order in which a stage draws demonstrations from its sources: shares by weight, and each source shuffled again in
//! every pass.

use gymkhana_config::{SftStage, SourceKind};
use gymkhana_orchestration::mixture::ShareAssignment;
use gymkhana_record::Seed;

use super::{Demonstration, StageSource};

/// Sources of a stage with their order.
pub(crate) struct StageSources {
    sources: Vec<OrderedSource>,
    assignment: ShareAssignment,
}

/// A source, and the order of its passes.
struct OrderedSource {
    source: StageSource,
    passes: Passes,
}

/// Passes over a list, each in an order of its own.
pub(crate) struct Passes {
    seed: Seed,
    count: usize,
    /// Number and order of the last pass.
    pass: Option<(u64, Vec<usize>)>,
}

impl Passes {
    /// Passes over a list of this length.
    pub fn new(seed: Seed, count: usize) -> Self {
        Self { seed, count, pass: None }
    }

    /// Index in the list at a position of the infinite sequence; `None` for an empty list.
    pub fn at(&mut self, position: u64) -> Option<usize> {
        let (pass, place) = (position.checked_div(self.count as u64)?, position.checked_rem(self.count as u64)?);
        if self.pass.as_ref().is_none_or(|(known, _)| *known != pass) {
            let mut order: Vec<usize> = (0..self.count).collect();
            self.seed.child(pass).stream().shuffle(&mut order);
            self.pass = Some((pass, order));
        }
        self.pass.as_ref().and_then(|(_, order)| order.get(place as usize)).copied()
    }
}

/// Demonstrations of a training step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawn<'a> {
    /// First position in the order of the oracle's tasks.
    pub oracle_first: u64,
    /// Number of the oracle's tasks.
    pub oracle_count: u64,
    /// Demonstrations that were read.
    pub given: Vec<&'a Demonstration>,
}

/// Number of the oracle's tasks among the first `count` demonstrations of a stage.
pub(crate) fn oracle_tasks(stage: &SftStage, count: u64) -> u64 {
    if stage.source.is_empty() {
        return count;
    }
    let oracle = stage.source.iter().position(|source| source.kind() == Some(SourceKind::Oracle));
    oracle.map_or(0, |oracle| ShareAssignment::new(weights(stage), &[]).count_before(count, oracle))
}

fn weights(stage: &SftStage) -> Vec<f64> {
    stage.source.iter().map(|source| source.weight).collect()
}

impl StageSources {
    /// The sources that were read for a stage, under the seed of the stage.
    pub fn of_stage(stage: &SftStage, sources: Vec<StageSource>, seed: Seed) -> Self {
        Self::new(sources, weights(stage), seed)
    }

    /// Sources with their weights. Without any, the oracle plays.
    fn new(sources: Vec<StageSource>, weights: Vec<f64>, seed: Seed) -> Self {
        let (sources, weights) = match sources.is_empty() {
            true => (vec![StageSource::Oracle], vec![1.0]),
            false => (sources, weights),
        };
        let given = |(index, source): (usize, StageSource)| {
            let count = match &source {
                StageSource::Given(demonstrations) => demonstrations.len(),
                StageSource::Oracle => 0,
            };
            OrderedSource { source, passes: Passes::new(seed.child(index), count) }
        };
        let sources = sources.into_iter().enumerate().map(given).collect();
        Self { sources, assignment: ShareAssignment::new(weights, &[]) }
    }

    /// Demonstrations at `position..position + count` of the infinite sequence.
    pub fn draw(&mut self, position: u64, count: u64) -> Drawn<'_> {
        let oracle = self.sources.iter().position(|given| matches!(given.source, StageSource::Oracle));
        let oracle_first = oracle.map_or(0, |oracle| self.assignment.count_before(position, oracle));
        let places: Vec<(usize, u64)> = (position..position + count).map(|at| self.assignment.at(at)).collect();
        let (mut oracle_count, mut chosen) = (0, Vec::new());
        for (index, own) in places {
            match self.sources[index].passes.at(own) {
                Some(place) => chosen.push((index, place)),
                None => oracle_count += 1,
            }
        }
        let of = |(index, place): (usize, usize)| match &self.sources[index].source {
            StageSource::Given(demonstrations) => demonstrations.get(place),
            StageSource::Oracle => None,
        };
        Drawn { oracle_first, oracle_count, given: chosen.into_iter().filter_map(of).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(count: usize, weight: f64) -> StageSource {
        StageSource::Given(
            (0..count).map(|place| Demonstration { segments: vec![], weight: weight + place as f64 }).collect(),
        )
    }

    /// Weights of the demonstrations, which tell them apart.
    fn drawn(sources: &mut StageSources, position: u64, count: u64) -> (u64, u64, Vec<f64>) {
        let Drawn { oracle_first, oracle_count, given } = sources.draw(position, count);
        (oracle_first, oracle_count, given.iter().map(|one| one.weight).collect())
    }

    #[test]
    fn a_source_is_seen_once_in_each_pass() {
        let mut sources = StageSources::new(vec![given(5, 0.0)], vec![1.0], Seed(1));
        let pass = |sources: &mut StageSources, first| {
            let mut seen = drawn(sources, first, 5).2;
            let order = seen.clone();
            seen.sort_by(f64::total_cmp);
            (seen, order)
        };
        let (first, second) = (pass(&mut sources, 0), pass(&mut sources, 5));
        assert_eq!(first.0, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(second.0, first.0);
        assert_ne!(first.1, second.1);
        // A resumed stage draws the same.
        let mut again = StageSources::new(vec![given(5, 0.0)], vec![1.0], Seed(1));
        assert_eq!(drawn(&mut again, 3, 4).2, [&first.1[3..], &second.1[..2]].concat());
    }

    #[test]
    fn sources_have_their_shares() {
        let mut sources =
            StageSources::new(vec![given(4, 0.0), StageSource::Oracle, given(9, 100.0)], vec![1.0, 2.0, 1.0], Seed(2));
        let mut tasks = 0;
        for step in 0..6 {
            let (first, count, given) = drawn(&mut sources, step * 8, 8);
            assert_eq!((first, count, given.len()), (tasks, 4, 4), "step {step}");
            assert_eq!(given.iter().filter(|weight| **weight >= 100.0).count(), 2, "step {step}");
            tasks += count;
        }
        let mut only = StageSources::new(vec![], vec![], Seed(3));
        assert_eq!(drawn(&mut only, 12, 6), (12, 6, vec![]));
    }
}
