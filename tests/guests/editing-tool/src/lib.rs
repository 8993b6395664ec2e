//! Offers a function of the name by which the host lets a policy edit its context.

use gymkhana_sdk::tool::{Answer, Info, Tool};
use gymkhana_sdk::{Call, Error, Function, Options, Parameters, plugin};

/// Edits nothing.
pub struct EditingTool;

impl Tool for EditingTool {
    fn info() -> Info {
        Info::new("Offers a function that the host may offer as well")
    }

    fn functions(_options: &Options) -> Result<Vec<Function>, Error> {
        Ok(vec![Function::new("edit_context", "Edits nothing.", Parameters::new())])
    }

    fn open(_setup: Option<Vec<u8>>, _options: &Options, _seed: u64) -> Result<Self, Error> {
        Ok(Self)
    }

    fn call(&mut self, _call: &Call) -> Result<Answer, Error> {
        Ok(Answer::text("nothing edited"))
    }
}

plugin! { tool: EditingTool }
