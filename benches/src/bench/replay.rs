//! Replay of ten thousand recorded episodes of all first-party environments: the number of episodes that differ.
//!
//! Oracles play half of the episodes; a policy of random replies plays the other half, with valid and invalid calls.
//! Records are written to disk and read back before the replay.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::rollouts::{plan, reply, rollout};
use gymkhana_benches::figures::{load, load_granted, print_in};
use gymkhana_egress::{CompletionSource, Egress};
use gymkhana_policy::{GenerateRequest, ScriptedPolicy};
use gymkhana_record::{EpisodeRecord, Seed};
use gymkhana_rollout::{Actor, ReplayDifference, Rollout};
use gymkhana_sandbox::{Quota, Sandbox, SandboxConfig};
use gymkhana_store::{RunFolder, RunReader};

const ENVIRONMENTS: [&str; 6] = ["word-problems", "frozen-lake", "tic-tac-toe", "kuhn-poker", "negotiation", "booking"];
const EPISODES: u64 = 10_000;
/// Number of episodes of a smoke run: one group per environment.
const FEW_EPISODES: u64 = GROUP * ENVIRONMENTS.len() as u64;
/// Episodes per task, scored together.
const GROUP: u64 = 8;
/// Number of groups that are played concurrently.
const SIDE_BY_SIDE: u64 = 25;

/// Replies of the random policy.
const WORDS: [&str; 14] = [
    "up",
    "right",
    "down",
    "5",
    "1",
    "bet",
    "check",
    "fold",
    "call",
    "I want 1 book, 1 hat and 0 balls.",
    "The answer is 42.",
    "<tool_call>\n{\"name\": \"calculate\", \"arguments\": {\"expression\": \"2^64 / 3\"}}\n</tool_call>",
    "<tool_call>\n{\"name\": \"accept\", \"arguments\": {}}\n</tool_call>",
    "<tool_call>\n{\"name\": \"calculate\", \"arguments\": 7}\n</tool_call> <|im_end|> {",
];

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let total = effort.pick(EPISODES, FEW_EPISODES);
    runtime.block_on(async {
        let sandbox = Sandbox::new(&SandboxConfig::default())?;
        let (mut different, mut equal, mut played, mut replayed) = (0_u64, 0_u64, 0.0, 0.0);
        for (place, name) in (0..).zip(ENVIRONMENTS) {
            // All groups, distributed over the environments as evenly as possible.
            let episodes = (total / GROUP + place) / ENVIRONMENTS.len() as u64 * GROUP;
            let rollout = Arc::new(table(&sandbox, name).await?);
            let folder = tempfile::tempdir()?;
            let path = folder.path().join("run");
            let since = Instant::now();
            record(&rollout, &path, episodes).await?;
            played += since.elapsed().as_secs_f64();
            let since = Instant::now();
            for (recorded, again) in again(&rollout, &path).await? {
                match ReplayDifference::between(&recorded, &again) {
                    None => equal += 1,
                    Some(_) => different += 1,
                }
            }
            replayed += since.elapsed().as_secs_f64();
        }
        ensure!(equal + different == total, "{equal} and {different} are not all of them");
        print_in("episodes of which a byte differs", "different", different as f64, "replayed", total as f64);
        print_in("s", "replay", replayed, "playing and writing them", played);
        Ok(())
    })
}

/// An environment with its tools and rewards, all first-party.
async fn table(sandbox: &Sandbox, name: &str) -> Result<Rollout> {
    let (mut environment, calculator, answer) =
        (load_granted(sandbox, name)?, load(sandbox, "calculator")?, load(sandbox, "answer-match")?);
    if name == "booking" {
        environment = environment.with_granted_outbound(Arc::new(guest()));
    }
    let rewards = if name == "word-problems" { vec![&answer] } else { vec![] };
    rollout(&environment, &[&calculator], &rewards, 12, "environment.success").await
}

/// Scripted model of a booking's guest; a replay does not call it.
fn guest() -> Egress {
    let says = ["On monday.", "I beg your pardon?", "For 4, in the garden."].map(str::to_owned);
    let quota = Quota { model_calls: 64, model_tokens: 100_000, http_requests: 0, tool_calls: 0 };
    Egress { model: Some(CompletionSource::Script(says.into()).into()), http: None, quota }
}

/// Plays the episodes and writes their records.
async fn record(rollout: &Arc<Rollout>, path: &std::path::Path, episodes: u64) -> Result<()> {
    let run = RunFolder::create(path, "")?;
    let mut store = run.episodes()?;
    let words = WORDS.iter().map(|words| reply(rollout, words)).collect::<Result<Vec<_>>>()?;
    let words = Arc::new(words);
    let groups = episodes / GROUP;
    for first in (0..groups).step_by(SIDE_BY_SIDE as usize) {
        let playing = (first..(first + SIDE_BY_SIDE).min(groups)).map(|group| {
            let (rollout, words) = (Arc::clone(rollout), Arc::clone(&words));
            tokio::spawn(async move {
                let plans = (0..GROUP).map(|member| plan(group * GROUP + member, GROUP)).collect();
                let says = |request: &GenerateRequest| anything(&words, request.seed);
                let anybody = ScriptedPolicy::new(usize::MAX, says);
                let speaker = if group % 2 == 0 { Actor::Oracle } else { Actor::Policy(&anybody) };
                rollout.run_group(plans, speaker).await
            })
        });
        for group in playing.collect::<Vec<_>>() {
            for episode in group.await?? {
                store.append(&episode)?;
            }
        }
    }
    store.commit()?;
    Ok(())
}

fn anything(words: &[Vec<u32>], seed: Seed) -> Vec<u32> {
    let choice = seed.stream().below(words.len() as u64);
    words[choice as usize].clone()
}

/// Compares every recorded episode with its replay.
async fn again(rollout: &Arc<Rollout>, path: &std::path::Path) -> Result<Vec<(EpisodeRecord, EpisodeRecord)>> {
    let reader = RunReader::open(path)?.episodes()?;
    let mut records = reader.read_all().collect::<Result<Vec<_>, _>>()?;
    records.sort_by_key(|record| record.id);
    let mut pairs = Vec::with_capacity(records.len());
    for group in records.chunks(GROUP as usize) {
        ensure!(group.len() == GROUP as usize, "a group is not whole");
        let replayed = rollout.replay_group(group).await.context("a fault of the host")?;
        pairs.extend(group.iter().cloned().zip(replayed));
    }
    Ok(pairs)
}
