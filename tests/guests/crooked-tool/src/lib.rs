//! Tool with one defect at a time, selected by the option `crook`: one for each check of the conformance suite.

use std::sync::atomic::{AtomicU64, Ordering};

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::tool::{Answer, FinalView, Info, Snapshot, Tool};
use gymkhana_sdk::{Call, Error, Function, NamedValue, Parameters, PluginOptions, log, named, plugin};

/// Defects; `none` and `chatty`, which logs a line at each call, are allowed.
const CROOKS: [&str; 13] = [
    "none",
    "no-function",
    "no-description",
    "mute",
    "polite",
    "fragile",
    "shared-sum",
    "forgets",
    "forgets-view",
    "hoards",
    "wants-setup",
    "refuses",
    "chatty",
];

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Defect
    #[option(default = "none", choices = CROOKS)]
    crook: String,
}

/// Size of the hoarded memory, in bytes.
const HOARD: usize = 24 << 20;

static SUM: AtomicU64 = AtomicU64::new(0);

/// Adds numbers.
pub struct Crooked {
    crook: String,
    sum: u64,
    /// Successful calls, which only the final view shows.
    calls: u64,
    hoard: Vec<u8>,
}

impl Tool for Crooked {
    type Options = Options;

    fn info() -> Info {
        Info::new("Tool with a selectable defect")
    }

    fn functions(options: &Options) -> Result<Vec<Function>, Error> {
        let parameters = Parameters::new().integer("number", "what is added, such as 7");
        let description = if options.crook == "no-description" { "" } else { "Adds up." };
        let functions = vec![Function::new("add", description, parameters)];
        Ok(if options.crook == "no-function" { vec![] } else { functions })
    }

    fn open(setup: Option<Vec<u8>>, options: &Options, _seed: u64) -> Result<Self, Error> {
        let crook = options.crook.clone();
        if crook == "wants-setup" && setup.as_deref() != Some(b"prepared") {
            return Err(Error::invalid("an environment must prepare this tool"));
        }
        Ok(Self { crook, sum: 0, calls: 0, hoard: vec![] })
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        let crook = self.crook.as_str();
        if crook == "fragile" {
            assert!(call.arguments.starts_with('{'), "arguments are an object");
        }
        if crook == "chatty" {
            log::info(&format!("asked to {}", call.name));
        }
        if call.name != "add" {
            return Ok(if crook == "polite" { Answer::text("done") } else { Answer::no_function(call) });
        }
        let number = match call.integer("number") {
            Ok(number) => number,
            Err(why) if crook == "refuses" => return Err(Error::Invalid(why)),
            Err(why) => return Ok(Answer::failed(why)),
        };
        if crook == "hoards" {
            self.hoard = vec![1; HOARD];
        }
        self.sum = self.sum.wrapping_add(number.unsigned_abs());
        self.calls += 1;
        let shared = SUM.fetch_add(number.unsigned_abs(), Ordering::Relaxed);
        Ok(Answer::text(match crook {
            "mute" => String::new(),
            "shared-sum" => shared.to_string(),
            _ => self.sum.to_string(),
        }))
    }
}

impl Snapshot for Crooked {
    fn snapshot(&self) -> Vec<u8> {
        let sum = if self.crook == "forgets" { 0 } else { self.sum };
        let calls = if self.crook == "forgets-view" { 0 } else { self.calls };
        Writer::new().text(&self.crook).integer(sum).integer(calls).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let crook = reader.text()?.to_owned();
        let restored = Self { crook, sum: reader.integer()?, calls: reader.integer()?, hoard: vec![] };
        reader.end()?;
        Ok(restored)
    }
}

impl FinalView for Crooked {
    fn final_view(&self) -> Vec<NamedValue> {
        vec![named("hoarded", self.hoard.len() as i64), named("calls", self.calls as i64)]
    }
}

plugin! { tool: Crooked { snapshot, final_view } }
