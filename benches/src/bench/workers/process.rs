//! Processes of the program `host`, and their processor time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gymkhana_benches::figures::root;

/// Time that a process has to reach a state or to end.
const PATIENCE: Duration = Duration::from_secs(900);

/// The program: that of the build, or the one that `GYMKHANA_HOST` names.
pub fn program() -> PathBuf {
    std::env::var_os("GYMKHANA_HOST").map_or_else(|| root().join("target/release/host"), PathBuf::from)
}

/// Processor time of all threads of a process in seconds, with the resolution of the system's clock ticks.
pub fn processor_seconds(process: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = text.rsplit_once(')').context("the program's name is in parentheses")?;
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    // The system reports hundredths of a second to programs.
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// A process that is killed if it still runs when this is dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `host` in `folder`, whose file `NAME.log` gets its messages. All processes share the caches below `shared`.
    pub fn start(name: &str, arguments: &[&str], folder: &Path, shared: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let program = program();
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(folder).env("XDG_CACHE_HOME", shared.join("caches"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&log)?);
        let child = command.spawn().with_context(|| format!("`{}` does not start", program.display()))?;
        Ok(Self { child, log })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the condition holds; the process must not end before.
    pub fn wait_until(&mut self, mut reached: impl FnMut() -> Result<bool>) -> Result<()> {
        let since = Instant::now();
        while !reached()? {
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none() && since.elapsed() < PATIENCE, "the program did not get there: {}", self.talk());
            std::thread::sleep(Duration::from_millis(4));
        }
        Ok(())
    }

    /// Waits for a success.
    pub fn finish(mut self) -> Result<()> {
        let status: ExitStatus = self.child.wait()?;
        ensure!(status.success(), "the program failed ({status}): {}", self.talk());
        Ok(())
    }

    /// Its messages so far.
    pub fn talk(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
