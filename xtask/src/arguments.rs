//! What was asked for on the command line.

use std::path::PathBuf;

/// What is printed when the question is not understood.
pub const USAGE: &str = "\
Usage: cargo xtask COMMAND

  setup                        fetch libtorch, build the plugins and the host
  plugins                      build all plugins, into target/plugins/
  demo [--out DIR] [--seed N]  set up, then train a small model on word problems
  test [--peers]               set up, then check and test everything; with --peers
                               also against transformers, pandas and the like
  bench [NAME]                 measure, one JSON line a figure; NAME is one of
                               sandbox, density, hung, rollouts, async, replay, step,
                               instantiate, reward, tools, generate, train, registry
  bench trainer --baselines DIR
                               measure the trainer beside other trainers' programs
  study NAME [--seeds N]       train tiny models with a method and without, one JSON
                               line a step, and draw docs/studies/NAME.svg; NAME is one
                               of void-turns, entropy-band, stale, over-long, anchors,
                               frozen-lake, branching, gating, few-calls, recall, toy,
                               kuhn";

const COMMANDS: [&str; 7] = ["setup", "plugins", "demo", "test", "bench", "study", "help"];

/// What can be studied.
const STUDIES: [&str; 12] = [
    "void-turns",
    "entropy-band",
    "stale",
    "over-long",
    "anchors",
    "frozen-lake",
    "branching",
    "gating",
    "few-calls",
    "recall",
    "toy",
    "kuhn",
];

/// How many seeds a study has if not said.
const SEEDS: u32 = 3;

/// What can be measured, and in which example program.
pub const BENCHES: [(&str, &str); 13] = [
    ("sandbox", "bench_costs"),
    ("density", "bench_density"),
    ("hung", "bench_hung"),
    ("rollouts", "bench_rollouts"),
    ("async", "bench_async"),
    ("replay", "bench_replay"),
    ("step", "bench_sandbox"),
    ("instantiate", "bench_sandbox"),
    ("reward", "bench_sandbox"),
    ("tools", "bench_tools"),
    ("generate", "bench_torch"),
    ("train", "bench_torch"),
    ("registry", "bench_registry"),
];

/// A command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Print the usage.
    Help,
    /// Fetch and build what everything needs.
    Setup,
    /// Build the plugins.
    Plugins,
    /// Train the demonstration.
    Demo {
        /// The run's folder, if not a fresh one under `out/`.
        out: Option<PathBuf>,
        /// The run's seed, if not the run file's.
        seed: Option<u64>,
    },
    /// Check and test.
    Test {
        /// Also against programs of others.
        peers: bool,
    },
    /// Measure.
    Bench {
        /// What; everything when not said.
        name: Option<String>,
    },
    /// Measure the trainer beside other trainers.
    BenchTrainer {
        /// The folder of their programs.
        baselines: PathBuf,
    },
    /// Check a mechanism on tiny models.
    Study {
        /// Which.
        name: String,
        /// How often each arm is trained; at least 1.
        seeds: u32,
    },
}

/// Reads the arguments after `cargo xtask`. The error says what was wrong and what was probably meant.
pub fn parse(arguments: &[String]) -> Result<Command, String> {
    let Some((command, rest)) = arguments.split_first() else { return Ok(Command::Help) };
    let mut rest = rest.iter().map(String::as_str);
    let parsed = match command.as_str() {
        "help" | "--help" | "-h" => Command::Help,
        "setup" => Command::Setup,
        "plugins" => Command::Plugins,
        "demo" => parse_demo(&mut rest)?,
        "test" => {
            let peers = match rest.next() {
                None => false,
                Some("--peers") => true,
                Some(other) => return Err(unknown("option", other, &["--peers"])),
            };
            Command::Test { peers }
        }
        "bench" => {
            let name = rest.next();
            if name == Some("trainer") {
                return parse_trainer(&mut rest);
            }
            let names = BENCHES.map(|(name, _)| name);
            if let Some(name) = name.filter(|name| !names.contains(name)) {
                return Err(unknown("bench", name, &names));
            }
            Command::Bench { name: name.map(str::to_owned) }
        }
        "study" => parse_study(&mut rest)?,
        other => return Err(unknown("command", other, &COMMANDS)),
    };
    match rest.next() {
        None => Ok(parsed),
        Some(more) => Err(format!("`{command}` does not take `{more}`")),
    }
}

fn parse_demo<'a>(rest: &mut impl Iterator<Item = &'a str>) -> Result<Command, String> {
    let (mut out, mut seed) = (None, None);
    while let Some(option) = rest.next() {
        match option {
            "--out" => out = Some(PathBuf::from(rest.next().ok_or("`--out` needs a folder")?)),
            "--seed" => {
                let text = rest.next().ok_or("`--seed` needs a number")?;
                seed = Some(text.parse().map_err(|_| format!("`--seed` takes a whole number from 0, not `{text}`"))?);
            }
            other => return Err(unknown("option", other, &["--out", "--seed"])),
        }
    }
    Ok(Command::Demo { out, seed })
}

