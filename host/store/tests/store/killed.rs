//! A writer that is killed at any moment, or meets a full disk, keeps every episode that it reported as stored.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::common::{id, record};
use gymkhana_record::Seed;
use gymkhana_store::{RunFolder, RunReader, StoreError};

const RUN_PATH: &str = "GYMKHANA_TEST_RUN";
const ROUNDS: u64 = 60;

/// The writer: continues at the end of the folder, reports what is stored, and commits at intervals.
#[test]
#[ignore = "run, and killed, by the tests below"]
fn child_writes() {
    let path = std::env::var_os(RUN_PATH).expect("set by the parent");
    let run = RunFolder::open_for_resume(Path::new(&path)).expect("resumed");
    let mut store = run.episodes().expect("opened");
    let mut random = Seed(store.stored().len() as u64).child("commits").stream();
    let mut out = std::io::stdout();
    // Ends the line that the test runner may have begun.
    writeln!(out).expect("the parent listens");
    for number in store.stored().len() as u64.. {
        match store.append(&record(number)) {
            Ok(new) => assert!(new, "episode {number} was stored before"),
            Err(StoreError::Full { .. }) => return writeln!(out, "full").expect("the parent listens"),
            Err(other) => panic!("episode {number}: {other}"),
        }
        writeln!(out, "stored {number}").expect("the parent listens");
        if random.below(7) == 0 {
            match store.commit() {
                Ok(_) => {}
                Err(StoreError::Full { .. }) => return writeln!(out, "full").expect("the parent listens"),
                Err(other) => panic!("commit after {number}: {other}"),
            }
        }
    }
}

/// Arguments that run this test program as the child on this folder.
fn child_arguments() -> [String; 5] {
    let program = std::env::current_exe().expect("this program").to_string_lossy().into_owned();
    [&program, "killed::child_writes", "--exact", "--ignored", "--nocapture"].map(str::to_owned)
}

fn stored_number(line: &str) -> Option<u64> {
    line.strip_prefix("stored ")?.parse().ok()
}

/// Held while a folder is created and while a child starts. Until a child runs its program, it has inherited the open
/// files of its parent, including the lock of another test's folder.
static STARTING: Mutex<()> = Mutex::new(());

fn make_run(path: &Path) {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    drop(RunFolder::create(path, "").expect("made"));
}

fn start(command: &mut Command) -> Child {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.stdout(Stdio::piped()).spawn().expect("the child starts")
}

/// Number of episodes in the folder, after checking that they are the first ones, each once and unchanged.
fn checked_count(path: &Path) -> u64 {
    let reader = RunReader::open(path).expect("a run").episodes().expect("the reader opens");
    let ids = reader.ids();
    let count = ids.len() as u64;
    assert_eq!(ids, (0..count).map(id).collect::<Vec<_>>());
    let mut read: Vec<_> = reader.read_all().map(|record| record.expect("readable")).collect();
    read.sort_by_key(|record| record.id);
    assert_eq!(read, (0..count).map(record).collect::<Vec<_>>());
    count
}

#[test]
fn a_killed_writer_loses_and_duplicates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    make_run(&path);
    let mut random = Seed(5).stream();
    let mut reported = 0;
    for round in 0..ROUNDS {
        let [program, arguments @ ..] = child_arguments();
        let mut child = start(Command::new(program).args(arguments).env(RUN_PATH, &path));
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut left = random.below(20);
        let reported_by = |line: &String| stored_number(line).map(|number| number + 1);
        while left > 0 {
            let line = lines.next().expect("the child goes on").expect("text");
            if let Some(count) = reported_by(&line) {
                reported = count;
                left -= 1;
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
        child.kill().expect("killed");
        for line in lines.map_while(Result::ok) {
            reported = reported_by(&line).unwrap_or(reported);
        }
        child.wait().expect("gone");
        let count = checked_count(&path);
        assert!(
            count == reported || count == reported + 1,
            "round {round}: {reported} were reported as stored, {count} are"
        );
        // The next child reports the number after the last stored one, so an unreported stored episode counts now.
        reported = count;
    }
    assert!(reported > ROUNDS, "the writer made progress");
}

#[test]
fn a_full_disk_is_named_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    make_run(&path);
    // A limit on the size of files replaces a full disk: the write beyond it fails at the same point. The shell counts
    // in blocks of 512 or 1024 bytes.
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", script]).args(child_arguments()).env(RUN_PATH, &path).stderr(Stdio::piped());
    let output = start(shell).wait_with_output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "full"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let reported = text.lines().filter_map(stored_number).count() as u64;
    assert!(reported > 0);
    assert_eq!(checked_count(&path), reported);
    let run = RunFolder::open_for_resume(&path).expect("resumed");
    let mut store = run.episodes().expect("opened");
    assert!(store.append(&record(reported)).expect("space again"));
    store.commit().expect("space again");
    assert_eq!(checked_count(&path), reported + 1);
}
