//! Choice of the next action: suggested by the oracle, made from a schema, or from the words of the observation.

use gymkhana_record::{Function, Seed, Stream};
use gymkhana_sandbox::{CallError, OptionalInterface, Plugin};

use super::{ScriptedAction, call, say, strange_arguments, strange_messages};
use crate::driver::Driver;
use crate::examples::Examples;

/// Chooses actions; equal seeds and answers give equal actions.
pub(crate) struct Chooser {
    stream: Stream,
}

impl Chooser {
    pub(crate) fn new(seed: Seed) -> Self {
        Self { stream: seed.child("acts").stream() }
    }

    /// The next action.
    pub(crate) async fn next(&mut self, plugin: &Plugin, driver: &mut Driver) -> Result<ScriptedAction, CallError> {
        let chance = self.stream.below(100);
        if !driver.is_session() && chance < 40 && plugin.offers(OptionalInterface::Oracle) {
            match driver.advice().await {
                Ok(Some(act)) => return Ok(act),
                // An oracle may have no advice, or need a tool that is not given.
                Ok(None) => {}
                Err(error) if error.kind == gymkhana_record::FailureKind::Refused => {}
                Err(error) => return Err(error),
            }
        }
        let functions: Vec<Function> = driver.functions().to_vec();
        if driver.is_session() || (chance < 80 && !functions.is_empty()) {
            return Ok(self.call(&functions));
        }
        Ok(match self.stream.below(10) {
            0 => self.one_of(&strange_messages()),
            _ => say(self.words(&driver.shown)),
        })
    }

    fn call(&mut self, functions: &[Function]) -> ScriptedAction {
        if functions.is_empty() {
            return call("no-such-function", "{}");
        }
        let function = self.one_of(functions);
        let examples = Examples::of(&function.parameters);
        match (self.stream.below(10), examples) {
            (0 | 1, Ok(examples)) => self.one_of(&strange_arguments(&function, &examples)).0,
            (_, Ok(examples)) => {
                let made = examples.make(&mut self.stream);
                call(function.name, made.map_or_else(|| "{}".to_owned(), |made| made.to_string()))
            }
            (_, Err(_)) => call(function.name, "{}"),
        }
    }

    /// A message of words and numbers from the observation, or a fixed one.
    fn words(&mut self, shown: &str) -> String {
        const OTHERS: [&str; 12] =
            ["yes", "no", "0", "1", "2", "5", "up", "left", "accept", "call", "check", "I do not know"];
        let words: Vec<&str> =
            shown.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let count = 1 + self.stream.below(2);
        let mut said = Vec::new();
        for _ in 0..count {
            if words.is_empty() || self.stream.below(3) == 0 {
                said.push(self.one_of(&OTHERS));
            } else {
                said.push(self.one_of(&words));
            }
        }
        said.join(" ")
    }

    fn one_of<T: Clone>(&mut self, things: &[T]) -> T {
        things[self.stream.below(things.len() as u64) as usize].clone()
    }
}
