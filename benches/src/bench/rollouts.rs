//! CPU time and memory of an episode of three turns with two tool calls each: real components, a scripted policy, and
//! records on disk.
//!
//! The CPU time is that of all threads. Episodes wait before their first reply until the stated number is in flight.
//! Memory is measured in a separate process (`rollout-memory isolated|shared`), because a process does not return all
//! memory that it once used.

#![allow(clippy::print_stdout, reason = "a figure for the process that asked")]

use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::rollouts::{plan, reply, rollout};
use gymkhana_benches::figures::{load, median, print_in, resident_bytes};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest, ScriptedPolicy,
};
use gymkhana_record::{Ending, EpisodeRecord};
use gymkhana_rollout::{Actor, Rollout};
use gymkhana_sandbox::{Plugin, Sandbox, SandboxConfig};
use gymkhana_store::RunFolder;
use tokio::sync::Semaphore;

/// A reply with two calls, generated in each of three turns.
const REPLY: &str = "<tool_call>\n{\"name\": \"calculate\", \"arguments\": {\"expression\": \"12 * 7\"}}\n</tool_call>\n\
                     <tool_call>\n{\"name\": \"calculate\", \"arguments\": {\"expression\": \"84 + 19\"}}\n</tool_call>";
const TURNS: u32 = 3;
/// Episodes per task, scored together.
const GROUP: u64 = 10;
const MAX_SHARED: u64 = 10_000;
/// Number of concurrent episodes of a smoke run.
const FEW: u64 = 10;
const SHARED_BY: NonZeroU32 = NonZeroU32::new(1000).expect("not zero");
/// Wall-clock time of an episode of verifiers in microseconds, from `measured.md`.
const VERIFIERS: f64 = 19_000.0;

/// Instances of a rollout's plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Sharing {
    /// One instance per episode
    Isolated,
    /// Instances shared by many episodes
    Shared,
}

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    measure(None, effort)
}

/// Prints the memory of one episode in flight, in kilobytes.
pub fn print_memory(sharing: Sharing, effort: Effort) -> Result<()> {
    measure(Some(sharing), effort)
}

fn measure(memory_of: Option<Sharing>, effort: Effort) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let sandbox = Sandbox::new(&SandboxConfig::default())?;
        let [environment, tool, reward] =
            ["word-problems", "calculator", "answer-match"].map(|name| load(&sandbox, name));
        let (environment, tool, reward) = (environment?, tool?, reward?);
        // The limit fits all plugins of an episode: an environment, a tool, and a reward at the end.
        let most = effort.pick(u64::from(sandbox.counters().places) / 3 / GROUP * GROUP, FEW);
        let isolated = Table { sandbox: &sandbox, plugins: [&environment, &tool, &reward] };
        let (shared_environment, shared_tool) =
            (environment.with_shared_instances(SHARED_BY), tool.with_shared_instances(SHARED_BY));
        let shared = Table { sandbox: &sandbox, plugins: [&shared_environment, &shared_tool, &reward] };
        match memory_of {
            None => print_all(&isolated, &shared, most, effort).await,
            Some(Sharing::Isolated) => isolated.print_kilobytes(most).await,
            Some(Sharing::Shared) => shared.print_kilobytes(effort.pick(MAX_SHARED, FEW)).await,
        }
    })
}

