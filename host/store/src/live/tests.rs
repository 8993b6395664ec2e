//! Tests of the journal of episodes in progress: files, torn and damaged lines, and the records that it gives back.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gymkhana_record::{
    Added, AddedCall, AddedReply, AgentCall, AgentRun, Boundary, Call, Ending, EpisodeId, EpisodeRecord, FailureKind,
    Part, Phase, PolicyTurn, Sampled, SeatRewards, Seed, TaskRef, Turn,
};

use super::journal::FILE_BYTES;
use super::*;
use crate::episodes::EpisodeStore;

fn id(group: u32) -> EpisodeId {
    EpisodeId { stage: 0, phase: Phase::Served, step: 0, group, member: 0, attempt: 0 }
}

fn begun(group: u32) -> EpisodeRecord {
    let task = TaskRef { split: "train".to_owned(), index: 7 };
    EpisodeRecord::new(id(group), task, Seed(u64::MAX), Ending::Dropped)
}

fn text(text: &str) -> Vec<Part> {
    vec![Part::Text(text.to_owned())]
}

fn said(message: &str) -> Added<'static> {
    Added { turns: vec![Turn::Message { seat: 0, content: text(message) }].into(), ..Added::default() }
}

/// The records that a journal gives back.
fn recovered(root: &Path) -> Result<(Recovered, Vec<EpisodeRecord>), StoreError> {
    let mut found = vec![];
    let recovered = recover(root, "gateway", |_, records| {
        found.extend(records.to_vec());
        Ok(records.len())
    })?;
    Ok((recovered, found))
}

#[test]
fn files_are_removed_once_their_episodes_have_ended() {
    let root = tempfile::tempdir().unwrap();
    let journal = LiveJournal::create(root.path()).unwrap();
    let begin = |group| journal.began("e", &begun(group)).unwrap();
    let next_file = || journal.state.lock().unwrap().bytes = FILE_BYTES;
    begin(0);
    next_file();
    begin(1);
    assert_eq!(files(root.path()).unwrap().len(), 2);
    journal.ended("e", id(0)).unwrap();
    next_file();
    // The second episode began at the end of the first file.
    begin(2);
    assert_eq!(files(root.path()).unwrap().len(), 3);
    journal.ended("e", id(1)).unwrap();
    next_file();
    begin(3);
    let left = files(root.path()).unwrap();
    assert_eq!(left, [path_of(root.path(), 1), path_of(root.path(), 2), path_of(root.path(), 3)]);
    journal.ended("e", id(1)).unwrap();
    fs::write(root.path().join("live-04.jsonl"), "of another program").unwrap();
    let (recovered, found) = recovered(root.path()).unwrap();
    assert_eq!((recovered.episodes, found.iter().map(|record| record.id.group).collect::<Vec<_>>()), (2, vec![2, 3]));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "the journal is gone");
}

#[test]
fn a_torn_last_line_is_lost_and_a_damaged_one_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let journal = LiveJournal::create(root.path()).unwrap();
    journal.began("", &begun(0)).unwrap();
    journal.added("", id(0), &said("one")).unwrap();
    journal.added("", id(0), &said("two")).unwrap();
    let path = path_of(root.path(), 0);
    let bytes = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let [first, second, third] = lines[..] else { panic!("{} lines", lines.len()) };
    // Damage before the last line is an error that names its place, and the journal stays.
    for (damage, offset) in [
        ([&first[..first.len() - 9], second, third].concat(), 0),
        ([first, b"{}\n", third].concat(), first.len()),
        ([first, second, b"\xff\n"].concat(), first.len() + second.len()),
    ] {
        fs::write(&path, &damage).unwrap();
        let error = recovered(root.path()).unwrap_err();
        let StoreError::Damaged { offset: at, what, .. } = &error else { panic!("{error}") };
        assert_eq!((*at, *what), (offset as u64, "this line is not an event of an episode"));
        assert!(error.to_string().contains("hint: restore the file, or move it away"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), damage);
    }
    // A kill may cut the last line anywhere.
    for cut in 1..third.len() {
        fs::write(&path, [first, second, &third[..cut]].concat()).unwrap();
        let (recovered, found) = recovered(root.path()).unwrap();
        assert_eq!(recovered, Recovered { episodes: 1, torn: true }, "{cut}");
        assert_eq!(found[0].turns, said("one").turns.into_owned(), "{cut}");
    }
}

