//! The processes of PyTorch: `torchrun`, its socket, its last words and its end.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use gymkhana_keeper::{Captured, Keeper, die_with_the_host};
use gymkhana_waits::{Counterpart, within};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};

use crate::error::{EngineEnd, TorchError};
use crate::{TorchDevice, TorchSettings};

/// Bytes of the processes' output that are kept, from its end.
const KEPT_OUTPUT: usize = 16 << 10;
/// Lines of the output that an error shows.
const SHOWN_LINES: usize = 12;
/// Time in which killed processes end.
const LAST: Duration = Duration::from_secs(10);
/// Module of the processes.
const MODULE: &str = "gymkhana_rl.torch";

/// Running processes. They are killed, with all that they started, when this is dropped.
pub(crate) struct Processes {
    stop: Option<oneshot::Sender<()>>,
    ended: watch::Receiver<Option<EngineEnd>>,
}

impl Processes {
    /// Starts the processes; returns them with the socket of rank 0.
    pub async fn start(settings: &TorchSettings) -> Result<(Self, UnixStream), TorchError> {
        let failed = |source| TorchError::Start { python: settings.python.clone(), source };
        let keeper = Keeper::start().map_err(failed)?;
        let folder = keeper.program_folder().map_err(failed)?;
        let listener = UnixListener::bind(folder.path().join("socket")).map_err(failed)?;
        let mut command = command(settings, folder.path());
        let mut child = command.spawn().map_err(failed)?;
        let output = Captured::end(KEPT_OUTPUT);
        output.read(child.stdout.take());
        output.read(child.stderr.take());
        let ((stop, stopped), (end, ended)) = (oneshot::channel(), watch::channel(None));
        let program = Launched { keeper, folder, child, output };
        tokio::spawn(async move { drop(end.send(Some(program.until_end(stopped).await))) });
        let mut processes = Self { stop: Some(stop), ended };
        let accepted = within(Counterpart::Torch, settings.start, async {
            tokio::select! {
                stream = listener.accept() => stream.map(|(stream, _)| stream).map_err(failed),
                end = processes.end() => Err(TorchError::Ended(end)),
            }
        });
        match accepted.await {
            Ok(stream) => Ok((processes, stream?)),
            Err(silent) => Err(TorchError::Ended(processes.kill(Some(silent.to_string())).await)),
        }
    }

    /// Waits for the processes' end, and returns its reason.
    pub async fn end(&mut self) -> EngineEnd {
        match self.ended.wait_for(Option::is_some).await.map(|end| end.clone()) {
            Ok(Some(ended)) => ended,
            _ => EngineEnd { why: "its processes are gone".to_owned(), fix: fix("") },
        }
    }

    /// Ends the processes. `why` is the reason if they did not end by themselves.
    pub async fn kill(&mut self, why: Option<String>) -> EngineEnd {
        drop(self.stop.take());
        let ended = self.end().await;
        why.map_or(ended.clone(), |why| EngineEnd { why: format!("{why}{}", tail(&ended.why)), ..ended })
    }
}

/// The part of a reason with the processes' output.
fn tail(why: &str) -> &str {
    why.find('\n').map_or("", |from| &why[from..])
}

/// What belongs to the processes until their end.
struct Launched {
    keeper: Keeper,
    folder: TempDir,
    child: Child,
    output: Captured,
}

impl Launched {
    /// Waits until the processes end, or are to be ended, and kills what is left of them.
    async fn until_end(mut self, stopped: oneshot::Receiver<()>) -> EngineEnd {
        let kept = self.child.id().and_then(|id| self.keeper.keep(id, self.folder.path()));
        let status = tokio::select! {
            status = self.child.wait() => Some(status),
            _ = stopped => None,
        };
        drop(kept);
        let _ = within(Counterpart::Torch, LAST, self.child.wait()).await;
        let output = String::from_utf8_lossy(&self.output.take()).into_owned();
        reason(status, first_failure(self.folder.path()), &output)
    }
}

/// Last words of a rank.
#[derive(Debug, Deserialize)]
struct RankFailure {
    kind: String,
    text: String,
    rank: u32,
}

