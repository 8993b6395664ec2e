//! Cost of a step, a snapshot, a fork and a short episode, each with a comparison measured in the same run.
//!
//! All production limits are on. Rounds of both sides alternate, so that a busy machine slows both, and are shorter
//! than a time slice of the scheduler. A result is the median of its rounds.

use std::time::Instant;

use anyhow::Result;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{load, load_wrapped, median, microseconds, native, print, text, train};
use gymkhana_record::{NamedValue, Seed, Value};
use gymkhana_sandbox::{Action, EnvironmentEpisode, Plugin, Sandbox, SandboxConfig};

const ROUNDS: usize = 301;
const FORK_AT: usize = 10;

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(64), ..SandboxConfig::default() })?;
    let rounds = effort.pick(ROUNDS, 1);
    runtime.block_on(async {
        let echo = load(&sandbox, "guest-echo")?;
        let (sandboxed, natively) = step(&echo, 100, 500, rounds).await?;
        print("step-100b", sandboxed, "native trait call", natively);
        let (sandboxed, natively) = step(&echo, 10_000, 50, rounds).await?;
        print("step-10kb-extra", sandboxed - natively, "native trait call", natively);
        wrapped_step(&echo, &load_wrapped(&sandbox, "turn-cost", &echo)?, rounds).await?;
        snapshot(&echo, rounds).await?;
        fork(&load(&sandbox, "frozen-lake")?, rounds).await?;
        fresh_episode(&echo, rounds).await
    })
}

/// A step of the echo environment with a message of `size` bytes, and the same work in a native trait object.
async fn step(plugin: &Plugin, size: usize, steps: u32, rounds: usize) -> Result<(f64, f64)> {
    let (mut episode, _) = EnvironmentEpisode::start(plugin, &train(), &[], Seed(1)).await?;
    let mut native = native::echo()?;
    let message = text(&"a".repeat(size));
    let (mut sandboxed, mut natively) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        for _ in 0..steps {
            std::hint::black_box(episode.step(0, Action::Message(&message)).await?);
        }
        sandboxed.push(microseconds(started) / f64::from(steps));
        let started = Instant::now();
        for _ in 0..steps {
            std::hint::black_box(native.step(0, std::hint::black_box(&message))?);
        }
        natively.push(microseconds(started) / f64::from(steps));
    }
    Ok((median(sandboxed), median(natively)))
}

/// What a wrapper adds to a step of 100 bytes, compared with that step.
async fn wrapped_step(plugin: &Plugin, wrapped: &Plugin, rounds: usize) -> Result<()> {
    const TIMES: u32 = 500;
    let shown = [NamedValue { name: "shown".to_owned(), value: Value::Flag(false) }];
    let (mut bare, _) = EnvironmentEpisode::start(plugin, &train(), &[], Seed(1)).await?;
    let (mut around, _) = EnvironmentEpisode::start(wrapped, &train(), &shown, Seed(1)).await?;
    let message = text(&"a".repeat(100));
    let (mut plain, mut both) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (episode, times) in [(&mut bare, &mut plain), (&mut around, &mut both)] {
            let started = Instant::now();
            for _ in 0..TIMES {
                std::hint::black_box(episode.step(0, Action::Message(&message)).await?);
            }
            times.push(microseconds(started) / f64::from(TIMES));
        }
    }
    let step = median(plain);
    print("wrapped-step", median(both) - step, "a step of 100 bytes", step);
    Ok(())
}

/// Saving a small environment and restoring it in the same store.
async fn snapshot(plugin: &Plugin, rounds: usize) -> Result<()> {
    const TIMES: u32 = 500;
    let (mut episode, _) = EnvironmentEpisode::start(plugin, &train(), &[], Seed(1)).await?;
    let message = text(&"a".repeat(100));
    episode.step(0, Action::Message(&message)).await?;
    let saved = episode.snapshot().await?;
    let (mut saves, mut returns, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        for _ in 0..TIMES {
            std::hint::black_box(episode.snapshot().await?);
        }
        saves.push(microseconds(started) / f64::from(TIMES));
        let started = Instant::now();
        for _ in 0..TIMES {
            episode.rewind(&saved).await?;
        }
        returns.push(microseconds(started) / f64::from(TIMES));
        let started = Instant::now();
        for _ in 0..TIMES {
            std::hint::black_box(episode.step(0, Action::Message(&message)).await?);
        }
        steps.push(microseconds(started) / f64::from(TIMES));
    }
    let step = median(steps);
    print("snapshot", median(saves), "a step of 100 bytes", step);
    print("restore", median(returns), "a step of 100 bytes", step);
    Ok(())
}

/// Forking FrozenLake at its tenth turn by snapshot, including a new store, compared with replaying it to that turn.
async fn fork(plugin: &Plugin, rounds: usize) -> Result<()> {
    const TIMES: u32 = 25;
    let map = [NamedValue { name: "map".to_owned(), value: Value::Text("4x4".to_owned()) }];
    // The start has a wall on its left, so the step does not move.
    let step = text("left");
    let play = async || -> Result<EnvironmentEpisode> {
        let (mut episode, _) = EnvironmentEpisode::start(plugin, &train(), &map, Seed(1)).await?;
        for _ in 0..FORK_AT {
            episode.step(0, Action::Message(&step)).await?;
        }
        Ok(episode)
    };
    let mut trunk = play().await?;
    let (mut forks, mut replays) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        for _ in 0..TIMES {
            let saved = trunk.snapshot().await?;
            drop(EnvironmentEpisode::restore(plugin, &saved, Seed(1)).await?);
        }
        forks.push(microseconds(started) / f64::from(TIMES));
        let started = Instant::now();
        for _ in 0..TIMES {
            drop(play().await?);
        }
        replays.push(microseconds(started) / f64::from(TIMES));
    }
    print("fork-frozen-lake", median(forks), "started and stepped ten times", median(replays));
    Ok(())
}

/// A short episode in a new store (instantiate, start, one step, drop), compared with a step in an existing store.
async fn fresh_episode(plugin: &Plugin, rounds: usize) -> Result<()> {
    const TIMES: u32 = 25;
    let message = text(&"a".repeat(100));
    let (mut standing, _) = EnvironmentEpisode::start(plugin, &train(), &[], Seed(1)).await?;
    let (mut lives, mut steps) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        for _ in 0..TIMES {
            let (mut episode, _) = EnvironmentEpisode::start(plugin, &train(), &[], Seed(1)).await?;
            episode.step(0, Action::Message(&message)).await?;
        }
        lives.push(microseconds(started) / f64::from(TIMES));
        let started = Instant::now();
        for _ in 0..TIMES {
            standing.step(0, Action::Message(&message)).await?;
        }
        steps.push(microseconds(started) / f64::from(TIMES));
    }
    print("fresh-episode", median(lives), "a step in a store that is there", median(steps));
    Ok(())
}
