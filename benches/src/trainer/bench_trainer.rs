//! Trains on the baselines' toy: `bench_trainer every|packed|frugal STEPS` prints the CPU seconds of a step as JSON, with
//! every position of every episode computed, with common beginnings computed once, and moreover without episodes that
//! teach nothing; `bench_trainer curve STEPS SEED [SETTINGS]` prints the mean reward of each step, with the settings of
//! training that a TOML file has. A last word `bfloat16` lets passes compute in that, over weights in float32.

use gymkhana_record::Seed;
use super::toy;
use gymkhana_trainer::{Precision, RlSettings};

/// CPU seconds of this process.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let own: f64 = stat.split(' ').next().unwrap_or_default().parse()?;
    let mut sum = own;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        if task.file_name() != std::process::id().to_string().as_str() {
            let stat = std::fs::read_to_string(task.path().join("schedstat"))?;
            sum += stat.split(' ').next().unwrap_or_default().parse::<f64>()?;
        }
    }
    Ok(sum / 1e9)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn print(line: &serde_json::Value) {
    #[allow(clippy::print_stdout, reason = "results go to standard output")]
    {
        println!("{line}");
    }
}

/// What the baselines do, with or without what saves work.
fn settings(share_beginnings: bool, skip_idle: bool) -> RlSettings {
    RlSettings { share_beginnings, skip_idle, ..toy::settings() }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let precision = match words.pop_if(|last| *last == "bfloat16") {
        Some(_) => Precision::Bfloat16,
        None => Precision::Float32,
    };
    let (settings, steps, seed) = match words[..] {
        ["every", steps] => (settings(false, false), steps.parse()?, 0),
        ["packed", steps] => (settings(true, false), steps.parse()?, 0),
        ["frugal", steps] => (settings(true, true), steps.parse()?, 0),
        ["curve", steps, seed] => (settings(true, true), steps.parse()?, seed.parse()?),
        ["curve", steps, seed, file] => {
            (toml::from_str(&std::fs::read_to_string(file)?)?, steps.parse()?, seed.parse()?)
        }
        _ => {
            return Err(
                "usage: bench_trainer (every|packed|frugal STEPS | curve STEPS SEED [SETTINGS]) [bfloat16]".into()
            );
        }
    };
    let (trainer, seed) = (toy::trainer(Seed(seed), precision)?, Seed(seed));
    let (mut played, mut learnt, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..steps {
        let start = cpu_seconds()?;
        let (groups, reward) = toy::play(&trainer, step, seed).await?;
        let between = cpu_seconds()?;
        let metrics = trainer.rl_step(&groups, &settings).await?;
        played.push(between - start);
        learnt.push(cpu_seconds()? - between);
        let computed = metrics.iter().find(|(name, _)| name == "positions").map_or(0.0, |(_, computed)| *computed);
        positions.push(computed);
        if words[0] == "curve" {
            let entropy = metrics.iter().find(|(name, _)| name == "entropy").map(|(_, entropy)| *entropy);
            print(&serde_json::json!({ "step": step, "reward": reward, "entropy": entropy }));
        }
    }
    // The first step warms up.
    let whole = played.iter().zip(&learnt).skip(1).map(|(played, learnt)| played + learnt).collect();
    print(&serde_json::json!({
        "peer": "gymkhana", "mode": words[0], "steps": steps, "cpu_s_per_step": median(whole),
        "cpu_s_play": median(played), "cpu_s_learn": median(learnt), "positions": median(positions),
    }));
    Ok(())
}
