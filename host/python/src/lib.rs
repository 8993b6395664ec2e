//! The native module of the Python package: plugins, episodes, tools and rewards as Python objects.
//!
//! Every call into a guest runs without the interpreter's lock, and a batch is one call from Python. The module survives
//! what programs around it do: forks, handlers of signals, limited address space, threads, and the interpreter's end.

mod address_space;
mod batch;
mod command_line;
mod convert;
mod environment;
mod errors;
mod local;
mod options;
mod play;
mod plugin;
mod process;
mod reply;
mod reward;
mod runtime;
mod tool;

use pyo3::prelude::*;

/// The module `gymkhana_rl._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    process::watch_forks();
    module.add_class::<plugin::PyPlugin>()?;
    module.add_class::<environment::Env>()?;
    module.add_class::<environment::vector::VectorEnv>()?;
    module.add_class::<tool::PyTool>()?;
    module.add_class::<reward::Reward>()?;
    module.add_class::<play::Episode>()?;
    module.add_class::<play::PySegment>()?;
    module.add_function(wrap_pyfunction!(play::play, module)?)?;
    module.add_function(wrap_pyfunction!(reply::read_reply, module)?)?;
    module.add_function(wrap_pyfunction!(plugin::methods::load, module)?)?;
    module.add_function(wrap_pyfunction!(environment::vector::step_many, module)?)?;
    module.add_function(wrap_pyfunction!(local::local, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::shut_down, module)?)?;
    module.add_function(wrap_pyfunction!(command_line::command_line, module)?)?;
    module.add_function(wrap_pyfunction!(command_line::compile_with, module)?)?;
    module.add_function(wrap_pyfunction!(command_line::compile_as_asked, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
