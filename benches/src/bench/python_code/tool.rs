//! Cost of the Python tool compared with a subprocess and ipykernel, memory of a live session, and response to attacks.
//!
//! The bench runs the same line in a warm session, in a new session, in a subprocess and in a warm ipykernel, in turn.
//! For each attack it prints the time until the call ends and the longest call of another session meanwhile.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{load, median, microseconds, print, print_in, root};
use gymkhana_record::{Call, Seed};
use gymkhana_sandbox::{Limits, Plugin, Sandbox, SandboxConfig, ToolOutput, ToolSession};
use serde_json::json;

/// The line that other systems were measured with.
const LINE: &str = "print(6*7)";
const ROUNDS: usize = 101;
/// Consecutive calls of a warm session: the alternating measurements of other systems evict the processor's caches.
const WARM_CALLS: u32 = 50;
/// Fewer rounds, because a subprocess takes milliseconds.
const SLOW_ROUNDS: usize = 21;
const LIVE: u32 = 100;

/// Attacks that succeeded on other systems, each with the required outcome: an answer, or an end by the sandbox.
const ATTACKS: [(&str, &str); 8] = [
    ("read a host file", "open('/etc/passwd').read()"),
    ("write a host file", "import io; io.FileIO('/tmp/gymkhana', 'w')"),
    ("os.system by a disguised name", "import os; getattr(os, 'sys' + 'tem')('id')"),
    ("kill the interpreter", "import os; os._exit(0)"),
    ("10**30000000", "10**30000000"),
    ("allocate 4 GiB", "[0] * (1 << 30)"),
    ("endless loop", "while True: pass"),
    ("endless output", "while True: print('a' * 1000)"),
];

/// Memory of an interpreter. CPython with SymPy begins with 72 MiB.
const MEMORY: usize = 136 << 20;

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    runtime.block_on(async {
        let limits = Limits { budget: Duration::from_secs(1), memory_bytes: MEMORY, ..Limits::default() };
        let sandbox =
            Sandbox::new(&SandboxConfig { max_instances: Some(2 * LIVE + 16), limits, ..Default::default() })?;
        let plugin = load(&sandbox, "python")?;
        times(&plugin, effort).await?;
        memory(&plugin, effort.pick(LIVE, 2)).await?;
        attacks(&plugin).await
    })
}

/// Python that `cargo xtask bench tools` installed.
fn python() -> PathBuf {
    root().join(".tools/ipykernel/bin/python")
}

fn call(code: &str) -> Call {
    Call { id: String::new(), name: "python".to_owned(), arguments: json!({ "code": code }).to_string() }
}

async fn open(plugin: &Plugin, seed: u32) -> Result<ToolSession> {
    Ok(ToolSession::open(plugin, None, &[], Seed(seed.into())).await?)
}

/// A warm call, a fresh session, and a fresh session with its first call, alternating with the other systems.
async fn times(plugin: &Plugin, effort: Effort) -> Result<()> {
    let mut kernel = Kernel::start()?;
    let mut session = open(plugin, 0).await?;
    let line = call(LINE);
    let (mut warm, mut fresh, mut first) = (Vec::new(), Vec::new(), Vec::new());
    let (mut subprocesses, mut kernels) = (Vec::new(), Vec::new());
    for round in 0..effort.pick(ROUNDS, 1) {
        let started = Instant::now();
        for _ in 0..WARM_CALLS {
            check(&session.call(&line).await?)?;
        }
        warm.push(microseconds(started) / f64::from(WARM_CALLS));
        let started = Instant::now();
        let mut new = open(plugin, 1).await?;
        fresh.push(microseconds(started));
        check(&new.call(&line).await?)?;
        first.push(microseconds(started));
        drop(new);
        let started = Instant::now();
        kernel.run(LINE)?;
        kernels.push(microseconds(started));
        if round < SLOW_ROUNDS {
            let started = Instant::now();
            let output = Command::new(python()).args(["-c", LINE]).output()?;
            ensure!(output.stdout == b"42\n", "python3 says {output:?}");
            subprocesses.push(microseconds(started));
        }
    }
    print("python-warm-call", median(warm), "warm ipykernel", median(kernels));
    print("python-fresh-session", median(fresh), "python3 -c", median(subprocesses.clone()));
    print("python-fresh-session-and-call", median(first), "python3 -c", median(subprocesses));
    Ok(())
}

