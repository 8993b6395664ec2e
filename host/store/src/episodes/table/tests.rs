//! Tables of runs whose episodes are in parts, in a journal, or in both.

use gymkhana_record::Fork;

use super::*;
use crate::common;
use crate::episodes::EpisodeStore;

fn stored(folder: &Path, numbers: std::ops::Range<u64>) -> EpisodeStore {
    let mut store = EpisodeStore::open(folder).unwrap();
    numbers.for_each(|number| assert!(store.append(&common::record(number)).unwrap()));
    store
}

fn assert_holds(table: &EpisodeTable, count: u64) {
    assert_eq!(table.len(), count as usize);
    for number in 0..count {
        let expected = common::record(number);
        let position = table.position(expected.id).unwrap();
        assert_eq!(table.row(position).unwrap().task, expected.task.index);
        // A record of each stretch, because each of them is a search in all columns.
        if number % 31 == 0 || number + 1 == count {
            assert_eq!(table.record(position).unwrap(), Some(expected), "episode {number}");
        }
    }
    assert_eq!((table.row(count as usize), table.record(count as usize).unwrap()), (None, None));
}

#[test]
fn records_of_parts_and_of_the_journal_are_read_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = stored(folder.path(), 0..300);
    store.commit().unwrap();
    (300..310).for_each(|number| assert!(store.append(&common::record(number)).unwrap()));
    let table = EpisodeTable::open(folder.path()).unwrap();
    assert_holds(&table, 310);
    // The rest moves into a part: each episode is still listed once, and the first part is not read again.
    store.commit().unwrap();
    let later = table.refreshed().unwrap();
    assert_holds(&later, 310);
    assert!(Arc::ptr_eq(&table.files[0], &later.files[0]));
}

#[test]
fn an_episode_in_a_part_and_in_a_journal_is_listed_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = stored(folder.path(), 0..3);
    let journal = fs::read(journal_path(folder.path(), 1)).unwrap();
    store.commit().unwrap();
    fs::write(journal_path(folder.path(), 1), journal).unwrap();
    assert_holds(&EpisodeTable::open(folder.path()).unwrap(), 3);
}

#[test]
fn outlines_keep_the_asked_order_and_have_no_segments() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = stored(folder.path(), 0..200);
    store.commit().unwrap();
    assert!(store.append(&common::record(200)).unwrap());
    let table = EpisodeTable::open(folder.path()).unwrap();
    let found = table.outlines(&[200, 7, 150, 999]).unwrap();
    let expected = [200, 7, 150].map(|number| (number as usize, outline(&common::record(number))));
    assert_eq!(found, expected);
}

#[test]
fn a_fork_is_read_with_the_beginning_that_its_parents_hold() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = stored(folder.path(), 0..1);
    let mut parent = common::record(0);
    let mut expected = vec![parent.clone()];
    for number in 1..3 {
        let mut child = EpisodeRecord { id: common::id(number), ..parent.clone() };
        child.forks = vec![Fork { parent: parent.id, turns: vec![1], seed: parent.seed }];
        child.turns.extend(common::record(9).turns);
        assert!(store.append(&child).unwrap());
        expected.push(child.clone());
        parent = child;
    }
    store.commit().unwrap();
    let table = EpisodeTable::open(folder.path()).unwrap();
    for (position, expected) in expected.into_iter().enumerate() {
        assert_eq!(table.record(position).unwrap(), Some(expected));
    }
}

#[test]
fn a_damaged_part_is_refused_and_a_changed_one_is_not_read_with_the_old_index() {
    let folder = tempfile::tempdir().unwrap();
    let parts = stored(folder.path(), 0..5).commit().unwrap();
    let table = EpisodeTable::open(folder.path()).unwrap();
    let mut bytes = fs::read(&parts[0]).unwrap();
    bytes[40] ^= 1;
    bytes.push(0);
    fs::write(&parts[0], bytes).unwrap();
    assert!(matches!(table.record(0), Err(StoreError::Parquet { .. })));
    assert!(matches!(table.refreshed(), Err(StoreError::Parquet { .. })));
}
