//! Clocks of programs that a test sets, by a library that is loaded before the C library.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The clocks of some programs.
pub struct Clocks(tempfile::TempDir);

impl Clocks {
    /// Clocks that show the time. The library is built by the compiler that links the tests.
    pub fn new() -> Self {
        let clocks = Self(tempfile::tempdir().expect("a temporary folder"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/clock.c");
        let mut build = Command::new("cc");
        build.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clocks.library()).arg(source);
        assert!(build.status().expect("a compiler").success(), "`cc` cannot build {source}");
        clocks.set(0, 0);
        clocks
    }

    fn library(&self) -> PathBuf {
        self.0.path().join("clock.so")
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("offsets")
    }

    /// Sets the seconds by which the wall clock, and the clock of waits, are ahead. The latter must not go back.
    pub fn set(&self, wall: i64, waits: i64) {
        let new = self.0.path().join("new");
        fs::write(&new, format!("{wall} {waits}\n")).expect("a file can be written");
        fs::rename(new, self.file()).expect("a file can be renamed");
    }

    /// The command with these clocks.
    pub fn of(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", self.library()).env("GYMKHANA_TEST_CLOCK", self.file());
        command
    }
}
