//! Compilation of components: in a process of its own that has limits, or in this process.
//!
//! A compiler is much code, and a component made for the purpose can make it use time and memory without bound, or end
//! it. The program therefore starts itself as a compiler, for components that are not in the code cache.

mod child;
mod error;
mod program;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::OnceLock;

use wasmtime::Engine;

use crate::engine::code_form::CodeForm;
use crate::split::MODULE_HEADER;

pub(crate) use error::{CompileError, CompilerFailure};
pub use program::CompilerProgram;

/// First argument of a program that is started as a compiler.
const COMPILE_COMMAND: &str = "__compile-plugin";

/// Exit status of a compiler that rejects the component; its standard output holds the reason.
const REJECTED: u8 = 3;

/// Exit status of a compiler to which the system refused memory.
const OUT_OF_MEMORY: u8 = 4;

/// The program that compiles by default; unset in programs that cannot be started as a compiler.
static DEFAULT_PROGRAM: OnceLock<CompilerProgram> = OnceLock::new();

/// Lets this program be started as a compiler. A `main` that loads plugins calls it first: it returns the exit code of a
/// process that was started as a compiler and is done, and `None` in every other process.
#[must_use]
pub fn run_as_compiler() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == COMPILE_COMMAND) {
        return Some(ExitCode::from(child::run(arguments)));
    }
    compile_with(CompilerProgram::default());
    None
}

/// Lets this program start another one as its compiler. The first call counts.
pub fn compile_with(program: CompilerProgram) {
    DEFAULT_PROGRAM.get_or_init(|| program);
}

/// Compiles as an interpreter that [`compile_with`] names: with the arguments that it was started with after its own.
/// Returns the exit status.
pub fn compile_as_asked(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // The command tells a program that it is a compiler; an interpreter's script knows.
    child::run(arguments.into_iter().skip(1))
}

/// Place of compilation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiler {
    /// This process, without limits on time and memory. For programs that cannot be started as a compiler.
    InProcess,
    /// A process of a program that called [`run_as_compiler`].
    Program(CompilerProgram),
}

impl Default for Compiler {
    /// The program that [`run_as_compiler`] or [`compile_with`] named, if any.
    fn default() -> Self {
        DEFAULT_PROGRAM.get().map_or(Self::InProcess, |program| Self::Program(program.clone()))
    }
}

impl Compiler {
    /// Compiles a component, or a module that components share, for an engine. The result was produced by this process or by the compiler's process.
    pub(crate) fn compile(&self, engine: &Engine, form: CodeForm, component: &[u8]) -> Result<Vec<u8>, CompileError> {
        match self {
            Self::InProcess => Ok(precompile(engine, component)?),
            Self::Program(program) => program.compile(form, component),
        }
    }
}

/// Compiles a component or a module.
fn precompile(engine: &Engine, code: &[u8]) -> wasmtime::Result<Vec<u8>> {
    if code.starts_with(&MODULE_HEADER) { engine.precompile_module(code) } else { engine.precompile_component(code) }
}