#[test]
fn lines_that_could_not_be_written_follow_in_their_order() {
    let root = tempfile::tempdir().unwrap();
    let journal = LiveJournal::create(root.path()).unwrap();
    journal.began("", &begun(0)).unwrap();
    journal.began("", &begun(1)).unwrap();
    journal.added("", id(0), &said("one")).unwrap();
    // A file that is open for reading alone cannot be written.
    let unwritable = fs::File::open(path_of(root.path(), 0)).unwrap();
    let file = std::mem::replace(&mut journal.state.lock().unwrap().file, unwritable);
    let error = journal.added("", id(0), &said("two")).unwrap_err();
    assert!(error.to_string().contains("live-0.jsonl` cannot be read or written"), "{error}");
    assert!(journal.began("", &begun(2)).is_err() && journal.flush().is_err());
    journal.state.lock().unwrap().file = file;
    journal.added("", id(1), &said("three")).unwrap();
    journal.flush().unwrap();
    let (_, found) = recovered(root.path()).unwrap();
    let turns: Vec<_> = found.iter().map(|record| record.turns.clone()).collect();
    let both = [said("one").turns.into_owned(), said("two").turns.into_owned()].concat();
    assert_eq!(turns, [both, said("three").turns.into_owned(), vec![]]);
}

/// What is reported, and a folder of records that has room or has none.
#[test]
fn records_that_could_not_be_stored_are_stored_when_there_is_room() {
    let root = tempfile::tempdir().unwrap();
    let (has_room, stored, told) = (Arc::new(AtomicBool::new(false)), Arc::default(), Arc::default());
    let append = || -> Append {
        let (has_room, stored): (_, Arc<Mutex<Vec<EpisodeId>>>) = (Arc::clone(&has_room), Arc::clone(&stored));
        Box::new(move |record| {
            if !has_room.load(Ordering::Relaxed) {
                return Err(StoreError::io(Path::new("part"), std::io::ErrorKind::StorageFull.into()));
            }
            stored.lock().unwrap().push(record.id);
            Ok(())
        })
    };
    let report: Arc<Mutex<Vec<Option<String>>>> = Arc::clone(&told);
    let report: ReportWrites = Box::new(move |problem| report.lock().unwrap().push(problem.map(str::to_owned)));
    let records = LiveRecords::create(root.path(), report).unwrap();
    assert!(records.began("e", &begun(0)) && records.began("e", &begun(1)));
    assert!(!records.store("e", begun(0), append()) && !records.store("e", begun(1), append()));
    assert!(records.problem().unwrap().contains("the disk is full") && !records.flush());
    has_room.store(true, Ordering::Relaxed);
    assert!(records.flush() && records.problem().is_none());
    let mut ids = stored.lock().unwrap().clone();
    ids.sort_unstable();
    assert_eq!(ids, [id(0), id(1)]);
    let told = told.lock().unwrap().clone();
    assert!(matches!(&told[..], [Some(_), None]), "one line for the beginning and one for the end: {told:?}");
    let (found, _) = recovered(root.path()).unwrap();
    assert_eq!(found.episodes, 0, "the journal knows that both are stored");
}

fn sampled(tokens: &[u32], log_prob: f32) -> Sampled {
    let each = vec![log_prob; tokens.len()];
    Sampled { tokens: tokens.to_vec(), log_probs: each.clone(), entropies: each, versions: vec![3; tokens.len()] }
}

fn reply(
    (turn, transcript): (u32, u32),
    parent: Option<usize>,
    given: &[u32],
    sampled: Sampled,
    delivered: bool,
) -> AddedReply<'static> {
    let turn = PolicyTurn {
        seat: 0,
        turn,
        transcript,
        steps: 0,
        state: None,
        probe_score: None,
        thought_tokens: 0,
        note: None,
    };
    AddedReply {
        turn: Cow::Owned(turn),
        parent,
        given: Cow::Owned(given.to_vec()),
        sampled: Cow::Owned(sampled),
        delivered,
    }
}

