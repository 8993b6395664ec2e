//! Latency of single plugin calls, each compared with a measurement in the same run.
//!
//! Rounds of both sides alternate, so that a busy machine slows both. They are shorter than a scheduler's time slice,
//! so that most are not interrupted. A figure is the median of its rounds.

use std::time::Instant;

use anyhow::Result;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::native;
use gymkhana_benches::figures::{load, median, microseconds, print, text, train};
use gymkhana_record::{Ending, NamedValue, Part, Seed, Turn, Value};
use gymkhana_sandbox::{Action, EnvironmentEpisode, Sandbox, SandboxConfig, Scorer, Trajectory, score};

const ROUNDS: usize = 301;

/// Latency of an environment step.
pub fn step(effort: Effort) -> Result<()> {
    measure(async |sandbox| measure_step(sandbox, effort.pick(ROUNDS, 1)).await)
}

/// Latency of instantiating a plugin.
pub fn instantiate(effort: Effort) -> Result<()> {
    measure(async |sandbox| measure_instantiate(sandbox, effort.pick(ROUNDS, 1)).await)
}

/// Latency of scoring a trajectory.
pub fn reward(effort: Effort) -> Result<()> {
    measure(async |sandbox| measure_reward(sandbox, effort.pick(ROUNDS, 1)).await)
}

fn measure(bench: impl AsyncFnOnce(&Sandbox) -> Result<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(64), ..SandboxConfig::default() })?;
    runtime.block_on(bench(&sandbox))
}

/// A step of the echo environment with a message of 100 bytes, compared with the same work in a native trait object.
async fn measure_step(sandbox: &Sandbox, rounds: usize) -> Result<()> {
    const STEPS: u32 = 500;
    let plugin = load(sandbox, "guest-echo")?;
    let task = train();
    let (mut episode, _) = EnvironmentEpisode::start(&plugin, &task, &[], Seed(1)).await?;
    let mut native = native::echo()?;
    let message = text(&"a".repeat(100));
    let (mut sandboxed, mut natively) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        for _ in 0..STEPS {
            std::hint::black_box(episode.step(0, Action::Message(&message)).await?);
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

/// Instantiating and dropping a plugin, compared with a whole episode of one step.
async fn measure_instantiate(sandbox: &Sandbox, rounds: usize) -> Result<()> {
    const TIMES: u32 = 25;
    let reward = load(sandbox, "answer-match")?;
    let echo = load(sandbox, "guest-echo")?;
    let task = train();
    let message = text(&"a".repeat(100));
    let (mut bare, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        for _ in 0..TIMES {
            drop(Scorer::open(&reward, Seed(1)).await?);
        }
        bare.push(microseconds(started) / f64::from(TIMES));
        let started = Instant::now();
        for _ in 0..TIMES {
            let (mut episode, _) = EnvironmentEpisode::start(&echo, &task, &[], Seed(1)).await?;
            episode.step(0, Action::Message(&message)).await?;
        }
        whole.push(microseconds(started) / f64::from(TIMES));
    }
    print("instantiate", median(bare), "instantiate, start, one step, drop", median(whole));
    Ok(())
}

/// Scoring one trajectory of ten turns of a kilobyte each: in a warm store, and in the fresh store of every scoring.
async fn measure_reward(sandbox: &Sandbox, rounds: usize) -> Result<()> {
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
    for _ in 0..rounds {
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
