//! The state of one session: its environment, the seeds of its episodes, and the present episode.

use std::sync::Arc;

use gymkhana_driver::{EpisodeData, EpisodeSequence, NextEpisode, SessionError};
use gymkhana_record::{Content, Seed, TaskRef, Turn};

use super::episode::{ActiveEpisode, EndedEpisode, EpisodeFacts};
use super::id::random_seed;
use super::location::StoredEpisode;
use super::place::LivePlace;
use super::types::{EpisodeStatus, LastObservation};
use crate::catalog::ServedEnvironment;
use crate::error::{ErrorKind, ServeError};
use crate::texts::Texts;

/// The state of a session.
pub(super) struct SessionState {
    pub(super) served: Arc<ServedEnvironment>,
    /// The episodes since the last reset with a seed; absent before the first one.
    sequence: Option<EpisodeSequence>,
    /// Number of all episodes begun.
    pub(super) episodes: u64,
    pub(super) play: Play,
    /// Right to live plugin instances; held exactly while the episode is live.
    pub(super) place: Option<LivePlace>,
    /// What the client wrote in the present episode.
    pub(super) texts: Texts,
    /// Whether the session is closed.
    pub(super) closed: bool,
}

/// The present episode.
pub(super) enum Play {
    /// None has begun.
    Waiting,
    /// Plugin instances are live.
    Live(Box<ActiveEpisode>),
    /// The episode is a snapshot.
    Parked(Box<Parked>),
    /// It is over.
    Ended(Box<EndedEpisode>),
}

/// A parked episode.
pub(super) struct Parked {
    pub(super) saved: StoredEpisode,
    pub(super) facts: EpisodeFacts,
}

impl Parked {
    /// Host's part of the episode.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn data(&self) -> Result<EpisodeData, ServeError> {
        serde_json::from_slice(&self.saved.data)
            .map_err(|error| ServeError::host(ErrorKind::Failed, format!("the session cannot continue: {error}")))
    }
}

impl SessionState {
    /// A session without an episode.
    pub(super) fn new(served: Arc<ServedEnvironment>, texts: Texts) -> Self {
        Self { served, sequence: None, episodes: 0, play: Play::Waiting, place: None, texts, closed: false }
    }

    /// The task and the seed of the next episode; the texts of the one before are forgotten.
    ///
    /// # Errors
    /// If the split or the task does not exist.
    pub(super) fn next(&mut self, begin: NextEpisode) -> Result<(TaskRef, Seed), ServeError> {
        let NextEpisode { split, task, seed } = begin;
        let mut sequence = match (seed, self.sequence) {
            (Some(seed), _) => EpisodeSequence::new(seed),
            (None, Some(sequence)) => sequence,
            (None, None) => EpisodeSequence::new(Seed(random_seed()?)),
        };
        let next = sequence.next(self.served.described(), split.as_deref(), task)?;
        self.sequence = Some(sequence);
        self.episodes += 1;
        self.texts.release();
        Ok(next)
    }

    /// The live episode.
    ///
    /// # Errors
    /// If none has begun, or it has ended.
    pub(super) fn live(&mut self) -> Result<&mut ActiveEpisode, ServeError> {
        match &mut self.play {
            Play::Live(live) => Ok(live),
            Play::Waiting => Err(SessionError::NotBegun.into()),
            Play::Ended(_) => Err(SessionError::Over.into()),
            Play::Parked(_) => Err(ServeError::host(ErrorKind::Failed, "the episode is parked")),
        }
    }

    /// Whether the episode is a snapshot.
    pub(super) fn is_parked(&self) -> bool {
        matches!(self.play, Play::Parked(_))
    }

    /// Turns a live episode into a snapshot. Returns whether it is one now: plugins that offer no snapshots stay live.
    pub(super) async fn park(&mut self) -> bool {
        let Play::Live(live) = &mut self.play else { return false };
        let Some(saved) = live.player.save().await else { return false };
        let parked = Parked { saved, facts: live.facts.clone() };
        self.play = Play::Parked(Box::new(parked));
        self.place = None;
        true
    }

    /// What the seat to move saw last.
    ///
    /// # Errors
    /// If no episode has begun.
    pub(super) fn observed(&mut self) -> Result<LastObservation, ServeError> {
        if let Play::Ended(ended) = &self.play {
            let (seat, turn) = (ended.facts.next_seat(), ended.facts.turns);
            return Ok(LastObservation { seat, contents: last_seen(&ended.record.turns, seat), turn, done: true });
        }
        let live = self.live()?;
        let data = live.data();
        Ok(LastObservation {
            seat: data.seat,
            contents: last_seen(&data.turns, data.seat),
            turn: live.facts.turns,
            done: false,
        })
    }

    /// The state of the episode for clients; `None` before the first one.
    pub(super) fn episode(&self) -> Option<EpisodeStatus> {
        let status = |facts: &EpisodeFacts| EpisodeStatus {
            record: facts.record,
            task: facts.task.clone(),
            seed: facts.seed.0,
            turns: facts.turns,
            seat: facts.next_seat(),
            rewards: vec![],
            ending: None,
            age: facts.begun.elapsed(),
        };
        let sum = |rewards: &gymkhana_record::SeatRewards| rewards.rewards.iter().fold(0.0, |sum, one| sum + one);
        match &self.play {
            Play::Waiting => None,
            Play::Live(live) => {
                let data = live.data();
                let rewards = data.rewards.iter().map(sum).collect();
                Some(EpisodeStatus { seat: data.seat, rewards, ..status(&live.facts) })
            }
            Play::Parked(parked) => Some(status(&parked.facts)),
            Play::Ended(ended) => {
                let (rewards, ending) = (ended.record.rewards.clone(), Some(ended.record.ending));
                Some(EpisodeStatus { rewards, ending, ..status(&ended.facts) })
            }
        }
    }
}

/// The last observations of a seat that came together.
fn last_seen(turns: &[Turn], seat: u32) -> Vec<Content> {
    let is_seen = |turn: &&Turn| matches!(turn, Turn::Observation { seat: own, .. } if *own == seat);
    let Some(last) = turns.iter().rposition(|turn| is_seen(&turn)) else { return vec![] };
    let together = turns[..=last].iter().rev().map_while(|turn| match turn {
        Turn::Observation { seat: own, content } => Some((*own, content)),
        _ => None,
    });
    let mut seen: Vec<Content> = together.filter(|(own, _)| *own == seat).map(|(_, content)| content.clone()).collect();
    seen.reverse();
    seen
}

impl Play {
    /// Whether plugin instances are live.
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }
}
