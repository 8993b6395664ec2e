//! A read-only folder and too few descriptors end a run in words, with exit code 2; with what it needs, it succeeds.

use std::fs;
use std::path::Path;
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
