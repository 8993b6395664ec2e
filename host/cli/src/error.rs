//! Errors of commands: those of a run, with exit codes.

pub use gymkhana_orchestration::{Classify, RunError as CliError, RunErrorKind, RunResult as CliResult};

/// Exit code of an error: 2 if the user can fix it, 1 for an internal error.
pub fn exit_code(error: &CliError) -> u8 {
    match error.kind() {
        RunErrorKind::User => 2,
        RunErrorKind::Internal => 1,
    }
}