async fn print_all(isolated: &Table<'_>, shared: &Table<'_>, most: u64, effort: Effort) -> Result<()> {
    let (episodes, rounds, most_shared) = (effort.pick(2_000, FEW), effort.pick(3, 1), effort.pick(MAX_SHARED, FEW));
    let (few, many) = (isolated.rounds(10, episodes, rounds).await?, isolated.rounds(most, most, rounds).await?);
    let (shared_few, shared_many) =
        (shared.rounds(10, episodes, rounds).await?, shared.rounds(most_shared, most_shared, rounds).await?);
    let (kilobytes, shared_kilobytes) = (kilobytes_of("isolated", effort)?, kilobytes_of("shared", effort)?);
    print_in("µs", "episode-cpu", few.cpu, "an episode of verifiers", VERIFIERS);
    print_in("µs", "episode-cpu-guests", few.guests, "the whole episode", few.cpu);
    print_in("µs", "episode-cpu-store", few.store, "the whole episode", few.cpu);
    print_in("µs", &format!("episode-cpu-{most}-in-flight"), many.cpu, "10 in flight", few.cpu);
    print_in("stores", &format!("live-stores-{most}-in-flight"), many.stores, "episodes", most as f64);
    print_in(
        "KB",
        &format!("kb-{most}-in-flight"),
        kilobytes,
        &format!("{most_shared} in shared instances"),
        shared_kilobytes,
    );
    print_in("µs", &format!("episode-cpu-{most_shared}-in-flight"), shared_many.cpu, "10 in flight", shared_few.cpu);
    print_in(
        "stores",
        &format!("live-stores-{most_shared}-in-flight"),
        shared_many.stores,
        "episodes",
        most_shared as f64,
    );
    Ok(())
}

/// Memory of an episode in flight, measured in a new process.
fn kilobytes_of(table: &str, effort: Effort) -> Result<f64> {
    let smoke: &[&str] = effort.pick(&[], &["--smoke"]);
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(["rollout-memory", table]).args(smoke).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the process that measures the memory of `{table}` failed");
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Plugins of an episode.
struct Table<'a> {
    sandbox: &'a Sandbox,
    plugins: [&'a Plugin; 3],
}

/// Resources of one episode, in microseconds of CPU time.
struct Figures {
    cpu: f64,
    /// Time inside environments and tools; the time of rewards is not recorded.
    guests: f64,
    /// Time of writing records.
    store: f64,
    /// Number of live stores, and resident memory added per episode, when all episodes were in flight.
    stores: f64,
    kilobytes: f64,
}

impl Table<'_> {
    async fn rollout(&self) -> Result<Arc<Rollout>> {
        let [environment, tool, reward] = self.plugins;
        Ok(Arc::new(rollout(environment, &[tool], &[reward], TURNS, "answer-match.correct").await?))
    }

    /// Prints the memory per episode with `in_flight` concurrent episodes.
    async fn print_kilobytes(&self, in_flight: u64) -> Result<()> {
        println!("{}", self.round(&self.rollout().await?, in_flight, in_flight).await?.kilobytes);
        Ok(())
    }

    /// Medians of several rounds, after an unmeasured first one.
    async fn rounds(&self, in_flight: u64, episodes: u64, rounds: usize) -> Result<Figures> {
        let rollout = self.rollout().await?;
        let mut all = Vec::new();
        for round in 0..=rounds {
            let figures = self.round(&rollout, in_flight, episodes).await?;
            if round > 0 {
                all.push(figures);
            }
        }
        let middle = |of: fn(&Figures) -> f64| median(all.iter().map(of).collect());
        Ok(Figures {
            cpu: middle(|round| round.cpu),
            guests: middle(|round| round.guests),
            store: middle(|round| round.store),
            stores: middle(|round| round.stores),
            kilobytes: middle(|round| round.kilobytes),
        })
    }

    /// Plays the episodes with limited concurrency and writes their records.
    async fn round(&self, rollout: &Arc<Rollout>, in_flight: u64, episodes: u64) -> Result<Figures> {
        let folder = tempfile::tempdir()?;
        let run = RunFolder::create(&folder.path().join("run"), "")?;
        let mut store = run.episodes()?;
        let (mut guests, mut writing, mut stores, mut kilobytes) = (0.0, 0.0, 0.0, 0.0);
        let before = processor_seconds()?;
        for wave in 0..episodes / in_flight {
            let resident = resident_bytes()?;
            let held = Arc::new(Held::new(reply(rollout, REPLY)?, in_flight as usize));
            let first = wave * in_flight;
            let groups = (first / GROUP..(first + in_flight) / GROUP).map(|group| {
                let (rollout, held) = (Arc::clone(rollout), Arc::clone(&held));
                tokio::spawn(async move {
                    let plans = (0..GROUP).map(|member| plan(group * GROUP + member, GROUP)).collect();
                    rollout.run_group(plans, Actor::Policy(&*held)).await
                })
            });
            let groups: Vec<_> = groups.collect();
            held.wait_for_all().await?;
            let counters = self.sandbox.counters();
            stores = f64::from(counters.places - counters.free_places);
            kilobytes = (resident_bytes()? - resident) / 1000.0 / in_flight as f64;
            held.let_go();
            for group in groups {
                let records = group.await??;
                let since = processor_seconds_of_thread()?;
                for record in &records {
                    guests += check(record)?;
                    store.append(record)?;
                }
                writing += processor_seconds_of_thread()? - since;
            }
        }
        let since = processor_seconds_of_thread()?;
        store.commit()?;
        writing += processor_seconds_of_thread()? - since;
        let cpu = processor_seconds()? - before;
        let each = |seconds: f64| seconds * 1e6 / episodes as f64;
        Ok(Figures { cpu: each(cpu), guests: guests / episodes as f64, store: each(writing), stores, kilobytes })
    }
}

