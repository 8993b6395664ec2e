//! Recovery after a kill: unfinished episodes of the journal become records that say what was lost.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use gymkhana_record::{
    Added, AddedCall, AddedReply, Boundary, CallSite, EPISODE_SCHEMA, Ending, EpisodeId, EpisodeRecord, Failure,
    FailureKind, Turn, segments_of, set_call_cost,
};
use gymkhana_registry::open_regular_file;

use super::{Line, files};
use crate::StoreError;

/// What was found of a process that was killed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Number of unfinished episodes, which are records now.
    pub episodes: usize,
    /// Whether a turn was cut off while it was written.
    pub torn: bool,
}

/// The one seat that an agent program plays.
const SEAT: u32 = 0;
/// Description of a line that is not an event.
const NO_EVENT: &str = "this line is not an event of an episode";
/// Description of a turn that does not continue its episode.
const NO_CONTINUATION: &str = "this turn does not continue the turns before it";

/// An episode that has not ended, as far as it was read.
struct Unfinished {
    record: EpisodeRecord,
    replies: Vec<AddedReply<'static>>,
}

/// Turns the unfinished episodes of a journal into records that end `dropped`, and removes the journal. `store` gets the
/// name of a folder and its records, and returns the number of those that were not stored before. `owner` names the
/// process in the records' failures.
///
/// # Errors
/// If the journal is damaged before its last line, or a record cannot be stored. The journal then stays.
pub fn recover(
    root: &Path,
    owner: &str,
    mut store: impl FnMut(&str, &[EpisodeRecord]) -> Result<usize, StoreError>,
) -> Result<Recovered, StoreError> {
    let files = files(root)?;
    let mut unfinished = BTreeMap::new();
    let mut torn = false;
    for (place, path) in files.iter().enumerate() {
        torn |= read(path, place + 1 == files.len(), &mut unfinished)?;
    }
    let mut by_folder: BTreeMap<String, Vec<EpisodeRecord>> = BTreeMap::new();
    for ((folder, _), episode) in unfinished {
        by_folder.entry(folder).or_default().push(episode.into_record(owner));
    }
    let mut episodes = 0;
    for (folder, records) in &by_folder {
        episodes += store(folder, records)?;
    }
    for path in &files {
        std::fs::remove_file(path).map_err(|source| StoreError::io(path, source))?;
    }
    Ok(Recovered { episodes, torn })
}

/// Reads a file. Returns whether its last line is not whole, which only the last file may have.
fn read(
    path: &Path,
    is_last: bool,
    unfinished: &mut BTreeMap<(String, EpisodeId), Unfinished>,
) -> Result<bool, StoreError> {
    let failed = |source| StoreError::io(path, source);
    let mut reader = BufReader::new(open_regular_file(path).map_err(failed)?);
    let (mut line, mut offset) = (Vec::new(), 0);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(failed)?;
        if length == 0 {
            return Ok(false);
        }
        if line.last() != Some(&b'\n') && is_last {
            return Ok(true);
        }
        let damaged = |what| StoreError::Damaged { path: path.to_owned(), offset, what };
        match serde_json::from_slice(&line).map_err(|_| damaged(NO_EVENT))? {
            Line::Began { folder, episode } => {
                let record = episode.into_owned();
                if record.schema > EPISODE_SCHEMA {
                    let (path, found) = (path.to_owned(), record.schema);
                    return Err(StoreError::Schema { path, found, known: EPISODE_SCHEMA });
                }
                unfinished.insert((folder.into_owned(), record.id), Unfinished { record, replies: vec![] });
            }
            Line::Turn { folder, record, added } => {
                // A line of an episode whose start was in a removed file belongs to one that has ended.
                if let Some(episode) = unfinished.get_mut(&(folder.into_owned(), record)) {
                    episode.add(added.into_owned()).ok_or_else(|| damaged(NO_CONTINUATION))?;
                }
            }
            Line::Ended { folder, record } => drop(unfinished.remove(&(folder.into_owned(), record))),
        }
        offset += length as u64;
    }
}

impl Unfinished {
    /// Adds a turn; `None` if it does not continue those before it.
    fn add(&mut self, added: Added<'static>) -> Option<()> {
        let Added { turns, rewards, extras, failures, exchanges, reply, call, delivered } = added;
        let Self { record, replies } = self;
        if let Some(reply) = reply {
            let follows = reply.turn.turn as usize == replies.len();
            let grows = reply.parent.is_none_or(|parent| parent < replies.len());
            if !follows || !grows {
                return None;
            }
            replies.push(reply);
        }
        if let Some(delivered) = delivered {
            replies.get_mut(delivered as usize)?.delivered = true;
        }
        if let Some(AddedCall { call, cost }) = call {
            set_call_cost(&mut record.turns, &call.call.id, cost);
            record.agent.get_or_insert_default().calls.push(call);
        }
        record.turns.extend(turns.into_owned());
        for (own, added) in record.environment_rewards.iter_mut().zip(rewards) {
            own.rewards.extend_from_slice(&added);
        }
        if let Some(extras) = extras {
            record.extras = extras.into_owned();
        }
        record.failures.extend(failures.into_owned());
        record.exchanges.extend(exchanges.into_owned());
        Some(())
    }

    /// The record, with the failure that ended the episode.
    fn into_record(self, owner: &str) -> EpisodeRecord {
        let Self { mut record, replies } = self;
        record.ending = Ending::Dropped;
        // Columns of different length cannot be written to a journal.
        record.segments.extend(segments_of(&replies, SEAT).unwrap_or_default());
        if let Some(run) = &mut record.agent {
            run.turns = (record.turns.len() as u32).saturating_sub(run.begin);
            record.policy_turns.extend(replies.into_iter().map(|reply| {
                let mut turn = reply.turn.into_owned();
                turn.transcript = turn.transcript.saturating_add(run.begin);
                turn
            }));
        }
        record.failures.push(killed(&record, owner));
        record
    }
}

/// The failure of an episode that the end of the process cut off.
fn killed(record: &EpisodeRecord, owner: &str) -> Failure {
    let is_turn = |turn: &&Turn| matches!(turn, Turn::Message { .. }) || turn.caller().is_some();
    let complete = record.turns.iter().filter(is_turn).count();
    let message = format!(
        "the {owner} was killed: the record is complete up to its last turn ({complete} messages and calls), and a turn in \
         progress is lost"
    );
    let turn = u32::try_from(complete).unwrap_or(u32::MAX);
    Failure { at: Boundary::Host, kind: FailureKind::Fault, call_site: CallSite::Generate(turn), message }
}
