//! Tool with a function of the same name as the host's function for context editing.

use gymkhana_sdk::tool::{Answer, Info, Tool};
use gymkhana_sdk::{Call, Error, Function, Parameters, plugin};

/// Edits nothing.
pub struct EditingTool;

impl Tool for EditingTool {
    type Options = ();

    fn info() -> Info {
        Info::new("Offers a function with the name of a host function")
    }

    fn functions(_options: &()) -> Result<Vec<Function>, Error> {
        Ok(vec![Function::new("edit_context", "Edits nothing.", Parameters::new())])
    }

    fn open(_setup: Option<Vec<u8>>, _options: &(), _seed: u64) -> Result<Self, Error> {
        Ok(Self)
    }

    fn call(&mut self, _call: &Call) -> Result<Answer, Error> {
        Ok(Answer::text("nothing edited"))
    }
}

plugin! { tool: EditingTool }
