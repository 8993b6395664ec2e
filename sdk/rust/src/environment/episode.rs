//! Episode with the rules that all environments share: valid options, seats in turn, a final end.

use super::rules::Rules;
use super::{Action, Environment, ResetResult, Snapshot, Split, StepResult};
use crate::snapshot::Reader;
use crate::{Error, NamedValue, PluginOptions as _, Task};

/// Episode with the checks that the host relies on, also for use in native tests.
#[derive(Debug)]
pub struct Episode<E> {
    environment: E,
    rules: Rules,
}

impl<E: Environment> Episode<E> {
    /// Splits under these options.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for invalid options.
    pub fn splits(options: Vec<NamedValue>) -> Result<Vec<Split>, Error> {
        E::splits(&E::Options::parse(options)?)
    }

    /// Starts an episode.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for invalid options, and the environment's own errors.
    pub fn reset(task: &Task, options: Vec<NamedValue>, seed: u64) -> Result<(Self, ResetResult), Error> {
        let (environment, result) = E::reset(task, &E::Options::parse(options)?, seed)?;
        Ok((Self { environment, rules: Rules::of(&result) }, result))
    }

    /// Applies an action.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] after the end of the episode or if another seat is to move, [`Error::NotFound`] for a call of
    /// a function that was not offered, and the environment's own errors.
    pub fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.rules.check(&action)?;
        let result = self.environment.step(action)?;
        self.rules.follow(&result);
        Ok(result)
    }

    /// State of the environment.
    #[must_use]
    pub fn environment(&self) -> &E {
        &self.environment
    }
}

impl<E: Snapshot> Episode<E> {
    /// Complete state.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        self.rules.write().bytes(&self.environment.snapshot()).finish()
    }

    /// Episode with the state of a snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for invalid bytes.
    pub fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let rules = Rules::read(&mut reader)?;
        let environment = E::restore(reader.bytes()?)?;
        reader.end()?;
        Ok(Self { environment, rules })
    }
}
