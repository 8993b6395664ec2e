//! Starts a compiler's process, feeds it, and waits for its result until a deadline.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gymkhana_registry::Digest;
use gymkhana_waits::{Counterpart, receive};

use super::child::Job;
use super::error::{CompileError, CompilerFailure};
use super::{COMPILE_COMMAND, OUT_OF_MEMORY, REJECTED};
use crate::engine::code_form::CodeForm;

/// Time for the compilation of one component. The largest plugin that we build takes a tenth of it on two slow cores.
const DEADLINE: Duration = Duration::from_secs(300);

/// Memory for the compilation of one component, in bytes. The largest plugin that we build takes a third of it.
const MEMORY_BYTES: u64 = 4 << 30;

/// Size limit of compiled code in bytes. The largest plugin that we build has a quarter of it.
const MAX_CODE_BYTES: u64 = 1 << 30;

/// Size limit of the text that a compiler reports, in bytes.
const MAX_TEXT_BYTES: u64 = 64 << 10;

/// Length of a digest in hexadecimal digits, which precedes the compiled code.
const DIGEST_LENGTH: usize = 64;

/// Setting of mimalloc, the host's allocator: it reserves a gibibyte of addresses at the start otherwise, which would
/// be memory beyond the limit.
const NO_RESERVE: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");

/// Beginning of the text with which a Rust program ends that is refused memory.
const OUT_OF_MEMORY_TEXT: &str = "memory allocation of";

/// A program that calls [`run_as_compiler`](crate::run_as_compiler), and the limits of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerProgram {
    /// File of the program.
    pub program: PathBuf,
    /// The program's own arguments, such as an interpreter's script.
    pub arguments: Vec<OsString>,
    /// Address space beyond that of the started program, in bytes.
    pub memory_bytes: u64,
    /// Wall-clock time for one component.
    pub deadline: Duration,
}

impl Default for CompilerProgram {
    /// This program, even if its file has been replaced since its start.
    fn default() -> Self {
        Self {
            program: PathBuf::from("/proc/self/exe"),
            arguments: vec![],
            memory_bytes: MEMORY_BYTES,
            deadline: DEADLINE,
        }
    }
}

/// Output of a compiler's process that has ended.
struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    errors: Vec<u8>,
}

impl CompilerProgram {
    /// Compiles a component in a new process.
    pub(crate) fn compile(&self, form: CodeForm, component: &[u8]) -> Result<Vec<u8>, CompileError> {
        let job = Job { form, memory_bytes: self.memory_bytes };
        let failed = |error: io::Error| {
            let why = format!("`{}` cannot be started as a compiler: {error}", self.program.display());
            CompileError::Compiler(CompilerFailure::Process(why))
        };
        let mut process = Command::new(&self.program)
            .args(&self.arguments)
            .arg(COMPILE_COMMAND)
            .args(job.arguments())
            // It shows its variables to other programs of the user, as every process does.
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_passed(name)))
            .env(NO_RESERVE.0, NO_RESERVE.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let ended = self.attend(&mut process, component);
        // After an end this reports an error, which is expected.
        let _ = process.kill();
        let _ = process.wait();
        self.result(ended.map_err(CompileError::Compiler)?)
    }

    /// Writes the component and reads the output until the process ends or the deadline passes.
    fn attend(&self, process: &mut Child, component: &[u8]) -> Result<Ended, CompilerFailure> {
        let (input, output, errors) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        thread::scope(|scope| {
            // A process that ends early does not read all of it; its status says why.
            scope.spawn(move || input.map(|mut input| input.write_all(component)));
            let errors = scope.spawn(move || read(errors, MAX_TEXT_BYTES));
            let (sender, receiver) = mpsc::channel();
            scope.spawn(move || sender.send(read(output, MAX_CODE_BYTES + DIGEST_LENGTH as u64)));
            let Ok(output) = receive(Counterpart::Compiler, self.deadline, &receiver) else {
                // The scope waits for its threads, which end with the process.
                let _ = process.kill();
                return Err(CompilerFailure::Time(self.deadline));
            };
            let status = process.wait().map_err(|error| CompilerFailure::Process(error.to_string()))?;
            Ok(Ended { status, output, errors: errors.join().unwrap_or_default() })
        })
    }

    /// Compiled code of a process that succeeded; its digest shows that all of it arrived.
    fn result(&self, Ended { status, mut output, errors }: Ended) -> Result<Vec<u8>, CompileError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let process = |why: String| CompileError::Compiler(CompilerFailure::Process(why));
        if status.success() {
            let expected = output.get(..DIGEST_LENGTH).and_then(|digest| text(digest).parse::<Digest>().ok());
            let code = output.split_off(DIGEST_LENGTH.min(output.len()));
            return match expected {
                Some(expected) if Digest::of(&code) == expected => Ok(code),
                _ => Err(process("the compiler's output is damaged".to_owned())),
            };
        }
        let errors = text(&errors);
        if status.code() == Some(REJECTED.into()) {
            return Err(CompileError::Engine(wasmtime::Error::msg(text(&output))));
        }
        if status.code() == Some(OUT_OF_MEMORY.into()) || errors.contains(OUT_OF_MEMORY_TEXT) {
            return Err(CompileError::Compiler(CompilerFailure::Memory(self.memory_bytes)));
        }
        let how = match status.signal() {
            Some(signal) => format!("signal {signal}"),
            None => format!("status {}", status.code().unwrap_or_default()),
        };
        let last = errors.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        Err(process(format!("the compiler ended with {how}{last}")))
    }
}

/// Reads a stream to its end or to a limit. What follows the limit is not needed.
fn read(stream: Option<impl Read>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before an error is checked by its digest.
        let _ = stream.take(limit).read_to_end(&mut bytes);
    }
    bytes
}
/// Whether the compiler's process gets a variable: those by which a program and its libraries are found.
fn is_passed(name: &OsStr) -> bool {
    const PASSED: [&str; 6] = ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "HOME", "TMPDIR", "RUST_BACKTRACE"];
    PASSED.iter().any(|passed| name == *passed) || name.as_encoded_bytes().starts_with(b"PYTHON")
}
