//! Wall-clock time of asynchronous rollouts, compared with a lower bound and with rollouts that have a barrier per
//! turn.
//!
//! Replies occupy a slot of a simulated policy for the duration of their tokens; tools are real components with
//! simulated latencies. Both are drawn from a seed with heavy tails. The same draws are run without a barrier, with
//! barriers before and after the generation of each turn, and, as arithmetic, by an ideal first-come-first-served host.
//! Time runs faster than in the draws.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::rollouts::{plan, reply, rollout};
use gymkhana_benches::figures::{load, load_granted, print_in};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest, ScriptedPolicy,
};
use gymkhana_record::{ModelReply, Question, Reply, Sampled, Seed, text_of};
use gymkhana_rollout::{Actor, Rollout};
use gymkhana_sandbox::{Outbound, OutboundError, OutboundFuture, Quota, Sandbox, SandboxConfig};
use tokio::sync::Semaphore;

const EPISODES: usize = 2048;
/// Number of episodes of a smoke run.
const FEW_EPISODES: usize = 64;
const SLOTS: usize = 256;
/// Seconds per generated token.
const TOKEN: f64 = 0.02;

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // The bench runs this many times faster than the drawn times, so that each part takes some ten seconds.
        for (name, turns, faster) in [("one-turn", 1, 4.0), ("three-turns", 3, 12.0)] {
            let draws =
                Arc::new(Draws::new(effort.pick(EPISODES, FEW_EPISODES), turns, faster * effort.pick(1.0, 10.0)));
            let free = play(&draws, false).await?;
            let held = play(&draws, true).await?;
            let (best, ideal) = (draws.best(), draws.first_come_first_served());
            print_in(
                "s",
                &format!("{name}-vs-best"),
                free,
                "the longest episode, or all generation over the slots",
                best,
            );
            print_in("s", &format!("{name}-vs-ideal"), free, "an ideal first-come-first-served host", ideal);
            print_in("s", name, held, "the same without a barrier", free);
        }
        Ok(())
    })
}

/// Simulated times of all generations and tools, in seconds of this bench.
struct Draws {
    episodes: usize,
    turns: usize,
    replies: Vec<f64>,
    tools: Vec<f64>,
}

impl Draws {
    fn new(episodes: usize, turns: usize, faster: f64) -> Self {
        let all = |what: &str, median: f64, sigma: f64| -> Vec<f64> {
            let one = |place: usize| lognormal(Seed(0).child(what).child(place as u64), median, sigma) / faster;
            (0..episodes * turns).map(one).collect()
        };
        Self { episodes, turns, replies: all("reply", 200.0 * TOKEN, 0.7), tools: all("tool", 1.0, 1.3) }
    }

    fn at(&self, episode: usize, turn: usize) -> usize {
        episode * self.turns + turn
    }

    /// Lower bound for any host, in seconds.
    fn best(&self) -> f64 {
        let episode = |episode: usize| -> f64 {
            let turns = self.at(episode, 0)..self.at(episode + 1, 0);
            turns.map(|place| self.replies[place] + self.tools[place]).sum()
        };
        let longest = (0..self.episodes).map(episode).fold(0.0, f64::max);
        longest.max(self.replies.iter().sum::<f64>() / SLOTS as f64)
    }

    /// Time of an ideal host without overhead and without knowledge of later requests: slots are assigned in order of
    /// arrival.
    fn first_come_first_served(&self) -> f64 {
        let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
        let mut slots: BinaryHeap<Reverse<u64>> = (0..SLOTS).map(|_| Reverse(0)).collect();
        let mut requests: BinaryHeap<Reverse<(u64, usize, usize)>> =
            (0..self.episodes).map(|episode| Reverse((0, episode, 0))).collect();
        let mut end = 0;
        while let Some(Reverse((asked, episode, turn))) = requests.pop() {
            let Some(Reverse(free)) = slots.pop() else { break };
            let said = asked.max(free) + nanoseconds(self.replies[self.at(episode, turn)]);
            slots.push(Reverse(said));
            let answered = said + nanoseconds(self.tools[self.at(episode, turn)]);
            end = end.max(answered);
            if turn + 1 < self.turns {
                requests.push(Reverse((answered, episode, turn + 1)));
            }
        }
        end as f64 / 1e9
    }
}

fn lognormal(seed: Seed, median: f64, sigma: f64) -> f64 {
    let mut stream = seed.stream();
    let mut uniform = || (stream.bits() >> 11) as f64 / (1_u64 << 53) as f64;
    // One number of the pair that the Box–Muller transform gives.
    let (radius, angle) = ((-2.0 * (1.0 - uniform()).ln()).sqrt(), std::f64::consts::TAU * uniform());
    median * (sigma * radius * angle.cos()).exp()
}

