//! The environments of a `VectorEnv` in chunks, of which a thread takes one at a time. What an environment shows is read
//! right after its turn, while it is in the processor's cache.

use std::pin::pin;
use std::task::Poll;
use std::vec::IntoIter;

use futures::future::{BoxFuture, join};
use futures::poll;
use gymkhana_driver::{EpisodeSession, NextEpisode, Reply};
use gymkhana_record::Seed;

use crate::batch::{MIN_JOBS, spread};
use crate::environment::transition::StepOutcome;
use crate::errors::FunctionFault;
use crate::runtime::Host;

/// Most environments of a chunk, and with it most futures that lie within each other while they wait.
const MAX_CHUNK: usize = 32;

/// Chunks for each thread, so that a thread that the system interrupts has little left for the others to wait for.
const CHUNKS_PER_THREAD: usize = 8;

/// What one environment does.
pub enum EnvironmentTurn {
    /// It begins an episode, with this seed if there is one.
    Begin(Option<Seed>),
    /// It takes a turn or, if its episode is over, begins the next one.
    Step(Reply),
}

/// What one environment shows after that.
pub struct ChunkResult {
    /// Numbers and text.
    pub outcome: StepOutcome,
    /// Seat that moves next.
    pub seat: u32,
    /// Whether an episode began.
    pub began: bool,
    /// Whether it shows extras.
    pub has_extras: bool,
    /// Number of the first new failure, if there is one.
    pub first_failure: Option<usize>,
}

/// Divides environments among the threads.
pub fn divide(host: &Host, plays: Vec<EpisodeSession>) -> Vec<Vec<EpisodeSession>> {
    let size = (plays.len() / (host.threads() * CHUNKS_PER_THREAD)).clamp(MIN_JOBS, MAX_CHUNK);
    let mut plays = plays.into_iter();
    let chunk = || Some(plays.by_ref().take(size).collect::<Vec<_>>()).filter(|chunk| !chunk.is_empty());
    std::iter::from_fn(chunk).collect()
}

/// Each chunk with what its environments showed.
type Done = Vec<(Vec<EpisodeSession>, Vec<Result<ChunkResult, FunctionFault>>)>;

/// Takes a turn in each environment of all chunks.
///
/// # Errors
/// If a turn panics: all environments are lost.
pub fn take_all(
    host: &Host,
    chunks: Vec<Vec<EpisodeSession>>,
    turns: Vec<EnvironmentTurn>,
) -> Result<Done, FunctionFault> {
    let mut turns = turns.into_iter();
    let with_turns = |plays: Vec<EpisodeSession>| {
        let turns: Vec<EnvironmentTurn> = turns.by_ref().take(plays.len()).collect();
        (plays, turns)
    };
    let jobs = chunks.into_iter().map(with_turns).collect();
    spread(host, jobs, 1, |(mut plays, turns): (Vec<EpisodeSession>, Vec<EnvironmentTurn>)| {
        Box::pin(async move {
            let mut seen = Vec::with_capacity(plays.len());
            take_each(&mut plays, turns.into_iter(), &mut seen).await;
            (plays, seen)
        })
    })
}

/// Takes a turn in each environment, one after the other. While one waits, such as for an outbound call, the ones after it
/// go on.
fn take_each<'a>(
    mut plays: &'a mut [EpisodeSession],
    mut turns: IntoIter<EnvironmentTurn>,
    seen: &'a mut Vec<Result<ChunkResult, FunctionFault>>,
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        while let (Some((play, rest)), Some(turn)) = (std::mem::take(&mut plays).split_first_mut(), turns.next()) {
            plays = rest;
            let mut running = pin!(take(play, turn));
            match poll!(&mut running) {
                Poll::Ready(result) => seen.push(result),
                Poll::Pending => {
                    let mut later = Vec::with_capacity(plays.len());
                    let (result, ()) = join(running, take_each(plays, turns, &mut later)).await;
                    seen.push(result);
                    seen.append(&mut later);
                    return;
                }
            }
        }
    })
}

/// Takes the turn of one environment.
async fn take(play: &mut EpisodeSession, turn: EnvironmentTurn) -> Result<ChunkResult, FunctionFault> {
    let step = match turn {
        EnvironmentTurn::Step(reply) if play.is_running() => Some(play.step(reply).await?),
        EnvironmentTurn::Step(_) => {
            play.reset(NextEpisode::default()).await?;
            None
        }
        EnvironmentTurn::Begin(seed) => {
            play.reset(NextEpisode { seed, ..NextEpisode::default() }).await?;
            None
        }
    };
    let live = play.live()?;
    let outcome = step.as_ref().map_or_else(|| StepOutcome::of_start(live), |step| StepOutcome::of(live, step));
    let data = &live.episode.data;
    let first = step.as_ref().map_or(0, |step| step.before.failures);
    Ok(ChunkResult {
        outcome,
        seat: data.seat,
        began: step.is_none(),
        has_extras: !data.extras.is_empty(),
        first_failure: (data.failures.len() > first).then_some(first),
    })
}
