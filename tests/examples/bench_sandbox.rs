//! What a plugin costs: one JSON line a figure, each with a comparison measured in the same run.
//!
//! `bench_sandbox [step|instantiate|reward]…` measures all of them if none is named. Rounds of both sides take turns,
//! so that a busy machine slows both, and are shorter than a scheduler's slice, so that most are not interrupted; a
//! figure is the median of its rounds.

#![allow(clippy::print_stdout, reason = "the figures are this program's result")]

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use guest_echo::Echo;
use gymkhana_episode::{Ending, NamedValue, Part, Seed, TaskRef, Turn, Value, text_of};
use gymkhana_sandbox::{
    Deed, EnvironmentEpisode, Grants, Plugin, Sandbox, SandboxConfig, Scorer, Stepped, Trajectory, score,
};
use gymkhana_sdk::environment::{self, Episode};

const ROUNDS: usize = 301;
const BENCHES: [&str; 3] = ["step", "instantiate", "reward"];

fn main() -> Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = names.iter().find(|name| !BENCHES.contains(&name.as_str())) {
        bail!("there is no bench `{unknown}`; there are {}", BENCHES.join(", "));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(64), ..SandboxConfig::default() })?;
    runtime.block_on(async {
        if wanted("step") {
            step(&sandbox).await?;
        }
        if wanted("instantiate") {
            instantiate(&sandbox).await?;
        }
        if wanted("reward") {
            reward(&sandbox).await?;
        }
        Ok(())
    })
}

/// A step of the echo environment with a message of 100 bytes against the same work by a native trait object.
async fn step(sandbox: &Sandbox) -> Result<()> {
    const STEPS: u32 = 500;
    let plugin = load(sandbox, "guest-echo")?;
    let task = train();
    let (mut episode, _) = EnvironmentEpisode::start(&plugin, &task, &[], Seed(1)).await?;
    let (native, _) = Episode::<Echo>::start(&native_train(), Vec::new(), 1).map_err(|error| anyhow!("{error}"))?;
    let mut native: Box<dyn NativeEnvironment> = std::hint::black_box(Box::new(native));
    let message = vec![Part::Text("a".repeat(100))];
    let (mut sandboxed, mut natively) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..STEPS {
            std::hint::black_box(episode.step(0, Deed::Message(&message)).await?);
        }
        sandboxed.push(microseconds(started) / f64::from(STEPS));
        let started = Instant::now();
        for _ in 0..STEPS {
            std::hint::black_box(native.step(0, std::hint::black_box(&message))?);
        }
        natively.push(microseconds(started) / f64::from(STEPS));
    }
    print("step", median(sandboxed), "native trait call", median(natively));
    Ok(())
}

/// To instantiate and drop a plugin, against an episode's whole life of one step.
async fn instantiate(sandbox: &Sandbox) -> Result<()> {
    const TIMES: u32 = 25;
    let reward = load(sandbox, "answer-match")?;
    let echo = load(sandbox, "guest-echo")?;
    let task = train();
    let message = vec![Part::Text("a".repeat(100))];
    let (mut bare, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..TIMES {
            drop(Scorer::open(&reward, Seed(1)).await?);
        }
        bare.push(microseconds(started) / f64::from(TIMES));
        let started = Instant::now();
        for _ in 0..TIMES {
            let (mut episode, _) = EnvironmentEpisode::start(&echo, &task, &[], Seed(1)).await?;
            episode.step(0, Deed::Message(&message)).await?;
        }
        whole.push(microseconds(started) / f64::from(TIMES));
    }
    print("instantiate", median(bare), "instantiate, start, one step, drop", median(whole));
    Ok(())
}

/// A score of one trajectory of ten turns of a kilobyte: warm, and in the fresh store that every scoring gets.
async fn reward(sandbox: &Sandbox) -> Result<()> {
    const TIMES: u32 = 25;
    let plugin = load(sandbox, "answer-match")?;
    let task = train();
    let turns = kilobyte_turns();
    let privileged = [NamedValue { name: "answer".to_owned(), value: Value::Text("42".to_owned()) }];
    let trajectory = Trajectory {
        task: &task,
        turns: &turns,
        ending: Ending::Terminated,
        environment_rewards: &[],
        extras: &[],
        privileged: &privileged,
        views: &[],
    };
    let mut scorer = Scorer::open(&plugin, Seed(1)).await?;
    let (mut fresh, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..TIMES {
            std::hint::black_box(score(&plugin, &[trajectory], &[], 0, Seed(1)).await?);
        }
        fresh.push(microseconds(started) / f64::from(TIMES));
        let started = Instant::now();
        for _ in 0..TIMES {
            std::hint::black_box(scorer.score(&[trajectory], &[], 0).await?);
        }
        warm.push(microseconds(started) / f64::from(TIMES));
    }
    print("reward", median(fresh), "the same in a warm store", median(warm));
    Ok(())
}

fn kilobyte_turns() -> Vec<Turn> {
    let filler = "The answer is not known yet. ".repeat(35);
    let message = |words: String| Turn::Message { seat: 0, content: vec![Part::Text(words)] };
    let observation = |words: String| Turn::Observation { seat: 0, content: vec![Part::Text(words)] };
    let mut turns: Vec<Turn> =
        (0..9).map(|turn| if turn % 2 == 0 { observation(filler.clone()) } else { message(filler.clone()) }).collect();
    turns.push(message(format!("{filler} Answer: 42")));
    turns
}

/// The echo guest's own code, called without a border in between.
trait NativeEnvironment {
    fn step(&mut self, seat: u32, message: &[Part]) -> Result<Stepped>;
}

impl NativeEnvironment for Episode<Echo> {
    fn step(&mut self, seat: u32, message: &[Part]) -> Result<Stepped> {
        let deed = environment::Deed::Message(gymkhana_sdk::text(text_of(message)));
        let stepped = Episode::step(self, environment::Action { seat, deed }).map_err(|error| anyhow!("{error}"))?;
        let content = |content: gymkhana_sdk::Content| vec![Part::Text(gymkhana_sdk::text_of(&content))];
        Ok(Stepped {
            observations: stepped.observations.into_iter().map(|seen| (seen.seat, content(seen.content))).collect(),
            rewards: stepped.rewards.into_iter().map(|earned| (earned.seat, earned.reward)).collect(),
            terminated: stepped.terminated,
            truncated: stepped.truncated,
            extras: Vec::new(),
            seat: stepped.seat,
        })
    }
}

fn native_train() -> gymkhana_sdk::Task {
    gymkhana_sdk::Task { split: "train".to_owned(), index: 0 }
}

fn train() -> TaskRef {
    TaskRef { split: "train".to_owned(), index: 0 }
}

fn load(sandbox: &Sandbox, name: &str) -> Result<Plugin> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|folder| folder.join("wit").exists());
    let target = root.context("the repository's root")?.join("target");
    let built = target.join(format!("wasm32-wasip2/release/{}.wasm", name.replace('-', "_")));
    let path = Some(target.join(format!("plugins/{name}.wasm"))).filter(|path| path.exists()).unwrap_or(built);
    Plugin::load(sandbox, &path, &Grants::default()).with_context(|| format!("run `cargo xtask plugins` for `{name}`"))
}

fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn print(bench: &str, value: f64, versus: &str, versus_value: f64) {
    let line = serde_json::json!({
        "bench": bench,
        "value": value,
        "unit": "µs",
        "versus": versus,
        "versus_value": versus_value,
        "ratio": value / versus_value,
    });
    println!("{line}");
}
