//! The compiler's process: limits itself, reads a component, and writes its compiled form.

use std::ffi::OsString;
use std::io::{self, Read, Write};

use gymkhana_registry::{Digest, MAX_PLUGIN_BYTES};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use wasmtime::Engine;

use super::{OUT_OF_MEMORY, REJECTED, precompile};
use crate::engine::code_form::{CodeForm, Weight, code_config};
use crate::{CompilerEffort, ProcessOwner};

/// Exit status after a failure that is not the component's.
const FAILED: u8 = 1;

/// Text of the system's error for refused memory.
const ENOMEM_TEXT: &str = "os error 12";

/// Job of a compiler's process, passed as its arguments.
pub(super) struct Job {
    pub form: CodeForm,
    /// Address space beyond that of the started program, in bytes.
    pub memory_bytes: u64,
}

impl Job {
    /// Arguments that [`Job::parse`] reads.
    pub fn arguments(&self) -> [String; 5] {
        let CodeForm { weight, effort, count_fuel, owner } = self.form;
        let weight = match weight {
            Weight::Light => "light",
            Weight::Heavy => "heavy",
        };
        let effort = match effort {
            CompilerEffort::Optimised => "optimised",
            CompilerEffort::Quick => "quick",
        };
        let owner = match owner {
            ProcessOwner::Host => "host",
            ProcessOwner::Foreign => "foreign",
        };
        let [weight, effort, owner] = [weight, effort, owner].map(str::to_owned);
        [weight, effort, owner, count_fuel.to_string(), self.memory_bytes.to_string()]
    }

    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut next = || arguments.next()?.into_string().ok();
        let weight = match next()?.as_str() {
            "light" => Weight::Light,
            "heavy" => Weight::Heavy,
            _ => return None,
        };
        let effort = match next()?.as_str() {
            "optimised" => CompilerEffort::Optimised,
            "quick" => CompilerEffort::Quick,
            _ => return None,
        };
        let owner = match next()?.as_str() {
            "host" => ProcessOwner::Host,
            "foreign" => ProcessOwner::Foreign,
            _ => return None,
        };
        let form = CodeForm { weight, effort, owner, count_fuel: next()?.parse().ok()? };
        Some(Self { form, memory_bytes: next()?.parse().ok()? })
    }
}

/// Compiles the component or module of standard input to standard output. Returns the exit status.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> u8 {
    let Some(job) = Job::parse(arguments) else { return FAILED };
    match compile(&job) {
        Ok(()) => 0,
        Err(Failure::System(error)) if error.kind() == io::ErrorKind::OutOfMemory => OUT_OF_MEMORY,
        Err(Failure::System(_)) => FAILED,
        Err(Failure::Rejected(error)) => {
            let why = format!("{error:#}");
            if why.contains(ENOMEM_TEXT) {
                return OUT_OF_MEMORY;
            }
            // Without a reader the reason is not needed.
            let _ = io::stdout().write_all(why.as_bytes());
            REJECTED
        }
    }
}

enum Failure {
    System(io::Error),
    Rejected(wasmtime::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn compile(job: &Job) -> Result<(), Failure> {
    limit_process(job.memory_bytes)?;
    let mut component = Vec::new();
    io::stdin().take(MAX_PLUGIN_BYTES as u64).read_to_end(&mut component)?;
    let engine = Engine::new(&code_config(job.form)).map_err(Failure::Rejected)?;
    let code = precompile(&engine, &component).map_err(Failure::Rejected)?;
    let mut output = io::stdout();
    output.write_all(Digest::of(&code).to_string().as_bytes())?;
    output.write_all(&code)?;
    Ok(output.flush()?)
}

/// Bounds the memory of this process, writes no core file, and ends with the process that started it.
fn limit_process(memory_bytes: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let own = own_address_space()?.saturating_add(memory_bytes);
    for (resource, most) in [(Resource::As, own), (Resource::Core, 0)] {
        let Rlimit { maximum, .. } = getrlimit(resource);
        let most = maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Address space of this process in bytes. Libraries that the program is linked with can be larger than the compiler.
fn own_address_space() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let size =
        text.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    let kilobytes: u64 = size.ok_or_else(|| io::Error::other("/proc/self/status has no size"))?;
    Ok(kilobytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_back_from_its_arguments() {
        let (effort, owner) = (CompilerEffort::Quick, ProcessOwner::Foreign);
        let form = CodeForm { weight: Weight::Heavy, effort, count_fuel: true, owner };
        let job = Job { form, memory_bytes: 5 << 30 };
        let read = Job::parse(job.arguments().into_iter().map(OsString::from)).expect("complete");
        assert_eq!((read.form, read.memory_bytes), (form, 5 << 30));
        assert!(Job::parse(["light", "quick", "host", "yes", "1"].into_iter().map(OsString::from)).is_none());
        assert!(Job::parse(std::iter::empty()).is_none());
    }
}
