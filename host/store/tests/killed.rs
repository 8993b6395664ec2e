//! A writer that is killed at any moment, or meets a full disk, leaves every episode that it called stored.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use common::{id, record};
use gymkhana_record::Seed;
use gymkhana_store::{RunFolder, RunReader, StoreError};

const RUN_PATH: &str = "GYMKHANA_TEST_RUN";
const ROUNDS: u64 = 60;

/// The writer: goes on where the folder ends, says what is stored, and commits now and then.
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

/// This test program, to be run as the child on this folder.
fn child_arguments() -> [String; 5] {
    let program = std::env::current_exe().expect("this program").to_string_lossy().into_owned();
    [&program, "child_writes", "--exact", "--ignored", "--nocapture"].map(str::to_owned)
}

fn stored_number(line: &str) -> Option<u64> {
    line.strip_prefix("stored ")?.parse().ok()
}

/// Held while a folder is made and while a child starts: until it runs its program, a child holds whatever its parent
/// has open, the lock of another test's folder too.
static STARTING: Mutex<()> = Mutex::new(());

fn make_run(path: &Path) {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    drop(RunFolder::create(path, "").expect("made"));
}

fn start(command: &mut Command) -> Child {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.stdout(Stdio::piped()).spawn().expect("the child starts")
}

/// How many episodes the folder holds: the first ones, each once, each as it was.
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
fn a_killed_writer_loses_nothing_and_doubles_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    make_run(&path);
    let mut random = Seed(5).stream();
    let mut said = 0;
    for round in 0..ROUNDS {
        let [program, arguments @ ..] = child_arguments();
        let mut child = start(Command::new(program).args(arguments).env(RUN_PATH, &path));
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut left = random.below(20);
        let lines_said = |line: &String| stored_number(line).map(|number| number + 1);
        while left > 0 {
            let line = lines.next().expect("the child goes on").expect("text");
            if let Some(count) = lines_said(&line) {
                said = count;
                left -= 1;
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
        child.kill().expect("killed");
        for line in lines.map_while(Result::ok) {
            said = lines_said(&line).unwrap_or(said);
        }
        child.wait().expect("gone");
        let count = checked_count(&path);
        assert!(count == said || count == said + 1, "round {round}: {said} were said to be stored, {count} are");
        // A restart begins by saying the next number, so that one which was in flight and stored counts as said.
        said = count;
    }
    assert!(said > ROUNDS, "the writer got on");
}

#[test]
fn a_full_disk_is_named_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    make_run(&path);
    // A limit on the size of files stands for the disk's end: the write beyond it fails in the same place. The shell
    // counts in blocks of 512 or 1024 bytes.
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", script]).args(child_arguments()).env(RUN_PATH, &path).stderr(Stdio::piped());
    let output = start(shell).wait_with_output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "full"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let said = text.lines().filter_map(stored_number).count() as u64;
    assert!(said > 0);
    assert_eq!(checked_count(&path), said);
    let run = RunFolder::open_for_resume(&path).expect("resumed");
    let mut store = run.episodes().expect("opened");
    assert!(store.append(&record(said)).expect("space again"));
    store.commit().expect("space again");
    assert_eq!(checked_count(&path), said + 1);
}