/// Checks that an episode has the expected shape. Returns the microseconds that its guests ran.
fn check(record: &EpisodeRecord) -> Result<f64> {
    let sound = record.ending == Ending::TurnLimit && record.calls() == 6 && record.failures.is_empty();
    ensure!(sound && record.scores.len() == 1, "episode {}: {:?} {:?}", record.id, record.ending, record.failures);
    Ok(record.costs.iter().map(|call| call.cost.running_us).sum())
}

/// Policy that generates the same reply in every turn, and delays each episode's first reply until all are in flight.
struct Held {
    reply: Vec<u32>,
    awaited: usize,
    arrived: AtomicUsize,
    all_there: Semaphore,
    go: Semaphore,
}

impl Held {
    fn new(reply: Vec<u32>, awaited: usize) -> Self {
        Self { reply, awaited, arrived: AtomicUsize::new(0), all_there: Semaphore::new(0), go: Semaphore::new(0) }
    }

    async fn wait_for_all(&self) -> Result<()> {
        self.all_there.acquire().await.context("it is never closed")?.forget();
        Ok(())
    }

    fn let_go(&self) {
        self.go.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

impl Policy for Held {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        Box::pin(async move {
            if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.awaited {
                self.all_there.add_permits(1);
            }
            drop(self.go.acquire().await);
            ScriptedPolicy::new(usize::MAX, |_| self.reply.clone()).generate(request).await
        })
    }

    fn score(&self, _request: ScoreRequest) -> PolicyFuture<'_, gymkhana_record::Sampled> {
        Box::pin(async { Err(PolicyError::CannotScore) })
    }

    fn can_score(&self) -> bool {
        false
    }

    fn release(&self, _conversation: Conversation) {}

    fn context(&self) -> usize {
        usize::MAX
    }
}

/// CPU time of all threads of this process in seconds, with the resolution of the system's clock ticks.
pub fn processor_seconds() -> Result<f64> {
    processor_seconds_of(std::process::id())
}

/// CPU time of a process in seconds.
pub fn processor_seconds_of(process: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = text.rsplit_once(')').context("the program's name is in parentheses")?;
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    // The system reports hundredths of a second to programs.
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// CPU time of this thread, in seconds.
fn processor_seconds_of_thread() -> Result<f64> {
    let path = Path::new("/proc/thread-self/schedstat");
    let text = std::fs::read_to_string(path)?;
    let nanoseconds: f64 = text.split_whitespace().next().context("nanoseconds come first")?.parse()?;
    Ok(nanoseconds / 1e9)
}
