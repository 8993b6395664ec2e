//! Advantages in a run with several environments: each environment's episodes are a batch of their own.

use std::collections::BTreeMap;

use gymkhana_record::Stream;

use super::{AdvantageInput, AdvantageState, compute};
use gymkhana_algorithm::RlSettings;
use gymkhana_engine::Column;

/// As [`compute`], for each environment with its own flags, factor and memory.
pub fn compute_each(
    batch: &mut [AdvantageInput],
    settings: &RlSettings,
    memory: &mut AdvantageState,
    version: u32,
    stream: &mut Stream,
) {
    for (name, places) in by_environment(batch) {
        let mut own = take(batch, &places);
        let memory = memory.of(name.as_deref());
        match name.and_then(|name| settings.environments.get(&name)) {
            Some(advantage) => {
                compute(&mut own, &advantage.over(&settings.algorithm), memory, version, stream);
                multiply(&mut own, advantage.factor);
            }
            None => compute(&mut own, &settings.algorithm, memory, version, stream),
        }
        put_back(batch, own, &places);
    }
}

/// Places of the inputs of each environment, in their order.
fn by_environment(batch: &[AdvantageInput]) -> BTreeMap<Option<String>, Vec<usize>> {
    let mut places: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
    for (place, input) in batch.iter().enumerate() {
        places.entry(input.environment.clone()).or_default().push(place);
    }
    places
}

/// Takes the inputs at these places out of the batch. Turns that episodes share refer to places among them, because the
/// episodes of a group have one environment.
fn take(batch: &mut [AdvantageInput], places: &[usize]) -> Vec<AdvantageInput> {
    let mut own: Vec<AdvantageInput> = places.iter().map(|place| std::mem::take(&mut batch[*place])).collect();
    relink(&mut own, |owner| places.binary_search(&owner).ok());
    own
}

/// Puts inputs back at their places.
fn put_back(batch: &mut [AdvantageInput], mut own: Vec<AdvantageInput>, places: &[usize]) {
    relink(&mut own, |owner| places.get(owner).copied());
    for (place, input) in places.iter().zip(own) {
        batch[*place] = input;
    }
}

fn relink(inputs: &mut [AdvantageInput], place: impl Fn(usize) -> Option<usize>) {
    for turn in inputs.iter_mut().flat_map(|input| &mut input.turns) {
        turn.shared_with = turn.shared_with.and_then(&place);
    }
}

