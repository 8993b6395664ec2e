//! Errors of commands: those of a run, with the exit codes of a process.

pub use gymkhana_run::{Classify, ErrorKind, RunError as CliError, RunResult as CliResult};

/// Exit code for an error: 2 where the user can fix it, 1 where this program is at fault.
pub fn exit_code(error: &CliError) -> u8 {
    match error.kind() {
        ErrorKind::User => 2,
        ErrorKind::Internal => 1,
    }
}
