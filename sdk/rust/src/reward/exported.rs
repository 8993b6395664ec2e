//! From the contract's functions to an author's trait.

use std::marker::PhantomData;

use super::{Reward, Score, Trajectory};
use crate::bindings::reward::exports::gymkhana::plugin::reward as wit;
use crate::{Error, NamedValue, OptionInfo, Options};

/// What [`crate::plugin!`] exports for a reward.
pub struct Exported<R>(PhantomData<R>);

impl<R: Reward> wit::Guest for Exported<R> {
    fn describe() -> wit::Info {
        let info = R::info();
        wit::Info {
            summary: info.summary,
            components: info.components,
            range: R::RANGE,
            options: info.options.iter().map(OptionInfo::to_wit).collect(),
        }
    }

    fn score(group: Vec<Trajectory>, options: Vec<NamedValue>, training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        score::<R>(&group, options, training_step)
    }
}

/// Scores a group as the host has it scored; native tests do just so.
///
/// # Errors
///
/// [`Error::Invalid`] for options that the reward does not know, and its own errors.
pub fn score<R: Reward>(
    group: &[Trajectory],
    options: Vec<NamedValue>,
    training_step: u64,
) -> Result<Vec<Vec<Score>>, Error> {
    R::score(group, &Options::new(&R::info().options, options)?, training_step)
}
