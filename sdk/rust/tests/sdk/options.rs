//! Derived options: defaults, validation, descriptions and snapshots.

use gymkhana_sdk::environment::{self, Environment, Episode};
use gymkhana_sdk::snapshot::{Reader, SnapshotState as _, Writer};
use gymkhana_sdk::{Error, Json, NamedValue, OptionValue, PluginOptions, Task, Value, named};

#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum Mode {
    Auto,
    OneByOne,
    #[option(name = "4x4")]
    Small,
}

#[derive(Debug, PartialEq, PluginOptions)]
struct Options {
    /// Difficulty of the stories.
    #[option(default = 2, range = 1..=4)]
    difficulty: u8,
    /// Cost of a call,
    /// in points
    #[option(default = 0.0, range = 0.0..)]
    per_call_cost: f64,
    /// Offset
    #[option(default = -1, range = ..=9, name = "shift")]
    offset: i64,
    /// Number of entries
    #[option(default = 7)]
    entries: usize,
    /// Any number
    #[option(default = 0.5)]
    number: f64,
    /// Comparison
    #[option(default = "auto", choices = ["auto", "text"])]
    compared: String,
    /// Order
    #[option(default = Mode::Auto)]
    mode: Mode,
    /// Ice
    #[option(default = false)]
    slippery: bool,
    /// Roles
    #[option(default = "[]")]
    roles: Json,
    /// Key
    #[option(default = b"k")]
    key: Vec<u8>,
}

fn refusal(given: NamedValue) -> String {
    match Options::parse(vec![given]) {
        Err(Error::Invalid(message)) => message,
        other => panic!("not refused as invalid: {other:?}"),
    }
}

#[test]
fn defaults_hold_until_set() {
    assert_eq!(Options::parse(vec![]), Ok(Options::default()));
    let given = vec![named("difficulty", 4), named("per-call-cost", 1), named("mode", "one-by-one")];
    let options = Options { difficulty: 4, per_call_cost: 1.0, mode: Mode::OneByOne, ..Options::default() };
    assert_eq!(Options::parse(given), Ok(options));
    let json = NamedValue { name: "roles".to_owned(), value: Value::Other("[1]".to_owned()) };
    let given = vec![json, named("key", vec![7_u8]), named("shift", -7), named("mode", "4x4")];
    let options =
        Options { roles: Json("[1]".to_owned()), key: vec![7], offset: -7, mode: Mode::Small, ..Options::default() };
    assert_eq!(Options::parse(given), Ok(options));
}

#[test]
fn mistakes_name_the_option_and_the_fix() {
    for (given, reason) in [
        (named("dificulty", 1), "unknown option `dificulty`; the nearest known one is `difficulty`"),
        (named("difficulty", 5), "option `difficulty` must be 1 to 4, not 5"),
        (named("difficulty", "hard"), "option `difficulty` must be a whole number, not hard"),
        (named("difficulty", 2.0), "option `difficulty` must be a whole number, not 2"),
        (named("per-call-cost", -1.0), "option `per-call-cost` must be at least 0, not -1"),
        (named("per-call-cost", f64::NAN), "option `per-call-cost` must be at least 0, not NaN"),
        (named("number", f64::NAN), "option `number` must be finite, not NaN"),
        (named("shift", 10), "option `shift` must be at most 9, not 10"),
        (named("entries", -1), "option `entries` must be at least 0, not -1"),
        (named("compared", "txt"), "option `compared` must be one of auto, text, not txt"),
        (named("mode", "OneByOne"), "option `mode` must be one of auto, one-by-one, 4x4, not OneByOne"),
        (named("slippery", 1), "option `slippery` must be true or false, not 1"),
    ] {
        assert_eq!(refusal(given), reason);
    }
    let twice = Options::parse(vec![named("slippery", true), named("slippery", true)]);
    assert!(matches!(twice, Err(Error::Invalid(message)) if message.contains("twice")));
    let none = <()>::parse(vec![named("x", 1)]);
    assert!(matches!(none, Err(Error::Invalid(message)) if message.contains("this plugin has no options")));
}

#[test]
fn snapshots_restore_options_and_refuse_others() {
    let options = Options { difficulty: 3, compared: "text".to_owned(), mode: Mode::Small, ..Options::default() };
    let bytes = options.write(Writer::new()).finish();
    let mut reader = Reader::new(&bytes);
    assert_eq!(Options::read(&mut reader), Ok(options));
    assert_eq!(reader.end(), Ok(()));
    for length in 0..bytes.len() {
        assert!(matches!(Options::read(&mut Reader::new(&bytes[..length])), Err(Error::BadSnapshot(_))), "{length}");
    }
    // The first value is that of `difficulty`.
    let mut outside = bytes;
    outside[8] = 5;
    let refused = Options::read(&mut Reader::new(&outside));
    assert_eq!(refused, Err(Error::BadSnapshot("option `difficulty` must be 1 to 4, not 5".to_owned())));
}

/// Environment without rules.
struct Idle;

impl Environment for Idle {
    type Options = Options;

    fn info() -> environment::Info {
        environment::Info::new("Ends at once", ["agent"])
    }

    fn splits(_options: &Options) -> Result<Vec<environment::Split>, Error> {
        Ok(vec![environment::Split::of("train", 1)])
    }

    fn reset(_task: &Task, options: &Options, _seed: u64) -> Result<(Self, environment::ResetResult), Error> {
        Ok((Self, environment::ResetResult::observe(format!("{}", options.difficulty))))
    }

    fn step(&mut self, _action: environment::Action) -> Result<environment::StepResult, Error> {
        Ok(environment::StepResult::new().end())
    }
}

#[test]
fn the_host_reads_limits_in_the_descriptions() {
    use gymkhana_sdk::bindings::environment::exports::gymkhana::plugin::environment::Guest as _;
    let info = environment::Exported::<Idle>::describe();
    let told: Vec<String> =
        info.options.iter().map(|option| format!("{}: {}", option.name, option.description)).collect();
    assert_eq!(
        told,
        [
            "difficulty: Difficulty of the stories (1 to 4)",
            "per-call-cost: Cost of a call, in points (at least 0)",
            "shift: Offset (at most 9)",
            "entries: Number of entries (at least 0)",
            "number: Any number",
            "compared: Comparison (one of auto, text)",
            "mode: Order (one of auto, one-by-one, 4x4)",
            "slippery: Ice",
            "roles: Roles",
            "key: Key",
        ]
    );
    let task = Task { split: "train".to_owned(), index: 0 };
    let refused = Episode::<Idle>::reset(&task, vec![named("difficulty", 9)], 0).err();
    assert!(matches!(refused, Some(Error::Invalid(_))));
}
