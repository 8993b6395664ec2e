//! Tool that never finishes its start: a static constructor loops forever before any function runs.

use gymkhana_sdk::tool::{Answer, Info, Tool};
use gymkhana_sdk::{Call, Error, Function, plugin};

/// Tool without functions.
pub struct StartLoop;

impl Tool for StartLoop {
    type Options = ();

    fn info() -> Info {
        Info::new("Never finishes starting")
    }

    fn functions(_options: &()) -> Result<Vec<Function>, Error> {
        Ok(Vec::new())
    }

    fn open(_setup: Option<Vec<u8>>, _options: &(), _seed: u64) -> Result<Self, Error> {
        Ok(Self)
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        Ok(Answer::no_function(call))
    }
}

plugin! { tool: StartLoop }

/// Runs at the start of an instance.
#[cfg(target_arch = "wasm32")]
extern "C" fn endless() {
    let mut count = 0_u64;
    loop {
        count = std::hint::black_box(count.wrapping_add(1));
    }
}

#[cfg(target_arch = "wasm32")]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = endless;