#[test]
fn replies_become_segments_and_calls_get_their_costs() {
    let root = tempfile::tempdir().unwrap();
    let journal = LiveJournal::create(root.path()).unwrap();
    let task = Turn::Observation { seat: 0, content: text("task") };
    let of_agent = EpisodeRecord {
        turns: vec![task.clone()],
        agent: Some(AgentRun { begin: 1, ..AgentRun::default() }),
        environment_rewards: vec![SeatRewards { seat: 0, rewards: vec![] }],
        ..begun(0)
    };
    journal.began("", &of_agent).unwrap();
    let added = |added: &Added<'_>| journal.added("", id(0), added).unwrap();
    // Neither number is exact in base ten, and both must come back as they were.
    let (first, second) = (sampled(&[11, 12], -0.1), sampled(&[14], -1.0e-7 / 3.0));
    let call = Call { id: "c".to_owned(), name: "add".to_owned(), arguments: "{}".to_owned() };
    let called = |cost| Turn::Call { seat: 0, call: call.clone(), cost };
    let one = reply((0, 0), None, &[10], first.clone(), true);
    added(&Added { turns: vec![called(0.0)].into(), reply: Some(one), ..Added::default() });
    let answer = Turn::Answer { seat: 0, id: "c".to_owned(), content: text("3"), failed: false };
    let listed = AgentCall { call: call.clone(), listed: true, begin: 1, turns: 1 };
    added(&Added {
        turns: vec![answer.clone()].into(),
        rewards: vec![Cow::Owned(vec![0.25])],
        call: Some(AddedCall { call: listed.clone(), cost: 0.5 }),
        ..Added::default()
    });
    // The program never received this reply, and this one only later.
    added(&Added { reply: Some(reply((1, 2), Some(0), &[13], sampled(&[99], -1.0), false)), ..Added::default() });
    added(&Added { reply: Some(reply((2, 2), Some(0), &[13], second.clone(), false)), ..Added::default() });
    added(&Added { delivered: Some(2), ..Added::default() });
    added(&said("end"));
    drop(journal);
    let (_, found) = recovered(root.path()).unwrap();
    let [record] = &found[..] else { panic!("{} records", found.len()) };
    let Turn::Message { .. } = &record.turns[3] else { panic!("{:?}", record.turns) };
    assert_eq!(record.turns[..3], [task, called(0.5), answer]);
    let [segment] = &record.segments[..] else { panic!("{:?}", record.segments) };
    assert_eq!(segment.tokens(), [10, 11, 12, 13, 14]);
    assert_eq!(segment.sampled(), [false, true, true, false, true]);
    let log_probs = [0.0, first.log_probs[0], first.log_probs[1], 0.0, second.log_probs[0]];
    assert_eq!(segment.log_probs().map_bits(), log_probs.map_bits());
    assert_eq!(segment.versions(), [0, 3, 3, 0, 3]);
    assert_eq!(segment.turns(), [0, 0, 0, 2, 2]);
    assert_eq!(record.policy_turns.iter().map(|turn| turn.transcript).collect::<Vec<_>>(), [1, 3, 3]);
    let run = record.agent.as_ref().unwrap();
    assert_eq!((run.begin, run.turns, &run.calls[..], &run.answer), (1, 3, &[listed][..], &None));
    assert_eq!((record.ending, &record.environment_rewards[0].rewards[..]), (Ending::Dropped, &[0.25][..]));
    let failure = record.failures.last().unwrap();
    assert_eq!((&failure.at, failure.kind), (&Boundary::Host, FailureKind::Fault));
    assert!(failure.message.starts_with("the gateway was killed: "), "{failure}");
}

/// Exact comparison of numbers.
trait Bits {
    fn map_bits(&self) -> Vec<u32>;
}

impl Bits for [f32] {
    fn map_bits(&self) -> Vec<u32> {
        self.iter().map(|number| number.to_bits()).collect()
    }
}

#[test]
fn a_reply_without_those_before_it_is_damage() {
    for wrong in [
        reply((1, 0), None, &[10], sampled(&[1], -1.0), true),
        reply((0, 0), Some(0), &[10], sampled(&[1], -1.0), true),
    ] {
        let root = tempfile::tempdir().unwrap();
        let journal = LiveJournal::create(root.path()).unwrap();
        journal.began("", &begun(0)).unwrap();
        let offset = journal.state.lock().unwrap().bytes;
        journal.added("", id(0), &Added { reply: Some(wrong), ..Added::default() }).unwrap();
        let error = recovered(root.path()).unwrap_err();
        let StoreError::Damaged { offset: at, what, .. } = error else { panic!("{error}") };
        assert_eq!((at, what), (offset, "this turn does not continue the turns before it"));
    }
}

#[test]
fn a_reply_with_columns_of_different_length_is_not_written() {
    let root = tempfile::tempdir().unwrap();
    let journal = LiveJournal::create(root.path()).unwrap();
    journal.began("", &begun(0)).unwrap();
    let short = Sampled { versions: vec![], ..sampled(&[1], -1.0) };
    let short = Added { reply: Some(reply((0, 0), None, &[10], short, true)), ..Added::default() };
    assert!(journal.added("", id(0), &short).is_err());
    let (_, found) = recovered(root.path()).unwrap();
    assert!(found[0].segments.is_empty());
}

#[test]
fn an_episode_that_is_stored_is_not_stored_again() {
    let root = tempfile::tempdir().unwrap();
    let episodes = root.path().join("episodes");
    fs::create_dir(&episodes).unwrap();
    let journal = LiveJournal::create(root.path()).unwrap();
    let finished = EpisodeRecord { ending: Ending::Terminated, ..begun(0) };
    for group in 0..2 {
        journal.began("", &begun(group)).unwrap();
    }
    // The process is killed between the record and its line in the journal.
    let mut store = EpisodeStore::open(&episodes).unwrap();
    store.append(&finished).unwrap();
    drop(store);
    let mut store = EpisodeStore::open(&episodes).unwrap();
    let recovered = recover(root.path(), "gateway", |_, records| store.append_all(records)).unwrap();
    assert_eq!(recovered.episodes, 1);
    let read: Vec<_> = EpisodeStore::open(&episodes).unwrap().stored().read_all().map(Result::unwrap).collect();
    let endings: Vec<_> = read.iter().map(|record| (record.id.group, record.ending)).collect();
    assert_eq!(endings, [(0, Ending::Terminated), (1, Ending::Dropped)]);
}
