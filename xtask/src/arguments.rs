//! Command line of `cargo xtask`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::ci::Part;
use crate::measure::first_run::Until;
use crate::measure::install::From;
use crate::measure::{Bench, StudyName};
use crate::reference::Reference;

/// Set up, test and measure Gymkhana
#[derive(Debug, Parser, PartialEq, Eq)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
pub struct Arguments {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// A command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Fetch libtorch; build the plugins and the host
    Setup,
    /// Build all plugins into target/plugins
    Plugins,
    /// Set up, then train on word problems
    Demo {
        /// Output directory; by default a new one in out/
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Seed of the run; by default the run file's
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Train a pretrained model of 135 million parameters instead of random weights
        #[arg(long)]
        pretrained: bool,
    },
    /// Set up, then run the tests
    Test {
        /// Crates that changed: only their tests and those of crates that use them
        #[arg(value_name = "CRATE", conflicts_with = "reference")]
        crates: Vec<String>,
        /// Also compare with other programs; a name runs that comparison only
        #[arg(long, value_name = "NAME", num_args = 0..=1)]
        reference: Option<Option<Reference>>,
        /// Length of `workers` and `soak`
        #[arg(long, value_name = "N", requires = "reference")]
        minutes: Option<u64>,
        /// Repeat test programs that passed and have not changed
        #[arg(long)]
        again: bool,
    },
    /// Run the tests and all other checks, the cheap ones first
    Ci {
        /// Run one part; `rest` uses what `test` has built
        #[arg(long, value_name = "PART")]
        part: Option<Part>,
        /// Repeat checks whose inputs have not changed
        #[arg(long)]
        full: bool,
        /// Start no check after this time, and name those left out
        #[arg(long, value_name = "N")]
        minutes: Option<u64>,
    },
    /// Measure what this repository costs its users and developers
    #[command(subcommand)]
    Measure(Measure),
    /// Set up, then measure; one JSON line per result
    Bench {
        /// Benches to run; all by default
        #[arg(value_name = "NAME")]
        names: Vec<Bench>,
        /// Run one round only
        #[arg(long, conflicts_with = "baselines")]
        smoke: bool,
        /// Programs of other trainers, for `trainer`
        #[arg(long, value_name = "DIR")]
        baselines: Option<PathBuf>,
    },
    /// Set up, then pack what checks a GPU into target/gpu-pack
    GpuPack,
    /// Set up, then run studies and plot them
    Study {
        /// Study to run
        #[arg(value_name = "NAME", required_unless_present = "smoke")]
        name: Option<StudyName>,
        /// Seeds per arm
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        seeds: u32,
        /// Train a few steps without plotting
        #[arg(long)]
        smoke: bool,
    },
    /// Check texts for archaic phrases, and the number of their words
    LintProse,
    /// Check dependencies, module cycles, sizes and type names
    Arrows {
        /// Update the table in ARCHITECTURE.md
        #[arg(long)]
        write: bool,
    },
    /// Check the manifests of Kubernetes
    Manifests,
    /// Check relative links of all Markdown files
    Links,
    /// Build all documentation and check its links
    Docs {
        /// Build the site only, with the API documentation that was built before
        #[arg(long)]
        pages: bool,
    },
    /// Write the reference page of the first-party plugins
    Shelf {
        /// Compare only; fail if the page is stale
        #[arg(long)]
        check: bool,
    },
    /// Run all fuzz targets
    Fuzz {
        /// Time for all targets together, in seconds
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
        seconds: u64,
    },
    /// Set the version and date the changelog
    Release {
        /// New version
        version: semver::Version,
        /// Print the changes only
        #[arg(long)]
        dry_run: bool,
    },
    /// Make all files of a release into target/dist
    Dist {
        /// Folder of programs built before [default: build them]
        #[arg(long, value_name = "DIR")]
        programs: Option<PathBuf>,
        /// Wheel of gymkhana-rl built before [default: build it]
        #[arg(long, value_name = "FILE")]
        wheel: Option<PathBuf>,
        /// Add the site and check all files
        #[arg(long)]
        check: bool,
    },
    /// Generate the bindings of the Rust SDK from the contract
    Bindings,
    /// Check and pack the publishable packages
    Package,
    /// Build the wheel of the Python package into target/wheels
    Wheel {
        /// Link for systems from glibc 2.28 on, as releases do
        #[arg(long)]
        portable: bool,
        /// Rust target of another system [default: this machine]
        #[arg(long, value_name = "TRIPLE")]
        target: Option<String>,
    },
}

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Measure {
    /// README's commands in an empty clone of the last commit
    FirstRun {
        /// Last thing to measure
        #[arg(long, value_name = "WHAT", default_value = "change")]
        until: Until,
        /// Folder for the clone, which is kept; by default a temporary one
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// An installation from target/dist and a demo, without Rust and a compiler
    Install {
        /// Packages or archive
        #[arg(value_name = "FROM")]
        from: From,
        /// Folder of the release [default: target/dist]
        #[arg(long, value_name = "DIR")]
        dist: Option<PathBuf>,
    },
    /// The 50 slowest tests, each in a process of its own
    Tests,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn parsed(line: &str) -> Result<Command, clap::Error> {
        let words = std::iter::once("xtask").chain(line.split_whitespace());
        Arguments::try_parse_from(words).map(|arguments| arguments.command)
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_page_for_contributors_names_every_command() {
        let page = include_str!("../../CONTRIBUTING.md");
        let is_word_end = |sign: char| !sign.is_alphanumeric() && sign != '-';
        let named: Vec<&str> =
            page.split("cargo xtask ").skip(1).filter_map(|rest| rest.split(is_word_end).next()).collect();
        for command in Arguments::command().get_subcommands() {
            assert!(named.contains(&command.get_name()), "{} is missing", command.get_name());
        }
    }

    #[test]
    fn commands_are_parsed() {
        assert_eq!(parsed("setup").unwrap(), Command::Setup);
        let test = |reference| Command::Test { crates: vec![], reference, minutes: None, again: false };
        assert_eq!(parsed("test").unwrap(), test(None));
        assert_eq!(parsed("test --reference").unwrap(), test(Some(None)));
        let reference = Some(Some(Reference::Soak));
        let soak = Command::Test { crates: vec![], reference, minutes: Some(20), again: false };
        assert_eq!(parsed("test --reference soak --minutes 20").unwrap(), soak);
        assert_eq!(parsed("test --reference vllm").unwrap(), test(Some(Some(Reference::Vllm))));
        assert_eq!(parsed("test --reference pretrained").unwrap(), test(Some(Some(Reference::Pretrained))));
        assert_eq!(parsed("test --reference python").unwrap(), test(Some(Some(Reference::Python))));
        let crates = vec!["rollout".to_owned(), "store".to_owned()];
        assert_eq!(
            parsed("test rollout store").unwrap(),
            Command::Test { crates, reference: None, minutes: None, again: false }
        );
        assert_eq!(parsed("ci").unwrap(), Command::Ci { part: None, full: false, minutes: None });
        let rest = Command::Ci { part: Some(Part::Rest), full: true, minutes: Some(20) };
        assert_eq!(parsed("ci --part rest --minutes 20 --full").unwrap(), rest);
        assert_eq!(parsed("wheel").unwrap(), Command::Wheel { portable: false, target: None });
        let target = Some("aarch64-unknown-linux-gnu".to_owned());
        let line = "wheel --portable --target aarch64-unknown-linux-gnu";
        assert_eq!(parsed(line).unwrap(), Command::Wheel { portable: true, target });
        assert!(
            parsed("test --reference tgi")
                .unwrap_err()
                .to_string()
                .contains("programs, training, mcp, vllm, tinker, torch, clients, traces, python, packages, endpoints")
        );
        let first_run = |until, folder| Command::Measure(Measure::FirstRun { until, folder });
        assert_eq!(parsed("measure first-run").unwrap(), first_run(Until::Change, None));
        assert_eq!(
            parsed("measure first-run --until demo --folder x").unwrap(),
            first_run(Until::Demo, Some("x".into()))
        );
        assert_eq!(parsed("measure tests").unwrap(), Command::Measure(Measure::Tests));
        let bench = |names: &[Bench], smoke, baselines: Option<&str>| Command::Bench {
            names: names.to_vec(),
            smoke,
            baselines: baselines.map(PathBuf::from),
        };
        assert_eq!(parsed("bench rollouts").unwrap(), bench(&[Bench::Rollouts], false, None));
        assert_eq!(parsed("bench --smoke").unwrap(), bench(&[], true, None));
        assert_eq!(
            parsed("bench trainer --baselines others").unwrap(),
            bench(&[Bench::Trainer], false, Some("others"))
        );
        assert_eq!(parsed("gpu-pack").unwrap(), Command::GpuPack);
        let study = |name, seeds, smoke| Command::Study { name, seeds, smoke };
        assert_eq!(parsed("study kuhn --seeds 5").unwrap(), study(Some(StudyName::Kuhn), 5, false));
        assert_eq!(parsed("study --smoke").unwrap(), study(None, 3, true));
        let demo = |pretrained| Command::Demo { out: Some("a/b".into()), seed: Some(7), pretrained };
        assert_eq!(parsed("demo --seed 7 --out a/b").unwrap(), demo(false));
        assert_eq!(parsed("demo --seed 7 --out a/b --pretrained").unwrap(), demo(true));
        assert_eq!(
            parsed("release 0.2.0 --dry-run").unwrap(),
            Command::Release { version: semver::Version::new(0, 2, 0), dry_run: true }
        );
    }

    #[test]
    fn mistakes_exit_with_2_and_name_a_similar_word() {
        for (line, message) in [
            ("setpu", "'setup'"),
            ("test --referense", "'--reference'"),
            ("ci --part tests", "quick, rest"),
            ("bench genrate", "'generate'"),
            ("study khun", "'kuhn'"),
            ("study", "NAME"),
            ("study kuhn --seeds 0", "0 is not in 1.."),
            ("demo --seed many", "invalid digit"),
            ("demo --out", "a value is required"),
            ("release 1.0", "unexpected end of input"),
            ("plugins all", "unexpected argument 'all'"),
        ] {
            let error = parsed(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(message), "{line}: {error}");
        }
    }
}