fn check(answer: &ToolOutput) -> Result<()> {
    let said = gymkhana_record::text_of(&answer.content);
    ensure!(!answer.failed && said == "42", "the tool says {said}");
    Ok(())
}

/// Memory of a live session that ran a line, compared with a warm ipykernel.
async fn memory(plugin: &Plugin, live: u32) -> Result<()> {
    let kernel = Kernel::start()?;
    let theirs = private_bytes(kernel.pid)?;
    let mut sessions = Vec::new();
    let line = call(LINE);
    let before = private_bytes(std::process::id())?;
    for seed in 0..live {
        let mut session = open(plugin, seed).await?;
        check(&session.call(&line).await?)?;
        sessions.push(session);
    }
    let ours = (private_bytes(std::process::id())? - before) / f64::from(live);
    print_in("MB", "python-live-session", ours / 1e6, "ipykernel", theirs / 1e6);
    Ok(())
}

/// Time until each attack is answered or ended, and the longest call of another session meanwhile.
async fn attacks(plugin: &Plugin) -> Result<()> {
    for (name, code) in ATTACKS {
        let mut session = open(plugin, 1).await?;
        let mut neighbour = open(plugin, 2).await?;
        check(&neighbour.call(&call(LINE)).await?)?;
        let attack = tokio::spawn(async move {
            let started = Instant::now();
            let outcome = session.call(&call(code)).await;
            (microseconds(started), outcome)
        });
        let mut longest = 0.0_f64;
        while !attack.is_finished() {
            let started = Instant::now();
            check(&neighbour.call(&call(LINE)).await?)?;
            longest = longest.max(microseconds(started));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (took, outcome) = attack.await?;
        // Data of the host must not leak: either the sandbox ended the call, or Python reports an error.
        if let Ok(answer) = outcome {
            let said = gymkhana_record::text_of(&answer.content);
            ensure!(answer.failed && said.contains("Error"), "`{code}` was answered with {said}");
        }
        print_in("ms", &format!("python-attack: {name}"), took / 1e3, "a neighbour's longest call", longest / 1e3);
    }
    Ok(())
}

/// A warm ipykernel, driven by its client in the Python that `cargo xtask bench tools` installed.
struct Kernel {
    client: Child,
    lines: BufReader<ChildStdout>,
    input: ChildStdin,
    pid: u32,
}

const CLIENT: &str = r#"
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
print(manager.provisioner.process.pid, flush=True)
for line in sys.stdin:
    said = []
    def heard(message):
        if message["msg_type"] == "stream":
            said.append(message["content"]["text"])
    client.execute_interactive(line, output_hook=heard)
    print("".join(said).strip(), flush=True)
manager.shutdown_kernel(now=True)
"#;

impl Kernel {
    fn start() -> Result<Self> {
        let python = python();
        let mut client = Command::new(&python)
            .args(["-c", CLIENT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("`{}` does not start; run `cargo xtask bench tools`", python.display()))?;
        let (Some(input), Some(output)) = (client.stdin.take(), client.stdout.take()) else { bail!("no pipes") };
        let mut lines = BufReader::new(output);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let pid = line.trim().parse().with_context(|| format!("the kernel's client says `{line}`"))?;
        let mut kernel = Self { client, lines, input, pid };
        for _ in 0..5 {
            kernel.run(LINE)?;
        }
        Ok(kernel)
    }

    fn run(&mut self, code: &str) -> Result<()> {
        writeln!(self.input, "{code}")?;
        self.input.flush()?;
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        ensure!(line == "42\n", "the kernel says `{line}`");
        Ok(())
    }
}

/// Private memory of a process, in bytes. The interpreter's pages that sessions share count once.
fn private_bytes(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("RssAnon in a process's status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? * 1024.0)
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // The client ends its kernel when its input ends; this ends a client that does not.
        let _ = Command::new("kill").arg(self.pid.to_string()).status();
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}
