//! The agent program: one process group for each episode, with a restricted environment and bounded output.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_keeper::{Captured, Keeper, die_with_the_host, hide_memory};
use gymkhana_waits::{Counterpart, within};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Bytes of standard output that a program may write.
pub const MAX_OUTPUT: usize = 1 << 20;
/// Bytes of standard error that are kept, from its end.
const KEPT_STDERR: usize = 4 << 10;
/// Time in which output is read after the end of the program, when other processes hold its pipes.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// Variables of the host that a program sees without a grant: no keys and no tokens.
const PASSED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV"];

/// A program and its grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Further variables of the host's environment that the program sees.
    pub env: Vec<String>,
}

/// Inputs of one start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Variables of this episode.
    pub variables: Vec<(String, String)>,
    /// The task, for standard input and for the file that `GYMKHANA_TASK` names.
    pub task: String,
}

/// The end of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Exit status; none if a signal ended the program.
    pub status: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// Standard output.
    pub output: Vec<u8>,
    /// Whether standard output exceeded [`MAX_OUTPUT`].
    pub overflowed: bool,
    /// End of standard error.
    pub stderr: String,
}

/// The program has no end of its own.
#[derive(Debug, thiserror::Error)]
pub enum ProgramStartError {
    /// It does not start.
    #[error("`{program}` does not start: {source}")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// The host or the harness stopped it.
    #[error("{0}")]
    Stopped(String),
}

/// A running program. Dropping it kills the process group.
pub struct RunningProgram(JoinHandle<Result<ProgramEnd, ProgramStartError>>);

impl RunningProgram {
    /// Starts a program on a runtime that serves input and output.
    pub(crate) fn start(runtime: &Handle, keeper: Arc<Keeper>, program: AgentProgram, launch: Launch) -> Self {
        Self(runtime.spawn(async move { run(&keeper, program, launch).await }))
    }

    /// A program that does not start.
    pub(crate) fn failed(runtime: &Handle, program: &AgentProgram, source: io::Error) -> Self {
        let program = program.command.first().cloned().unwrap_or_default();
        Self(runtime.spawn(async move { Err(ProgramStartError::Start { program, source }) }))
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If the program does not start.
    pub async fn ended(&mut self) -> Result<ProgramEnd, ProgramStartError> {
        let ended = (&mut self.0).await;
        ended.unwrap_or_else(|error| {
            Err(ProgramStartError::Start { program: "the agent program".to_owned(), source: io::Error::other(error) })
        })
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(keeper: &Keeper, program: AgentProgram, launch: Launch) -> Result<ProgramEnd, ProgramStartError> {
    let name = program.command.first().cloned().unwrap_or_default();
    let failed = |source| ProgramStartError::Start { program: name.clone(), source };
    let folder = keeper.program_folder().map_err(failed)?;
    let task = folder.path().join("task.json");
    std::fs::write(&task, &launch.task).map_err(failed)?;
    let mut command = Command::new(&name);
    command.args(program.command.iter().skip(1)).env_clear();
    command.envs(granted(&program.env)).envs(launch.variables).env("GYMKHANA_TASK", &task);
    command.env("TMPDIR", folder.path()).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    die_with_the_host(command.as_std_mut());
    hide_memory();
    let mut child = command.spawn().map_err(failed)?;
    let kept = child.id().and_then(|id| keeper.keep(id, folder.path()));
    feed(&mut child, launch.task);
    let (output, stderr) = (Captured::beginning(MAX_OUTPUT + 1), Captured::end(KEPT_STDERR));
    let readers = [output.read(child.stdout.take()), stderr.read(child.stderr.take())];
    let status = child.wait().await.map_err(failed)?;
    drop(kept);
    for reader in readers {
        // A process that left the group may hold the pipe.
        let _ = within(Counterpart::AgentProgram, LAST_OUTPUT, reader).await;
    }
    let mut output = output.take();
    let overflowed = output.len() > MAX_OUTPUT;
    output.truncate(MAX_OUTPUT);
    let stderr = String::from_utf8_lossy(&stderr.take()).into_owned();
    Ok(ProgramEnd { status: status.code(), signal: status.signal(), output, overflowed, stderr })
}

/// The variables of the host that a program sees.
fn granted(names: &[String]) -> impl Iterator<Item = (String, OsString)> {
    let names = PASSED.iter().map(|name| (*name).to_owned()).chain(names.iter().cloned());
    names.filter_map(|name| std::env::var_os(&name).map(|value| (name, value)))
}

/// Writes the task to the program's standard input, and closes it.
fn feed(child: &mut Child, task: String) {
    if let Some(mut stdin) = child.stdin.take() {
        // A program that reads the file or nothing closes the pipe.
        tokio::spawn(async move { drop(stdin.write_all(task.as_bytes()).await) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn played(script: &str) -> ProgramEnd {
        let program = AgentProgram { command: ["sh", "-c", script].map(str::to_owned).to_vec(), env: vec![] };
        let variables = vec![("OPENAI_MODEL".to_owned(), "policy".to_owned())];
        let launch = Launch { variables, task: "{\"task\":1}".to_owned() };
        RunningProgram::start(&Handle::current(), Arc::new(Keeper::start().unwrap()), program, launch)
            .ended()
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn the_task_comes_on_standard_input_and_in_a_file() {
        let end = played("cat; cat \"$GYMKHANA_TASK\"; echo \"$OPENAI_MODEL\"; echo why >&2; exit 3").await;
        assert_eq!(String::from_utf8(end.output).unwrap(), "{\"task\":1}{\"task\":1}policy\n");
        assert_eq!((end.status, end.signal, end.overflowed, end.stderr.as_str()), (Some(3), None, false, "why\n"));
    }

    #[tokio::test]
    async fn output_is_bounded_and_children_of_the_program_end_with_it() {
        let end = played("sleep 60 & head -c 3000000 /dev/zero; kill -9 $$").await;
        assert_eq!((end.status, end.signal, end.overflowed, end.output.len()), (None, Some(9), true, MAX_OUTPUT));
    }

    #[tokio::test]
    async fn a_dropped_program_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let alive = folder.path().join("alive");
        let script = format!("(while :; do echo . >> {0}; sleep 0.02; done) & wait", alive.display());
        let program = AgentProgram { command: ["sh", "-c", &script].map(str::to_owned).to_vec(), env: vec![] };
        let launch = Launch { variables: vec![], task: String::new() };
        let running = RunningProgram::start(&Handle::current(), Arc::new(Keeper::start().unwrap()), program, launch);
        while !alive.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(running);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let length = std::fs::metadata(&alive).unwrap().len();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(std::fs::metadata(&alive).unwrap().len(), length);
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let program = AgentProgram { command: vec!["no-such-agent".to_owned()], env: vec![] };
        let launch = Launch { variables: vec![], task: String::new() };
        let error = RunningProgram::start(&Handle::current(), Arc::new(Keeper::start().unwrap()), program, launch)
            .ended()
            .await
            .unwrap_err();
        assert!(error.to_string().starts_with("`no-such-agent` does not start: "), "{error}");
    }
}
