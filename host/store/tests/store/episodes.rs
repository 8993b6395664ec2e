//! Episodes are stored exactly once and unchanged, at whatever point a crash happens.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{id, record};
use gymkhana_record::{
    Boundary, CallSite, EPISODE_SCHEMA, Ending, EpisodeId, Fork, Phase, Seed, Segment, SegmentColumns,
};
use gymkhana_store::{EpisodeStore, RunFolder, StoreError};
use tempfile::TempDir;

fn run() -> (TempDir, RunFolder) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), "seed = 1\n").expect("a run");
    (folder, run)
}

fn store(run: &RunFolder) -> EpisodeStore {
    run.episodes().expect("the store opens")
}

fn fill(store: &mut EpisodeStore, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert!(store.append(&record(number)).expect("appended"));
    }
}

/// Asserts that readers find exactly the first `count` episodes, each once and unchanged.
fn assert_holds(run: &RunFolder, count: u64) {
    let reader = run.reader().episodes().expect("the reader opens");
    let ids: Vec<EpisodeId> = (0..count).map(id).collect();
    assert_eq!(reader.ids(), ids);
    let mut read: Vec<_> = reader.read_all().map(|record| record.expect("readable")).collect();
    read.sort_by_key(|record| record.id);
    assert_eq!(read.len() as u64, count);
    for (number, read) in (0..).zip(read) {
        assert_eq!(read, record(number), "episode {number}");
    }
}

fn file(run: &RunFolder, name: &str) -> PathBuf {
    run.reader().path().join("episodes").join(name)
}

fn only_file(run: &RunFolder) -> PathBuf {
    let mut entries = fs::read_dir(file(run, "")).expect("listed");
    let path = entries.next().expect("one file").expect("an entry").path();
    assert!(entries.next().is_none(), "more than one file");
    path
}

#[test]
fn records_survive_journal_and_part() {
    let (_folder, run) = run();
    let mut store = store(&run);
    fill(&mut store, 0..200);
    assert_holds(&run, 200);
    let parts = store.commit().expect("committed");
    assert_eq!(parts, [only_file(&run)]);
    assert!(parts[0].ends_with("part-000001.parquet"));
    assert_holds(&run, 200);
    for number in [0, 77, 199] {
        // Debug texts distinguish -0.0 from 0.0, which `==` does not.
        let read = store.stored().read(id(number)).expect("read");
        assert_eq!(format!("{read:?}"), format!("{:?}", record(number)));
    }
}

#[test]
fn an_id_is_stored_once() {
    let (_folder, run) = run();
    let mut store = store(&run);
    fill(&mut store, 0..3);
    let mut other = record(1);
    other.success = !other.success;
    assert!(!store.append(&other).expect("known in the journal"));
    store.commit().expect("committed");
    assert!(!store.append(&other).expect("known in a part"));
    assert!(store.commit().expect("nothing to commit").is_empty());
    fill(&mut store, 3..5);
    assert_holds(&run, 5);
}

#[test]
fn a_crash_before_the_part_is_renamed_loses_nothing() {
    let (_folder, run) = run();
    fill(&mut store(&run), 0..5);
    fs::write(file(&run, ".part-000001.parquet.77-0.tmp"), b"PAR1 half a part").expect("written");
    let path = run.reader().path().to_owned();
    drop(run);
    let run = RunFolder::open_for_resume(&path).expect("resumed");
    let mut store = store(&run);
    fill(&mut store, 5..7);
    store.commit().expect("committed");
    assert!(only_file(&run).ends_with("part-000001.parquet"));
    assert_holds(&run, 7);
}

#[test]
fn a_crash_before_the_journal_is_removed_duplicates_nothing() {
    let (_folder, run) = run();
    let mut writer = store(&run);
    fill(&mut writer, 0..5);
    let journal = file(&run, "journal-000001.log");
    let kept = fs::read(&journal).expect("the journal");
    writer.commit().expect("committed");
    fs::write(&journal, &kept).expect("the journal is back");
    assert_holds(&run, 5);
    let mut again = store(&run);
    assert!(!journal.exists());
    fill(&mut again, 5..6);
    again.commit().expect("committed");
    assert_holds(&run, 6);
}