/// Multiplies the advantages of all tokens.
fn multiply(inputs: &mut [AdvantageInput], factor: f64) {
    for input in inputs {
        input.tokens.column_mut(Column::Advantage).iter_mut().for_each(|advantage| *advantage *= factor);
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Seed;

    use super::*;
    use crate::advantage::TurnPart;
    use gymkhana_algorithm::{Algorithm, Baseline, Bounds, EnvironmentAdvantage, Scale, Whiten};
    use gymkhana_engine::TokenStats;

    fn input(environment: Option<&str>, group: usize, reward: f64) -> AdvantageInput {
        let mut input = AdvantageInput {
            environment: environment.map(str::to_owned),
            group,
            reward,
            rest: reward,
            ..AdvantageInput::default()
        };
        let mut tokens = TokenStats::default();
        tokens.push(&[(Column::LossMask, 1.0)]);
        input.push_turn(TurnPart::default(), &tokens);
        input
    }

    fn advantages(
        settings: &RlSettings,
        memory: &mut AdvantageState,
        batch: &[(Option<&str>, usize, f64)],
    ) -> Vec<f64> {
        let mut batch: Vec<_> = batch.iter().map(|(name, group, reward)| input(*name, *group, *reward)).collect();
        compute_each(&mut batch, settings, memory, 0, &mut Seed(1).stream());
        batch.iter().map(|input| input.tokens.get(Column::Advantage, 0)).collect()
    }

    fn settings(algorithm: Algorithm, own: &[(&str, EnvironmentAdvantage)]) -> RlSettings {
        let environments = own.iter().map(|(name, own)| ((*name).to_owned(), own.clone())).collect();
        RlSettings { algorithm, environments, ..RlSettings::default() }
    }

    #[track_caller]
    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-5);
        assert!(close, "{found:?} are not {expected:?}");
    }

    /// Rewards 0 and 10 of `a` are clipped to 0 and 4: their mean is 2, their sample deviation sqrt(8); three times -2 and 2
    /// over it. Rewards 1 and 3 of `b` differ from their mean by 1.
    #[test]
    fn flags_and_factors_are_those_of_the_environment() {
        let plain = Algorithm { baseline: Baseline::GroupMean, scale: Scale::None, ..Algorithm::default() };
        let own = EnvironmentAdvantage {
            factor: 3.0,
            scale: Some(Scale::GroupStd),
            reward_clip: Some(Bounds { low: -4.0, high: 4.0 }),
        };
        let settings = settings(plain, &[("a", own)]);
        let batch = [(Some("b"), 0, 1.0), (Some("a"), 1, 0.0), (Some("b"), 0, 3.0), (Some("a"), 1, 10.0)];
        let scaled = 3.0 * 2.0 / 8.0_f64.sqrt();
        near(&advantages(&settings, &mut AdvantageState::default(), &batch), &[-1.0, -scaled, 1.0, scaled]);
    }

    /// Whitening over the whole batch would divide 1 by a deviation of about 50.
    #[test]
    fn a_batch_is_whitened_and_compared_within_the_environment() {
        let whitened = Algorithm { baseline: Baseline::BatchMean, whiten: Whiten::Tokens, ..Algorithm::default() };
        let settings = settings(whitened, &[]);
        let batch = [(Some("a"), 0, 1.0), (Some("a"), 1, -1.0), (Some("b"), 2, 100.0), (Some("b"), 3, 0.0)];
        let found = advantages(&settings, &mut AdvantageState::default(), &batch);
        near(&[found[0], found[1]], &[found[2], found[3]]);
        assert!(found[0] > 0.5 && found[1] < -0.5, "{found:?}");
    }

    /// The averages before the rewards 1 and 3: 0 and 0.5 in the same environment, 0 and 0 in two.
    #[test]
    fn moving_averages_are_those_of_the_environment() {
        let averaged = Algorithm { baseline: Baseline::SeatAverage, average_decay: Some(0.5), ..Algorithm::default() };
        let settings = settings(averaged, &[]);
        let mut memory = AdvantageState::default();
        near(&advantages(&settings, &mut memory, &[(None, 0, 1.0), (None, 1, 3.0)]), &[1.0, 2.5]);
        near(&advantages(&settings, &mut memory, &[(Some("a"), 0, 1.0), (Some("b"), 1, 3.0)]), &[1.0, 3.0]);
        // A checkpoint holds them.
        let text = serde_json::to_string(&memory).expect("JSON");
        assert_eq!(serde_json::from_str::<AdvantageState>(&text).expect("a memory"), memory);
        assert!((memory.environments["b"].averages[&0] - 1.5).abs() < 1e-12);
    }

    /// A turn that two episodes share keeps its owner at another place of the batch.
    #[test]
    fn shared_turns_keep_their_owner() {
        let mut batch = vec![input(Some("b"), 0, 0.0), input(Some("a"), 1, 1.0), input(Some("b"), 0, 1.0)];
        batch[2].turns[0].shared_with = Some(0);
        let settings = settings(Algorithm { baseline: Baseline::GroupMean, ..Algorithm::default() }, &[]);
        compute_each(&mut batch, &settings, &mut AdvantageState::default(), 0, &mut Seed(1).stream());
        assert_eq!(batch[2].turns[0].shared_with, Some(0));
        // The mean of -1/2 and 1/2.
        assert!(batch[0].tokens.get(Column::Advantage, 0).abs() < 1e-12);
    }
}
