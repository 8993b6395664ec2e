//! Episodes that the environment's oracle plays.

use gymkhana_record::{Call, Ending, Failure};
use gymkhana_sandbox::Advice;

use crate::episode::Episode;
use crate::hooks::NoHooks;

/// Turns in which an oracle should end a task, after which trials leave it.
pub const ORACLE_TURNS: u32 = 300;

impl Episode {
    /// Lets the oracle take every turn, up to the end or for [`ORACLE_TURNS`]. `max_calls` limits the number of calls of
    /// all seats.
    ///
    /// # Errors
    /// If the environment has no oracle, or fails to advise.
    pub async fn play_oracle(&mut self, max_calls: u32) -> Result<Ending, Failure> {
        for _ in 0..ORACLE_TURNS {
            let advice = self.advise(&NoHooks).await?;
            if let Some(ending) = self.take_turn(&mut NoHooks, advice.into(), max_calls).await {
                return Ok(ending);
            }
        }
        Ok(Ending::TurnLimit)
    }

    /// The first call of an oracle's advice that names a function which the seat to move does not have.
    #[must_use]
    pub fn unknown_call<'a>(&self, advice: &'a Advice) -> Option<&'a Call> {
        let Advice::Calls(calls) = advice else { return None };
        let functions = self.data.functions(self.data.seat);
        calls.iter().find(|call| !functions.iter().any(|function| function.name == call.name))
    }
}