#[test]
fn a_torn_end_is_cut_off_at_every_length() {
    let (_folder, run) = run();
    fill(&mut store(&run), 0..2);
    let journal = file(&run, "journal-000001.log");
    let two = fs::read(&journal).expect("two frames").len();
    fill(&mut store(&run), 2..3);
    let whole = fs::read(&journal).expect("three frames");
    for length in two + 1..whole.len() {
        fs::write(&journal, &whole[..length]).expect("torn");
        assert_holds(&run, 2);
        assert_eq!(store(&run).torn_bytes(), (length - two) as u64);
        assert_eq!(fs::metadata(&journal).expect("the journal").len(), two as u64);
    }
    // A file that was extended but not written before the machine stopped.
    fs::write(&journal, [&whole[..two], &[0; 100]].concat()).expect("torn");
    fill(&mut store(&run), 2..4);
    assert_holds(&run, 4);
}

#[test]
fn damage_before_whole_frames_is_not_repaired_by_guessing() {
    let (_folder, run) = run();
    fill(&mut store(&run), 0..1);
    let journal = file(&run, "journal-000001.log");
    let second = fs::read(&journal).expect("one frame").len();
    fill(&mut store(&run), 1..3);
    let whole = fs::read(&journal).expect("three frames");
    // In the length, the checksum and the payload of the second frame.
    for place in [second, second + 3, second + 4, second + 20] {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        fs::write(&journal, &damaged).expect("damaged");
        let error = run.episodes().expect_err("damaged");
        assert!(matches!(&error, StoreError::Damaged { offset, .. } if *offset == second as u64), "{error}");
        assert!(error.to_string().contains("journal-000001.log"), "{error}");
        assert_eq!(fs::read(&journal).expect("the journal"), damaged);
    }
}

/// Some damage to a Parquet file makes its parser panic, and other damage stays undetected.
#[test]
fn a_part_with_any_byte_changed_is_refused() {
    const SEED: u64 = 15;
    let (_folder, run) = run();
    let mut store = store(&run);
    fill(&mut store, 0..40);
    store.commit().expect("committed");
    let part = only_file(&run);
    let whole = fs::read(&part).expect("the part");
    let mut random = Seed(SEED).child("damage").stream();
    for trial in 0..400 {
        let mut damaged = whole.clone();
        let places: Vec<usize> = (0..=random.below(3)).map(|_| random.below(whole.len() as u64) as usize).collect();
        for place in &places {
            damaged[*place] = random.bits() as u8;
        }
        if trial % 8 == 0 {
            damaged.truncate(places[0]);
        }
        fs::write(&part, &damaged).expect("damaged");
        match run.reader().episodes() {
            Ok(_) => assert!(damaged == whole, "seed {SEED}, trial {trial}, bytes {places:?}: accepted"),
            Err(error) => {
                assert!(damaged != whole, "seed {SEED}, trial {trial}: {error}");
                assert!(error.to_string().contains("part-000001.parquet"), "seed {SEED}, trial {trial}: {error}");
            }
        }
    }
    fs::write(&part, &whole).expect("restored");
    assert_holds(&run, 40);
}

