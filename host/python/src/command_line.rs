//! The interpreter as other programs: as the command line without the trainer, and as the compiler of plugins.

use std::ffi::OsString;
use std::path::PathBuf;

use gymkhana_sandbox::CompilerProgram;
use pyo3::prelude::*;

/// Runs the command line with the arguments after the program's name. Returns the exit code, and ends the process for
/// help and wrong arguments.
#[pyfunction]
#[pyo3(signature = (arguments, name = OsString::from("host")))]
pub fn command_line(py: Python<'_>, arguments: Vec<OsString>, name: OsString) -> u8 {
    py.detach(|| gymkhana_cli::run([name].into_iter().chain(arguments)))
}

/// Compiles plugins in processes of this interpreter, which a script starts as a compiler, and not in this process.
#[pyfunction]
pub fn compile_with(interpreter: PathBuf, script: OsString) {
    let program = CompilerProgram { program: interpreter, arguments: vec![script], ..CompilerProgram::default() };
    gymkhana_sandbox::compile_with(program);
}

/// Compiles the component of standard input to standard output, as the arguments say. Returns the exit status.
#[pyfunction]
pub fn compile_as_asked(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| gymkhana_sandbox::compile_as_asked(arguments))
}
