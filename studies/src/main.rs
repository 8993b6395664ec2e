//! Studies of single mechanisms: trains tiny models once for each arm and seed and prints one JSON line per step.
//!
//! The first line of a study names the plotted metric and the arms. `cargo xtask study` builds and runs this program;
//! the pages in `studies/` hold the claims and the results.

mod name;
mod study;
mod table;

use anyhow::Result;
use clap::{Parser, ValueEnum as _};
use gymkhana_benches::Effort;
use gymkhana_record::Seed;
use serde_json::{Map, Value, json};

use name::StudyName;
use study::{Row, Study};

/// Study single mechanisms on tiny models
#[derive(Debug, Parser)]
struct Arguments {
    /// Studies to run; all by default
    names: Vec<StudyName>,
    /// Seeds per arm
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Train a few steps of one seed
    #[arg(long)]
    smoke: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let Arguments { names, seeds, smoke } = Arguments::parse();
    let effort = Effort::from(smoke);
    let names = if names.is_empty() { StudyName::value_variants() } else { &names };
    for name in names {
        print_study(*name, effort.pick(seeds, 1), effort).await?;
    }
    Ok(())
}

async fn print_study(name: StudyName, seeds: u64, effort: Effort) -> Result<()> {
    let Study { figure, marks, arms } = name.study();
    let title = name.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    print(&json!({ "study": title, "figure": figure, "marks": marks, "arms": arms }));
    for arm in arms {
        for seed in 0..seeds {
            for Row { step, figures } in name.run(arm, Seed(seed), effort).await? {
                let mut line = Map::new();
                line.insert("arm".to_owned(), json!(arm));
                line.insert("seed".to_owned(), json!(seed));
                line.insert("step".to_owned(), json!(step));
                line.extend(figures.into_iter().map(|(figure, value)| (figure.to_owned(), json!(value))));
                print(&Value::Object(line));
            }
        }
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the results go to standard output")]
fn print(line: &Value) {
    println!("{line}");
}