#[test]
fn newer_schemas_and_foreign_files_are_refused_by_name() {
    let (_folder, run) = run();
    fill(&mut store(&run), 0..1);
    let journal = file(&run, "journal-000001.log");
    let whole = fs::read(&journal).expect("the journal");
    fs::write(&journal, [b"GYMJ\x09\0\0\0", &whole[8..]].concat()).expect("written");
    assert!(matches!(run.episodes(), Err(StoreError::Schema { found: 9, .. })));
    fs::write(&journal, b"my notes").expect("written");
    assert!(matches!(run.episodes(), Err(StoreError::Damaged { offset: 0, .. })));
    fs::remove_file(&journal).expect("removed");

    let mut later = record(0);
    later.schema = EPISODE_SCHEMA + 1;
    store(&run).append(&later).expect("appended");
    assert!(matches!(run.episodes(), Err(StoreError::Schema { found, .. }) if found == later.schema));
    fs::remove_file(&journal).expect("removed");

    fs::write(file(&run, "part-000001.parquet"), b"PAR1 no part PAR1").expect("written");
    let error = run.episodes().expect_err("no part");
    assert!(error.to_string().contains("part-000001.parquet"), "{error}");
}

#[test]
fn a_record_that_cannot_be_read_back_is_not_stored() {
    let (_folder, run) = run();
    let mut store = store(&run);
    let mut not_finite = record(0);
    not_finite.rewards = vec![f64::NAN];
    assert!(matches!(store.append(&not_finite), Err(StoreError::Unstorable(..))));
    fill(&mut store, 0..1);
    assert_holds(&run, 1);
}

#[test]
fn a_resumed_run_removes_episodes_after_its_checkpoint() {
    let (_folder, run) = run();
    let mut writer = store(&run);
    // 32 episodes per step: parts of one step, of one and a half, and a journal.
    for numbers in [0..32, 32..80, 80..128] {
        fill(&mut writer, numbers);
        writer.commit().expect("committed");
    }
    fill(&mut writer, 128..130);
    assert_eq!(
        writer.discard(|id| (id.stage, id.phase, id.step) >= (1, Phase::Train, 2)).expect("discarded"),
        130 - 64
    );
    assert_holds(&run, 64);
    assert_eq!(writer.discard(|id| (id.stage, id.phase, id.step) >= (1, Phase::Train, 2)).expect("again"), 0);
    let mut again = store(&run);
    fill(&mut again, 64..70);
    again.commit().expect("committed");
    assert_holds(&run, 70);
    assert_eq!(again.discard(|_| true).expect("all"), 70);
    assert!(Path::new(&file(&run, "")).read_dir().expect("listed").next().is_none());
}

#[test]
fn a_missing_episode_is_named_in_the_error() {
    let (_folder, run) = run();
    let error = store(&run).stored().read(id(7)).expect_err("not there");
    assert!(error.to_string().contains("`1.train.0.0.7.0`"), "{error}");
}

/// Forks of one episode, and a fork of a fork.
#[test]
fn a_shared_beginning_is_stored_once_and_restored() {
    let (_folder, run) = run();
    let mut store = store(&run);
    let mut parent = record(0);
    let column = |length: usize| (0..length as u32).collect::<Vec<u32>>();
    let segment = |length: usize, turn: u32| {
        let mut stream = Seed(u64::from(turn)).child("noise").stream();
        let tokens: Vec<u32> = (0..length).map(|_| stream.bits() as u32).collect();
        let columns = SegmentColumns {
            seat: 0,
            log_probs: tokens.iter().map(|token| -(*token as f32)).collect(),
            entropies: vec![-0.0; length],
            versions: column(length),
            turns: vec![turn; length],
            sampled: vec![true; length],
            tokens,
        };
        Segment::from_columns(columns).expect("columns of one length")
    };
    parent.segments = vec![segment(30_000, 0), segment(500, 1)];
    let fork = |parent: &gymkhana_record::EpisodeRecord, number: u64| {
        let mut fork = parent.clone();
        fork.id = id(number);
        fork.forks.push(Fork { parent: parent.id, turns: vec![1], seed: parent.seed });
        fork.segments[1] = segment(500, number as u32 + 2);
        fork.turns.extend(record(number).turns);
        fork
    };
    let child = fork(&parent, 1);
    let mut grandchild = fork(&child, 2);
    grandchild.segments.pop();
    // The parent's id is unknown: nothing is shared or lost.
    let mut orphan = fork(&parent, 3);
    orphan.forks[0].parent = id(99);
    let records = [parent, child, grandchild, orphan];
    let mut sizes = Vec::new();
    for wanted in [&records[..3], &records[3..]] {
        for record in wanted {
            assert!(store.append(record).expect("appended"));
        }
        let parts = store.commit().expect("committed");
        sizes.push(fs::metadata(&parts[0]).expect("a part").len());
    }
    let reader = run.reader().episodes().expect("the reader opens");
    for record in &records {
        let read = reader.read(record.id).expect("read");
        assert_eq!(format!("{read:?}"), format!("{record:?}"));
    }
    assert!(sizes[0] < sizes[1] * 3 / 2, "three episodes take {} bytes and one {}", sizes[0], sizes[1]);
}

