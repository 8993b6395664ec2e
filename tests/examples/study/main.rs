//! Mechanism checks: `study NAME SEEDS` trains a tiny model once for each arm and seed, and prints what was seen, one JSON
//! line a step. The first line says which figure is to be plotted; `docs/studies.md` says what each study is about.

mod anchors;
mod branching;
mod entropy_band;
mod few_calls;
#[path = "../figures/mod.rs"]
mod figures;
mod frozen_lake;
mod gating;
mod kuhn;
mod over_long;
mod recall;
mod stale;
mod table;
mod toy;
mod void_turns;

use anyhow::{Result, bail};
use gymkhana_record::Seed;
use serde_json::{Map, Value, json};

/// The figures of one training step, by name.
struct Row {
    step: u64,
    figures: Vec<(&'static str, f64)>,
}

/// What is compared, and by which figure.
struct Study {
    /// The figure that is plotted.
    figure: &'static str,
    /// Heights at which the plot has a line: what the claim speaks of.
    marks: &'static [f64],
    /// What is compared; the last is the control.
    arms: &'static [&'static str],
}

fn study(name: &str) -> Result<Study> {
    Ok(match name {
        "void-turns" => void_turns::STUDY,
        "entropy-band" => entropy_band::STUDY,
        "stale" => stale::STUDY,
        "over-long" => over_long::STUDY,
        "anchors" => anchors::STUDY,
        "frozen-lake" => frozen_lake::STUDY,
        "branching" => branching::STUDY,
        "kuhn" => kuhn::STUDY,
        "gating" => gating::STUDY,
        "few-calls" => few_calls::STUDY,
        "recall" => recall::STUDY,
        "toy" => toy::STUDY,
        other => bail!("there is no study `{other}`"),
    })
}

async fn run(name: &str, arm: &str, seed: Seed) -> Result<Vec<Row>> {
    match name {
        "void-turns" => void_turns::run(arm, seed).await,
        "entropy-band" => entropy_band::run(arm, seed).await,
        "stale" => stale::run(arm, seed).await,
        "over-long" => over_long::run(arm, seed).await,
        "anchors" => anchors::run(arm, seed).await,
        "frozen-lake" => frozen_lake::run(arm, seed).await,
        "branching" => branching::run(arm, seed).await,
        "kuhn" => kuhn::run(arm, seed).await,
        "gating" => gating::run(arm, seed).await,
        "few-calls" => few_calls::run(arm, seed).await,
        "recall" => recall::run(arm, seed).await,
        "toy" => toy::run(arm, seed).await,
        other => bail!("there is no study `{other}`"),
    }
}

#[allow(clippy::print_stdout, reason = "the figures are this program's result")]
fn print(line: &Value) {
    println!("{line}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, seeds] = &arguments[..] else { bail!("usage: study NAME SEEDS") };
    let (chosen, seeds) = (study(name)?, seeds.parse::<u64>()?);
    print(&json!({ "study": name, "figure": chosen.figure, "marks": chosen.marks, "arms": chosen.arms }));
    for arm in chosen.arms {
        for seed in 0..seeds {
            for Row { step, figures } in run(name, arm, Seed(seed)).await? {
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
