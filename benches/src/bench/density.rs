//! Memory of a live episode, in its own store and in a shared instance, and the error for one episode too many.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{load, mappings, print_in, resident_bytes, text, train};
use gymkhana_record::{FailureKind, Seed};
use gymkhana_sandbox::{Action, EnvironmentEpisode, Plugin, Sandbox, SandboxConfig};

const ISOLATED: u32 = 10_000;
const SHARED: u32 = 100_000;
/// Episodes per instance; the run file's default.
const SHARED_BY: NonZeroU32 = NonZeroU32::new(1000).expect("not zero");
/// Time that the episode without a place waits.
const WAIT: Duration = Duration::from_millis(200);

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (isolated_count, shared_count) = (effort.pick(ISOLATED, 20), effort.pick(SHARED, 200));
    runtime.block_on(async {
        let config = SandboxConfig { wait: WAIT, max_instances: Some(isolated_count), ..SandboxConfig::default() };
        let sandbox = Sandbox::new(&config)?;
        // A separate sandbox that stays alive, because memory that it returned would distort the second measurement.
        let small = Sandbox::new(&SandboxConfig { max_instances: Some(shared_count / SHARED_BY.get() + 1), ..config })?;
        let shared = fill(&load(&small, "guest-echo")?.with_shared_instances(SHARED_BY), shared_count).await?;
        let plugin = load(&sandbox, "guest-echo")?;
        let isolated = fill(&plugin, isolated_count).await?;
        let before = Instant::now();
        one_too_many(&sandbox, &plugin).await?;
        let waited = before.elapsed().as_secs_f64();
        print_in("KB", "isolated-kb", isolated.kilobytes, "a shared one", shared.kilobytes);
        print_in("KB", "shared-kb", shared.kilobytes, "an isolated one", isolated.kilobytes);
        print_in("mappings", "isolated-mappings", isolated.mappings, "a shared one", shared.mappings);
        ensure!(
            isolated.episodes.len() + shared.episodes.len() == (isolated_count + shared_count) as usize,
            "all of them live"
        );
        print_in("s", "one-too-many", waited, "its wait limit", WAIT.as_secs_f64());
        Ok(())
    })
}

/// Live episodes and the memory of each.
struct Filled {
    episodes: Vec<EnvironmentEpisode>,
    kilobytes: f64,
    mappings: f64,
}

/// Starts `count` episodes, takes a step in each, and keeps them alive.
async fn fill(plugin: &Plugin, count: u32) -> Result<Filled> {
    // The query is cached by the sandbox and does not belong to an episode.
    plugin.environment_info().await?;
    let (memory, mapped) = (resident_bytes()?, mappings()?);
    let message = text(&"a".repeat(100));
    let mut episodes = Vec::with_capacity(count as usize);
    for seed in 0..u64::from(count) {
        let (mut episode, _) = EnvironmentEpisode::start(plugin, &train(), &[], Seed(seed)).await?;
        episode.step(0, Action::Message(&message)).await?;
        episodes.push(episode);
    }
    let each = |bytes: f64| bytes / f64::from(count);
    let kilobytes = each(resident_bytes()? - memory) / 1000.0;
    Ok(Filled { episodes, kilobytes, mappings: each((mappings()? - mapped) as f64) })
}

/// Starts one more episode while all places are taken: it waits and fails with the limit's error.
async fn one_too_many(sandbox: &Sandbox, plugin: &Plugin) -> Result<()> {
    ensure!(sandbox.counters().free_places == 0, "every place is taken");
    let waits = sandbox.counters().waits;
    let error = EnvironmentEpisode::start(plugin, &train(), &[], Seed(0)).await.err();
    ensure!(error.as_ref().is_some_and(|error| error.kind == FailureKind::Capacity), "it hits the limit: {error:?}");
    ensure!(sandbox.counters().waits == waits + 1, "the wait is counted");
    Ok(())
}