/// The failure that a rank wrote, of the lowest rank.
fn first_failure(folder: &Path) -> Option<RankFailure> {
    let files = std::fs::read_dir(folder.join("errors")).ok()?;
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    paths.iter().find_map(|path| serde_json::from_slice(&std::fs::read(path).ok()?).ok())
}

/// Why the processes ended.
fn reason(status: Option<io::Result<ExitStatus>>, failure: Option<RankFailure>, output: &str) -> EngineEnd {
    let lines: Vec<&str> = output.lines().collect();
    let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
    let shown = if shown.is_empty() { String::new() } else { format!("\n{shown}") };
    if let Some(RankFailure { kind, text, rank }) = failure {
        return EngineEnd { why: format!("rank {rank} failed ({}): {text}", kind.replace('_', " ")), fix: fix(&kind) };
    }
    let why = match status {
        None => "it was ended".to_owned(),
        Some(Ok(status)) => format!("its processes ended ({status})"),
        Some(Err(error)) => format!("its processes cannot be waited for: {error}"),
    };
    let no_module = shown.contains(&format!("No module named {MODULE}")) || shown.contains("No module named 'torch");
    EngineEnd { why: why + &shown, fix: fix(if no_module { "no_module" } else { "" }) }
}

/// What to do about a failure of a kind.
fn fix(kind: &str) -> String {
    let fix = match kind {
        "out_of_memory" => {
            "lower policy.micro_batch_tokens, set policy.activation_checkpointing, or raise trainer.processes; \
                            then use --resume"
        }
        "no_module" => "set trainer.python to a Python with `gymkhana-rl[torch]`",
        _ => "repair what the output names, then use --resume",
    };
    fix.to_owned()
}

/// The command of `torchrun`.
fn command(settings: &TorchSettings, folder: &Path) -> Command {
    let mut command = Command::new(&settings.python);
    command.args(["-m", "torch.distributed.run", "--standalone", "--max-restarts", "0", "--nproc-per-node"]);
    command.arg(settings.processes.to_string()).args(["-m", MODULE, "--socket"]);
    command.arg(folder.join("socket")).arg("--errors").arg(folder.join("errors"));
    command.env("TMPDIR", folder).env("HF_HUB_OFFLINE", "1").env("PYTHONUNBUFFERED", "1");
    if let Some(paths) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", without_libtorch(&paths));
    }
    if settings.device == TorchDevice::Cpu {
        command.env("CUDA_VISIBLE_DEVICES", "");
    }
    command.env("OMP_NUM_THREADS", settings.threads.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    die_with_the_host(command.as_std_mut());
    command
}

/// A search path without the folders of this program's own libtorch, which Python's must not load.
fn without_libtorch(paths: &OsString) -> OsString {
    let kept = std::env::split_paths(paths).filter(|folder| !folder.join("libtorch_cpu.so").exists());
    // Folders that were split at the separator hold none.
    std::env::join_paths(kept).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_reason_names_the_rank_or_shows_the_output() {
        let ended = |failure, output| reason(Some(Ok(ExitStatus::from_raw(256))), failure, output).to_string();
        let failure = RankFailure { kind: "out_of_memory".to_owned(), text: "2 GiB".to_owned(), rank: 3 };
        let named = ended(Some(failure), "much");
        assert!(
            named.starts_with("PyTorch cannot go on: rank 3 failed (out of memory): 2 GiB\nhint: lower policy."),
            "{named}"
        );
        let shown = ended(None, "first\nlast");
        assert!(shown.contains("its processes ended (exit status: 1)\nfirst\nlast\nhint: repair"), "{shown}");
        let module = ended(None, "/usr/bin/python3: No module named gymkhana_rl.torch");
        assert!(module.ends_with("hint: set trainer.python to a Python with `gymkhana-rl[torch]`"), "{module}");
    }

    #[test]
    fn folders_with_another_libtorch_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libtorch_cpu.so"), "").unwrap();
        let paths = std::env::join_paths([folder.path(), Path::new("/usr/lib")]).unwrap();
        assert_eq!(without_libtorch(&paths), OsString::from("/usr/lib"));
    }
}