fn parse_trainer<'a>(rest: &mut impl Iterator<Item = &'a str>) -> Result<Command, String> {
    match (rest.next(), rest.next(), rest.next()) {
        (Some("--baselines"), Some(folder), None) => Ok(Command::BenchTrainer { baselines: PathBuf::from(folder) }),
        _ => Err("`bench trainer` needs `--baselines DIR`, the folder of other trainers' programs".to_owned()),
    }
}

fn parse_study<'a>(rest: &mut impl Iterator<Item = &'a str>) -> Result<Command, String> {
    let name = rest.next().ok_or_else(|| format!("`study` needs a name, one of {}", STUDIES.join(", ")))?;
    if !STUDIES.contains(&name) {
        return Err(unknown("study", name, &STUDIES));
    }
    let mut seeds = SEEDS;
    while let Some(option) = rest.next() {
        if option != "--seeds" {
            return Err(unknown("option", option, &["--seeds"]));
        }
        let text = rest.next().ok_or("`--seeds` needs a number")?;
        let number = text.parse().ok().filter(|number| *number >= 1);
        seeds = number.ok_or_else(|| format!("`--seeds` takes a whole number from 1, not `{text}`"))?;
    }
    Ok(Command::Study { name: name.to_owned(), seeds })
}

fn unknown(what: &str, found: &str, known: &[&str]) -> String {
    match nearest(found, known) {
        Some(near) => format!("there is no {what} `{found}`; did you mean `{near}`?"),
        None => format!("there is no {what} `{found}`"),
    }
}

/// The known word that is fewest edits away, unless that is most of the word.
fn nearest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|word| (edits(found, word), *word));
    distances.min().filter(|(edits, word)| *edits <= word.len() / 2).map(|(_, word)| word)
}

/// How many letters must be added, dropped or changed to get from one word to the other (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, from) in from.chars().enumerate() {
        let mut line = vec![row + 1];
        for (column, to) in to.iter().enumerate() {
            let changed = above[column] + usize::from(from != *to);
            line.push(changed.min(above[column + 1] + 1).min(line[column] + 1));
        }
        above = line;
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_are_understood() {
        assert_eq!(parsed(""), Ok(Command::Help));
        assert_eq!(parsed("setup"), Ok(Command::Setup));
        assert_eq!(parsed("test --peers"), Ok(Command::Test { peers: true }));
        let beside = Command::BenchTrainer { baselines: "others".into() };
        assert_eq!(parsed("bench trainer --baselines others"), Ok(beside));
        assert_eq!(parsed("bench train"), Ok(Command::Bench { name: Some("train".to_owned()) }));
        let study = |seeds| Ok(Command::Study { name: "kuhn".to_owned(), seeds });
        assert_eq!((parsed("study kuhn"), parsed("study kuhn --seeds 5")), (study(3), study(5)));
        let demo = Command::Demo { out: Some("a/b".into()), seed: Some(7) };
        assert_eq!(parsed("demo --seed 7 --out a/b"), Ok(demo));
    }

    #[test]
    fn mistakes_are_named_with_what_was_probably_meant() {
        for (line, message) in [
            ("setpu", "there is no command `setpu`; did you mean `setup`?"),
            ("dance", "there is no command `dance`"),
            ("test --peer", "there is no option `--peer`; did you mean `--peers`?"),
            ("bench genrate", "there is no bench `genrate`; did you mean `generate`?"),
            ("bench trainer", "`bench trainer` needs `--baselines DIR`, the folder of other trainers' programs"),
            ("demo --seed many", "`--seed` takes a whole number from 0, not `many`"),
            ("demo --out", "`--out` needs a folder"),
            ("study khun", "there is no study `khun`; did you mean `kuhn`?"),
            ("study kuhn --seeds 0", "`--seeds` takes a whole number from 1, not `0`"),
            ("study kuhn --seed 3", "there is no option `--seed`; did you mean `--seeds`?"),
            ("plugins all", "`plugins` does not take `all`"),
        ] {
            assert_eq!(parsed(line), Err(message.to_owned()));
        }
    }

    #[test]
    fn each_documented_study_can_be_asked_for() {
        let documented: Vec<&str> = include_str!("../../docs/studies.md")
            .lines()
            .filter_map(|line| Some(line.strip_prefix("## `")?.split_once('`')?.0))
            .collect();
        assert_eq!(documented, STUDIES);
        let (_, usage) = USAGE.split_once("  study NAME").expect("the usage tells of studies");
        for name in STUDIES {
            assert!(usage.contains(name), "the usage does not name `{name}`");
            assert!(parsed(&format!("study {name}")).is_ok(), "{name}");
        }
    }

    #[test]
    fn edits_are_counted_as_in_the_textbook() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("flaw", "lawn"), 2);
    }
}