/// Plays all episodes concurrently. Returns the seconds taken.
async fn play(draws: &Arc<Draws>, barrier: bool) -> Result<f64> {
    let sandbox = Sandbox::new(&SandboxConfig::default())?;
    let barriers = barrier.then(|| Arc::new(Barriers::new(draws.episodes, draws.turns)));
    let latency = Latency { draws: Arc::clone(draws), barriers: barriers.clone() };
    let tool = load_granted(&sandbox, "guest-asking-tool")?.with_granted_outbound(Arc::new(latency));
    let environment = load(&sandbox, "word-problems")?;
    let turns = u32::try_from(draws.turns)?;
    let rollout = Arc::new(rollout(&environment, &[&tool], &[], turns, "environment.success").await?);
    let policy = Arc::new(Slots::new(&rollout, Arc::clone(draws), barriers)?);
    let since = Instant::now();
    let episodes = (0..draws.episodes as u64).map(|number| {
        let (rollout, policy) = (Arc::clone(&rollout), Arc::clone(&policy));
        tokio::spawn(async move { rollout.run_group(vec![plan(number, 1)], Actor::Policy(&*policy)).await })
    });
    for episode in episodes.collect::<Vec<_>>() {
        let record = episode.await??.pop().context("a group of one")?;
        ensure!(record.calls() == draws.turns && record.failures.is_empty(), "{}: {:?}", record.id, record.failures);
    }
    Ok(since.elapsed().as_secs_f64())
}

/// A policy with a number of slots, each of which generates tokens in sequence.
struct Slots {
    draws: Arc<Draws>,
    slots: Semaphore,
    /// Reply of each episode: a call that contains the episode's number.
    replies: Vec<Vec<u32>>,
    /// Number of turns that each episode has started.
    turns: Mutex<Vec<usize>>,
    barriers: Option<Arc<Barriers>>,
}

impl Slots {
    fn new(rollout: &Rollout, draws: Arc<Draws>, barriers: Option<Arc<Barriers>>) -> Result<Self> {
        let call = |episode: usize| {
            format!(
                "<tool_call>\n{{\"name\": \"complete\", \"arguments\": {{\"words\": \"{episode}\"}}}}\n</tool_call>"
            )
        };
        let episodes = draws.episodes;
        let replies = (0..episodes).map(|episode| reply(rollout, &call(episode))).collect::<Result<_>>()?;
        Ok(Self { draws, slots: Semaphore::new(SLOTS), replies, turns: Mutex::new(vec![0; episodes]), barriers })
    }

    fn next_turn(&self, episode: usize) -> usize {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns[episode] += 1;
        turns[episode] - 1
    }
}

impl Policy for Slots {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        Box::pin(async move {
            let episode = request.conversation.place as usize;
            let turn = self.next_turn(episode);
            if let Some(barriers) = &self.barriers {
                barriers.wait_for_all(2 * turn).await;
            }
            let _slot = self.slots.acquire().await;
            tokio::time::sleep(Duration::from_secs_f64(self.draws.replies[self.draws.at(episode, turn)])).await;
            ScriptedPolicy::new(usize::MAX, |_| self.replies[episode].clone()).generate(request).await
        })
    }

    fn score(&self, _request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
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

/// Barrier of all episodes: before each turn, and between its generation and its tools.
struct Barriers {
    episodes: usize,
    gates: Vec<(AtomicUsize, Semaphore)>,
}

impl Barriers {
    fn new(episodes: usize, turns: usize) -> Self {
        Self { episodes, gates: (0..2 * turns).map(|_| (AtomicUsize::new(0), Semaphore::new(0))).collect() }
    }

    async fn wait_for_all(&self, barrier: usize) {
        let (arrived, open) = &self.gates[barrier];
        if arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.episodes {
            open.add_permits(Semaphore::MAX_PERMITS / 2);
        }
        drop(open.acquire().await);
    }
}

/// Outbound client that delays the tool of each episode by its drawn time.
struct Latency {
    draws: Arc<Draws>,
    barriers: Option<Arc<Barriers>>,
}

impl Outbound for Latency {
    fn quota(&self) -> Quota {
        Quota { model_calls: 1000, model_tokens: u64::MAX, ..Quota::default() }
    }

    fn ask<'a>(&'a self, question: &'a Question, earlier: u32) -> OutboundFuture<'a, Reply> {
        Box::pin(async move {
            let fault = || OutboundError("the call does not hold its episode's number".to_owned());
            let Question::Model(request) = question else { return Err(fault()) };
            let text = request.messages.first().map(|message| text_of(&message.content));
            let episode: usize = text.and_then(|text| text.parse().ok()).ok_or_else(fault)?;
            if let Some(barriers) = &self.barriers {
                barriers.wait_for_all(2 * earlier as usize + 1).await;
            }
            let latency = self.draws.tools[self.draws.at(episode, earlier as usize)];
            tokio::time::sleep(Duration::from_secs_f64(latency)).await;
            let text = "done".to_owned();
            Ok(Reply::Model(ModelReply { text, cut: false, prompt_tokens: 1, completion_tokens: 1 }))
        })
    }
}
