//! Effect of tool calls that never return on other episodes: one call in a hundred computes forever.
//!
//! Endless calls are drawn from a seed. The same episodes without them run in the same process. A deadline is the
//! wall-clock limit of one call; an endless call usually exhausts its CPU budget earlier.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{call, load, mappings, median, microseconds, print, print_in};
use gymkhana_record::Seed;
use gymkhana_sandbox::{Limits, Plugin, Sandbox, SandboxConfig, ToolSession};

const EPISODES: u64 = 200;
/// Episodes of a smoke run.
const FEW_EPISODES: u64 = 10;
const CALLS: u64 = 20;
/// Sandbox places, more than one per episode.
const PLACES: u32 = 256;
/// Number of calls per endless call.
const ENDLESS: u64 = 100;
const WORKERS: usize = 2;
/// At most a tenth of the run file's default, so that the bench ends soon.
const BUDGET: Duration = Duration::from_millis(50);
const WALL: Duration = Duration::from_millis(1500);

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let episodes = effort.pick(EPISODES, FEW_EPISODES);
    let limits = Limits { budget: BUDGET, wall: WALL, ..Limits::default() };
    let sandbox = Sandbox::new(&SandboxConfig { limits, max_instances: Some(PLACES), ..SandboxConfig::default() })?;
    let plugin = load(&sandbox, "guest-hostile-tool")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_time().build()?;
    // A place keeps its mappings after its first use, so each is used once; a first round allocates the rest.
    runtime.block_on(take_all(&plugin))?;
    runtime.block_on(play(&plugin, episodes, true))?;
    let before = Held::now(&sandbox)?;
    let clean = runtime.block_on(play(&plugin, episodes, false))?;
    let hung = runtime.block_on(play(&plugin, episodes, true))?;
    let leaked = Held::now(&sandbox)?.beyond(&before);
    let longest = (0..episodes).map(|episode| (0..CALLS).filter(|&call| is_endless(episode, call)).count()).max();
    let longest = longest.context("there are episodes")? as f64;
    let deadlines = (hung.seconds - clean.seconds) / WALL.as_secs_f64();
    print_in("deadlines", "extra-deadlines", deadlines, "endless calls on the longest chain", longest);
    print_in("threads, stores, mappings and file handles", "leaked", leaked as f64, "before", before.all() as f64);
    print("hung-latency", median(hung.latencies), "the same calls without endless ones", median(clean.latencies));
    Ok(())
}

/// Whether this call of this episode is endless; the same in every round.
fn is_endless(episode: u64, call: u64) -> bool {
    Seed(0).child(episode).child(call).stream().below(ENDLESS) == 0
}

/// Uses every place of the sandbox once.
async fn take_all(plugin: &Plugin) -> Result<()> {
    let mut sessions = Vec::new();
    for seed in 0..u64::from(PLACES) {
        sessions.push(ToolSession::open(plugin, None, &[], Seed(seed)).await?);
    }
    Ok(())
}

/// Times of one round.
struct Round {
    seconds: f64,
    /// Latencies of the calls that return, in microseconds.
    latencies: Vec<f64>,
}

/// Plays all episodes concurrently, with or without the endless calls.
async fn play(plugin: &Plugin, episodes: u64, hangs: bool) -> Result<Round> {
    let started = Instant::now();
    let episodes: Vec<_> =
        (0..episodes).map(|episode| tokio::spawn(play_one(plugin.clone(), episode, hangs))).collect();
    let mut latencies = Vec::new();
    for episode in episodes {
        latencies.extend(episode.await??);
    }
    Ok(Round { seconds: started.elapsed().as_secs_f64(), latencies })
}

/// One episode. A failed tool restarts, as in a run.
async fn play_one(plugin: Plugin, episode: u64, hangs: bool) -> Result<Vec<f64>> {
    let open = || ToolSession::open(&plugin, None, &[], Seed(episode));
    let mut session = open().await?;
    let mut latencies = Vec::new();
    for number in 0..CALLS {
        if hangs && is_endless(episode, number) {
            ensure!(session.call(&call("loop")).await.is_err(), "an endless call is ended");
            session = open().await?;
            continue;
        }
        let since = Instant::now();
        session.call(&call("state")).await?;
        latencies.push(microseconds(since));
        // A policy would generate here.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(latencies)
}

/// Resources that this process holds.
struct Held {
    threads: usize,
    stores: usize,
    mappings: usize,
    handles: usize,
}

impl Held {
    fn now(sandbox: &Sandbox) -> Result<Self> {
        let entries = |folder| -> Result<usize> { Ok(std::fs::read_dir(folder)?.count()) };
        let counters = sandbox.counters();
        Ok(Self {
            threads: entries("/proc/self/task")?,
            stores: (counters.places - counters.free_places) as usize,
            mappings: mappings()?,
            handles: entries("/proc/self/fd")?,
        })
    }

    fn all(&self) -> usize {
        self.threads + self.stores + self.mappings + self.handles
    }

    /// Increase over other counts, per kind; a decrease of one kind does not offset an increase of another.
    fn beyond(&self, before: &Self) -> usize {
        let more = |of: fn(&Self) -> usize| of(self).saturating_sub(of(before));
        more(|held| held.threads) + more(|held| held.stores) + more(|held| held.mappings) + more(|held| held.handles)
    }
}
