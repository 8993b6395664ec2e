//! Groups, processes that left them, and folders, with real processes.

use std::time::{Duration, Instant};

use super::*;

/// A program of a keeper: a shell with a child, each in the folder's environment.
struct Program {
    shell: Child,
    group: Pid,
    folder: TempDir,
    /// File that the child writes to.
    beat: PathBuf,
}

impl Program {
    /// Starts the child by a prefix, such as `setsid`, which makes it leave the group.
    fn start(keeper: &Keeper, prefix: &str, beats: &Path, name: &str) -> Self {
        let (folder, beat) = (keeper.program_folder().unwrap(), beats.join(name));
        let beats = format!("while :; do echo . >> {}; sleep 0.02; done", beat.display());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{prefix} sh -c '{beats}' & wait")]);
        let shell = command.env("TMPDIR", folder.path()).process_group(0).spawn().unwrap();
        let group = Pid::from_raw(shell.id().cast_signed()).unwrap();
        let program = Self { shell, group, folder, beat };
        wait_until("the child writes", || length(&program.beat) > 0);
        program
    }

    fn keep<'k>(&self, keeper: &'k Keeper) -> KeptProgram<'k> {
        keeper.keep(self.shell.id(), self.folder.path()).unwrap()
    }

    /// Whether the child lives.
    fn writes(&self) -> bool {
        let before = length(&self.beat);
        std::thread::sleep(Duration::from_millis(300));
        length(&self.beat) > before
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        strays::kill(self.folder.path());
        let _ = self.shell.wait();
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(20), "not in 20 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ways in which a child leaves the group of its program, and the one in which it stays.
const PREFIXES: [&str; 4] = ["", "setsid", "nohup setsid -f", "env -i TMPDIR=\"$TMPDIR\" PATH=\"$PATH\" setsid"];

#[test]
fn a_program_ends_with_its_guard_and_others_stay() {
    let (keeper, beats) = (Keeper::start().unwrap(), tempfile::tempdir().unwrap());
    let other = Program::start(&keeper, "setsid", beats.path(), "other");
    for (number, prefix) in PREFIXES.iter().enumerate() {
        let program = Program::start(&keeper, prefix, beats.path(), &number.to_string());
        let kept = program.keep(&keeper);
        assert!(program.writes(), "{prefix}");
        drop(kept);
        assert!(!program.writes(), "{prefix}");
        assert!(other.writes(), "{prefix}");
    }
}

#[test]
fn programs_and_folders_end_with_the_host_and_others_stay() {
    let (keeper, beats) = (Keeper::start().unwrap(), tempfile::tempdir().unwrap());
    let foreign = Keeper::start().unwrap();
    let other = Program::start(&foreign, "setsid", beats.path(), "other");
    // A group that has ended in the eyes of the host is not killed by its number.
    keeper.tell('+', other.group);
    keeper.tell('-', other.group);
    let start = |(number, prefix): (usize, &&str)| Program::start(&keeper, prefix, beats.path(), &number.to_string());
    let programs: Vec<Program> = PREFIXES.iter().enumerate().map(start).collect();
    programs.iter().for_each(|program| std::mem::forget(program.keep(&keeper)));
    assert!(programs.iter().all(Program::writes));
    let folder = keeper.folder.path().to_owned();
    fs::write(programs[0].folder.path().join("task.json"), "{}").unwrap();
    // The host's death closes the pipe, and runs none of its code.
    keeper.watcher.lock().unwrap().input = None;
    wait_until("the folder is gone", || !folder.exists());
    let living: Vec<&str> = programs.iter().zip(PREFIXES).filter(|(own, _)| own.writes()).map(|(_, how)| how).collect();
    assert_eq!(living, [""; 0]);
    assert!(other.writes());
}

/// The process is stopped by a signal, and would never read the end of its input.
#[test]
fn a_stopped_watcher_does_not_keep_its_host() {
    let keeper = Keeper::start().unwrap();
    let (folder, id) = (keeper.folder.path().to_owned(), keeper.watcher.lock().unwrap().process.id());
    rustix::process::kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::STOP).unwrap();
    let since = Instant::now();
    drop(keeper);
    assert!((LAST_PROGRAMS..3 * LAST_PROGRAMS).contains(&since.elapsed()), "{:?}", since.elapsed());
    assert!(!folder.exists() && !Path::new("/proc").join(id.to_string()).exists());
}

#[test]
fn folders_that_no_host_holds_are_removed() {
    let parent = tempfile::tempdir().unwrap();
    let folder = |name: &str, lock: bool| {
        let path = parent.path().join(name);
        fs::create_dir(&path).unwrap();
        lock.then(|| File::create(path.join(LOCK)).unwrap())
    };
    let held = folder("gymkhana-programs-held", true).unwrap();
    held.lock().unwrap();
    folder("gymkhana-programs-left", true);
    folder("gymkhana-programs-strange", false);
    folder("other", true);
    std::os::unix::fs::symlink(parent.path().join("other"), parent.path().join("gymkhana-programs-link")).unwrap();
    remove_left(parent.path());
    let mut names: Vec<_> =
        fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["gymkhana-programs-held", "gymkhana-programs-link", "gymkhana-programs-strange", "other"]);
}