/// The folder `golden/schema5` holds two episodes, the second a fork of the first, written by the host that wrote
/// records of schema 5: once as a journal and once as a part.
#[test]
fn episodes_of_schema_5_are_read_in_the_current_form() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schema5");
    for name in ["journal-000001.log", "part-000001.parquet"] {
        let (_folder, run) = run();
        drop(store(&run));
        fs::create_dir_all(file(&run, "")).expect("a folder");
        fs::copy(golden.join(name), file(&run, name)).expect("copied");
        let assert_translated = |run: &RunFolder| {
            let records: Vec<_> =
                run.reader().episodes().expect("opens").read_all().map(|read| read.expect(name)).collect();
            assert_eq!(records.len(), 2);
            for record in &records {
                assert_eq!((record.schema, record.ending), (EPISODE_SCHEMA, Ending::EarlyStopped));
                assert_eq!(record.segments.iter().map(Segment::seat).collect::<Vec<_>>(), [0, 1]);
                assert_eq!(record.segments[0].tokens(), [1, 2, 3, 4, 5]);
                assert_eq!(record.segments[0].log_probs(), [0.0, 0.0, 0.0, -0.5, -0.25]);
                assert_eq!(record.segments[1].versions(), [0, 4]);
                assert_eq!(record.rewards, [0.300_000_000_000_000_04]);
                let failed: Vec<&CallSite> = record.failures.iter().map(|failure| &failure.call_site).collect();
                let call = CallSite::tool("call-0");
                let expected =
                    [&CallSite::Step(2), &call, &CallSite::Score, &CallSite::Generate(1), &CallSite::StateKey(1)];
                assert_eq!(failed, expected);
                assert_eq!(record.failures[2].at, Boundary::Reward("judge".to_owned()));
                let asked: Vec<&CallSite> = record.exchanges.iter().map(|exchange| &exchange.call_site).collect();
                assert_eq!(asked, [&CallSite::Advise, &call, &CallSite::Scoring(1)]);
                let paid: Vec<&CallSite> = record.costs.iter().map(|cost| &cost.call_site).collect();
                let views = [&CallSite::Reset, &CallSite::Probe, &CallSite::Privileged, &CallSite::Guidance];
                assert_eq!(paid, [&views[..], &[&CallSite::FinalView, &CallSite::Scoring(0)]].concat());
                let scores: Vec<_> = record.policy_turns.iter().map(|turn| turn.probe_score).collect();
                assert_eq!(scores[0].and_then(|score| score.without), Some(-2.0));
                assert_eq!((scores[1], record.policy_turns[1].note.as_deref()), (None, Some("n")));
            }
            records
        };
        let read = assert_translated(&run);
        // A resumed run appends to the old journal and turns it into a part of the current schema.
        let mut writer = store(&run);
        fill(&mut writer, 40..41);
        writer.commit().expect("committed");
        let again: Vec<_> = run.reader().episodes().expect("opens").read_all().map(|read| read.expect(name)).collect();
        assert_eq!(again[..2], read);
        assert_eq!(again[2], record(40));
    }
}
