//! Recovery after a kill: unfinished episodes of the journal become records that say what was lost.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_record::{Boundary, CallSite, Ending, EpisodeId, EpisodeRecord, Failure, FailureKind, SeatRewards, Turn};
use gymkhana_store::RunFolder;

use super::journal::{ReadLine, files};

/// What was found of a server that was killed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Number of unfinished episodes, which are records now.
    pub episodes: usize,
    /// Whether a turn was cut off while it was written.
    pub torn: bool,
}

/// Turns the unfinished episodes of a folder into records and removes the journal.
///
/// # Errors
/// If the journal is damaged before its last line, or a record cannot be written.
pub(super) fn recover(root: &Path) -> RunResult<Recovered> {
    let unreadable = || format!("the journal of sessions in `{}` cannot be read", root.display());
    let files = files(root).user_context(unreadable())?;
    let mut unfinished: BTreeMap<(String, EpisodeId), EpisodeRecord> = BTreeMap::new();
    let mut torn = false;
    for (place, path) in files.iter().enumerate() {
        let mut reader = BufReader::new(File::open(path).user_context(unreadable())?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line).user_context(unreadable())? == 0 {
                break;
            }
            if line.last() != Some(&b'\n') && place + 1 == files.len() {
                torn = true;
                break;
            }
            let event = serde_json::from_slice(&line).map_err(|error| {
                let message = format!("the journal `{}` is damaged: {error}", path.display());
                RunError::user(message).with_hint("move the file away to lose its unfinished episodes")
            })?;
            apply(&mut unfinished, event);
        }
    }
    let episodes = unfinished.len();
    store(root, unfinished)?;
    for path in &files {
        std::fs::remove_file(path).user_context(unreadable())?;
    }
    Ok(Recovered { episodes, torn })
}

fn apply(unfinished: &mut BTreeMap<(String, EpisodeId), EpisodeRecord>, event: ReadLine) {
    match event {
        ReadLine::Began { folder, record, task, seed, opening, turns } => {
            let seats = opening.functions.iter();
            let environment_rewards = seats.map(|own| SeatRewards { seat: own.seat, rewards: vec![] }).collect();
            let begun = EpisodeRecord {
                opening,
                turns,
                environment_rewards,
                ..EpisodeRecord::new(record, task, seed, Ending::Dropped)
            };
            unfinished.insert((folder, record), begun);
        }
        ReadLine::Turn { folder, record, turns, rewards, extras, failures, exchanges } => {
            // A line of an episode whose start was in a removed file belongs to one that has ended.
            let Some(begun) = unfinished.get_mut(&(folder, record)) else { return };
            begun.turns.extend(turns);
            for (own, added) in begun.environment_rewards.iter_mut().zip(rewards) {
                own.rewards.extend(added);
            }
            begun.extras = extras;
            begun.failures.extend(failures);
            begun.exchanges.extend(exchanges);
        }
        ReadLine::Ended { folder, record } => drop(unfinished.remove(&(folder, record))),
    }
}

/// Stores the records in their folders.
fn store(root: &Path, unfinished: BTreeMap<(String, EpisodeId), EpisodeRecord>) -> RunResult<()> {
    let mut by_folder: BTreeMap<String, Vec<EpisodeRecord>> = BTreeMap::new();
    for ((folder, _), record) in unfinished {
        by_folder.entry(folder).or_default().push(record);
    }
    for (name, records) in by_folder {
        let folder = RunFolder::open_for_resume(&root.join(&name))?;
        let mut episodes = folder.episodes()?;
        for mut record in records {
            record.failures.push(killed(&record));
            episodes.append(&record)?;
        }
        episodes.commit()?;
    }
    Ok(())
}

/// The failure of an episode that the end of the process cut off.
fn killed(record: &EpisodeRecord) -> Failure {
    let is_turn = |turn: &&Turn| matches!(turn, Turn::Message { .. }) || turn.caller().is_some();
    let complete = record.turns.iter().filter(is_turn).count();
    let message = format!(
        "the server was killed: the record is complete up to its last turn ({complete} messages and calls), and a turn in \
         progress is lost"
    );
    let turn = u32::try_from(complete).unwrap_or(u32::MAX);
    Failure { at: Boundary::Host, kind: FailureKind::Fault, call_site: CallSite::Generate(turn), message }
}
