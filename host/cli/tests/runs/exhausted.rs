//! A read-only folder, too few descriptors and too few threads end a run in words; with what it needs, it succeeds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, finish, run_arguments};

/// Mounts a small read-only file system; false without the right to mount one.
fn mount_read_only(folder: &Path) -> bool {
    let mount = |more: &[&str]| Command::new("mount").args(more).arg(folder).output();
    let mounted = mount(&["-t", "tmpfs", "-o", "size=1m,ro", "tmpfs"]);
    mounted.is_ok_and(|output| output.status.success())
}

#[test]
fn a_read_only_folder_ends_a_run_at_its_start() {
    let desk = Desk::with_run_file(SMALL_RUN);
    fs::create_dir(desk.path("disk")).expect("a folder");
    if !mount_read_only(&desk.path("disk")) {
        #[allow(clippy::print_stderr, reason = "a test that is left out says why")]
        {
            eprintln!("left out: this user may not mount a file system");
        }
        return;
    }
    let told = desk.host(&["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", "disk/out"]);
    let unmounted = Command::new("umount").arg(desk.path("disk")).status();
    assert!(unmounted.is_ok_and(|status| status.success()), "the file system stays mounted");
    let told = told.mistake("a read-only folder");
    assert!(told.contains("`disk/out") && told.contains("Read-only file system"), "{told}");
    assert!(told.contains("hint: "), "{told}");
}

/// The run as a child of a shell with this many descriptors.
fn with_descriptors(desk: &Desk, number: u32) -> Command {
    let mut command = desk.command_of(Path::new("sh"), &[]);
    command.args(["-c", &format!("ulimit -n {number}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_host")]);
    command.args(run_arguments(WORD_PROBLEMS, &[]));
    command
}

/// A control group with a limit on threads.
struct ThreadLimit(PathBuf);

impl ThreadLimit {
    /// `None` without the right to make one.
    fn of(number: u32) -> Option<Self> {
        let name = format!("gymkhana-test-{}-{number}", std::process::id());
        ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].into_iter().find_map(|parent| {
            let group = Self(Path::new(parent).join(&name));
            fs::create_dir(&group.0).ok()?;
            let limit = group.0.join("pids.max");
            (limit.exists() && fs::write(limit, number.to_string()).is_ok()).then_some(group)
        })
    }

    /// The run as a process of the group.
    fn run(&self, desk: &Desk) -> Command {
        let mut command = desk.command_of(Path::new("sh"), &[]);
        let enter = format!("echo $$ > {} && exec \"$@\"", self.0.join("cgroup.procs").display());
        command.args(["-c", &enter, "sh", env!("CARGO_BIN_EXE_host")]).args(run_arguments(WORD_PROBLEMS, &[]));
        command
    }
}

impl Drop for ThreadLimit {
    fn drop(&mut self) {
        // Processes of the group end soon after the run.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn too_few_threads_end_a_run_in_words() {
    for number in [2, 4, 8, 12, 16, 24, 32] {
        let Some(limit) = ThreadLimit::of(number) else {
            #[allow(clippy::print_stderr, reason = "a test that is left out says why")]
            {
                eprintln!("left out: this user may not make a control group");
            }
            return;
        };
        let desk = Desk::with_run_file(SMALL_RUN);
        let outcome = finish(&mut limit.run(&desk));
        if outcome.code == Some(0) {
            continue;
        }
        assert!(matches!(outcome.code, Some(1 | 2)), "{number}: {outcome:?}");
        assert_eq!(outcome.talk.matches("error: ").count(), 1, "{number}: {}", outcome.talk);
        assert!(outcome.talk.contains("Resource temporarily unavailable"), "{number}: {}", outcome.talk);
        assert!(!outcome.talk.contains("panicked"), "{number}: {}", outcome.talk);
    }
}

#[test]
fn too_few_descriptors_end_a_run_in_words() {
    for number in [12, 16, 20, 24, 32] {
        let desk = Desk::with_run_file(SMALL_RUN);
        let outcome = finish(&mut with_descriptors(&desk, number));
        if outcome.code == Some(0) {
            continue;
        }
        assert!(matches!(outcome.code, Some(1 | 2)), "{number}: {outcome:?}");
        assert_eq!(outcome.talk.matches("error: ").count(), 1, "{number}: {}", outcome.talk);
        assert!(outcome.talk.contains("Too many open files"), "{number}: {}", outcome.talk);
        assert!(!outcome.talk.contains("panicked"), "{number}: {}", outcome.talk);
    }
}
