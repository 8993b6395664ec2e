//! `host plugin build`: builds a plugin's folder to a component with the tools of its language.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gymkhana_registry::write_atomically;

use crate::error::{Classify, CliError, CliResult};
use crate::plugin::args::{BuildArgs, Language};
use crate::plugin::plugin_inputs::PluginInputs;
use crate::plugin::project::Project;
use crate::printer::Printer;

/// Rust's target for components.
pub const TARGET: &str = "wasm32-wasip2";

/// Runs the command.
pub fn build(args: &BuildArgs, printer: &Printer) -> CliResult<()> {
    let file = build_folder(&args.dir, args.out.as_deref(), printer)?;
    let inputs = PluginInputs::read(&file)?;
    let kinds: Vec<String> = inputs.manifest.kinds.iter().map(ToString::to_string).collect();
    let (name, version, bytes) = (&inputs.manifest.name, &inputs.manifest.version, inputs.bytes.len());
    printer.result(format!("{}: {name} {version}, {}, {bytes} bytes", file.display(), kinds.join(", ")));
    Ok(())
}

/// Builds a folder; returns the component's file. Without `out` it is named after the plugin.
pub fn build_folder(dir: &Path, out: Option<&Path>, printer: &Printer) -> CliResult<PathBuf> {
    let project = Project::open(dir)?;
    // Called after the tools were found: their absence is reported first.
    let out = || out.map_or_else(|| project.component(), |out| Ok(out.to_owned()));
    printer.status(format!("building {}", dir.display()));
    match project.language {
        Language::Rust => {
            let built = cargo_build(dir)?;
            let bytes = fs::read(&built).user_context(format!("cargo did not build `{}`", built.display()))?;
            let out = out()?;
            write_atomically(&out, &bytes).user_context(format!(
                "the component `{}` cannot be written\nhint: free space, or use a writable folder",
                out.display()
            ))?;
            Ok(out)
        }
        Language::Python => {
            let (mut command, out) = (python_with_sdk(dir)?, out()?);
            finish(command.args(["-m", "gymkhana_sdk.build", "."]).arg("--out").arg(absolute(&out)?), dir)?;
            Ok(out)
        }
        Language::Js => {
            let (mut command, out) = (node_with_sdk(dir)?, out()?);
            finish(command.arg(JS_BUILD).arg(".").arg("--out").arg(absolute(&out)?), dir)?;
            Ok(out)
        }
    }
}

/// The component of a plugin: the file itself, or what the folder builds.
pub fn component(plugin: &Path, printer: &Printer) -> CliResult<PathBuf> {
    if plugin.is_dir() { build_folder(plugin, None, printer) } else { Ok(plugin.to_owned()) }
}

/// The component that `host plugin build` wrote into a plugin's folder.
///
/// # Errors
/// If the folder is not a plugin's, or was not built.
pub fn built_component(dir: &Path) -> CliResult<PathBuf> {
    let file = Project::open(dir)?.component()?;
    if file.is_file() {
        return Ok(file);
    }
    let (dir, file) = (dir.display(), file.display());
    Err(CliError::user(format!("`{dir}` has no `{file}`\nhint: build it with `host plugin build {dir}`")))
}

/// Runs a folder's own tests.
pub fn test_folder(dir: &Path, printer: &Printer) -> CliResult<()> {
    printer.status(format!("running the tests of {}", dir.display()));
    match Project::open(dir)?.language {
        // The profile shares its macros with the build of the component; native code is only needed for the tests.
        Language::Rust => {
            finish(cargo(dir)?.args(["test", "--release"]).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"), dir)
        }
        Language::Python => finish(python_with_sdk(dir)?.args(["-m", "unittest"]), dir),
        // Without a terminal, Node.js would print TAP.
        Language::Js => finish(node_with_sdk(dir)?.args(["--test", "--test-reporter=spec"]), dir),
    }
}

/// Absolute path; resolves links if it exists.
fn absolute(path: &Path) -> CliResult<PathBuf> {
    if let Ok(path) = fs::canonicalize(path) {
        return Ok(path);
    }
    std::path::absolute(path).user_context(format!("`{}` is not a path", path.display()))
}

/// Builds with cargo; returns the file that cargo reports.
fn cargo_build(dir: &Path) -> CliResult<PathBuf> {
    has_target(dir)?;
    let mut command = cargo(dir)?;
    command.args(["build", "--release", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output();
    let output = output.user_context("cargo cannot be started")?;
    if !output.status.success() {
        let message = format!("cargo failed to build `{}`\nhint: fix the errors above", dir.display());
        return Err(CliError::user(message));
    }
    let own = fs::canonicalize(dir.join("Cargo.toml")).user_context(format!("`{}` cannot be opened", dir.display()))?;
    let built = String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| artifact(line, &own)).next_back();
    built.ok_or_else(|| {
        CliError::user(format!(
            "cargo built no component in `{}`\nhint: set `crate-type = [\"cdylib\", \"rlib\"]` under [lib] of its \
             Cargo.toml",
            dir.display()
        ))
    })
}

/// Component named in a line of cargo's messages, if it belongs to this package.
fn artifact(line: &str, own: &Path) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_own = message.get("manifest_path")?.as_str().map(Path::new) == Some(own);
    let mut files = message.get("filenames")?.as_array()?.iter().filter_map(serde_json::Value::as_str);
    files.find(|file| is_own && file.ends_with(".wasm")).map(PathBuf::from)
}

fn has_target(dir: &Path) -> CliResult<()> {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).current_dir(dir).output();
    let output = output.user_context(RUST_MISSING)?;
    if Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir() {
        return Ok(());
    }
    Err(CliError::user(format!("Rust target {TARGET} is not installed\nhint: run `rustup target add {TARGET}`")))
}

/// Installs Python's SDK and compiler into a plugin's folder.
pub const PYTHON_SETUP: &str = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt";

/// Installs those of JavaScript.
pub const JS_SETUP: &str = "npm install";

/// Build program of JavaScript's SDK in a plugin's folder.
const JS_BUILD: &str = "node_modules/@gymkhana/sdk/build.mjs";

/// Message about a missing Rust.
pub const RUST_MISSING: &str =
    "Rust is not installed\nhint: install it with `curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh`";

/// Message about a missing Python.
pub const PYTHON_MISSING: &str =
    "Python is not installed\nhint: on Debian or Ubuntu run `apt-get install python3 python3-venv`";

/// Message about a missing Node.js.
pub const NODE_MISSING: &str = "Node.js is not installed\nhint: on Debian or Ubuntu run `apt-get install nodejs npm`";

fn cargo(dir: &Path) -> CliResult<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    program_in(dir, program.as_ref(), RUST_MISSING)
}

/// Python of the folder's environment, else the system's.
fn python(dir: &Path) -> CliResult<Command> {
    let own = dir.join(".venv/bin/python");
    let program = if own.exists() { absolute_link(&own)? } else { PathBuf::from("python3") };
    program_in(dir, &program, PYTHON_MISSING)
}

/// A Python with the SDK.
fn python_with_sdk(dir: &Path) -> CliResult<Command> {
    let probe = python(dir)?.args(["-c", "import gymkhana_sdk"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if probe.user_context("python3 cannot be started")?.success() {
        return python(dir);
    }
    Err(CliError::user(format!(
        "the Python of `{}` lacks the SDK\nhint: run `{PYTHON_SETUP}` in that folder",
        dir.display()
    )))
}

/// Absolute path without resolving links: Python finds its environment by the link's path.
fn absolute_link(path: &Path) -> CliResult<PathBuf> {
    std::path::absolute(path).user_context(format!("`{}` is not a path", path.display()))
}

/// Node.js, in a folder with the SDK.
fn node_with_sdk(dir: &Path) -> CliResult<Command> {
    if !dir.join(JS_BUILD).is_file() {
        let message = format!("`{}` has no `{JS_BUILD}`\nhint: run `{JS_SETUP}` in it", dir.display());
        return Err(CliError::user(message));
    }
    program_in(dir, Path::new("node"), NODE_MISSING)
}

/// An installed program, run in a folder; `missing` is the error if it is not installed.
fn program_in(dir: &Path, program: &Path, missing: &str) -> CliResult<Command> {
    let probe = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.user_context(missing)?;
    let mut command = Command::new(program);
    command.current_dir(dir);
    Ok(command)
}

/// Runs a program to its end; its output goes to standard error.
fn finish(command: &mut Command, dir: &Path) -> CliResult<()> {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let shown = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let status = command.stdout(std::io::stderr()).status().user_context(format!("`{shown}` cannot be started"))?;
    if status.success() {
        return Ok(());
    }
    let message = format!("`{shown}` failed in `{}` ({status})\nhint: fix the errors above", dir.display());
    Err(CliError::user(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_is_the_one_reported_by_cargo() {
        let own = Path::new("/work/a/Cargo.toml");
        let line = |manifest: &str, file: &str| {
            format!(r#"{{"reason":"compiler-artifact","manifest_path":"{manifest}","filenames":["{file}"]}}"#)
        };
        let wasm = "/elsewhere/target/wasm32-wasip2/release/a.wasm";
        assert_eq!(artifact(&line("/work/a/Cargo.toml", wasm), own), Some(PathBuf::from(wasm)));
        assert_eq!(artifact(&line("/work/b/Cargo.toml", wasm), own), None);
        assert_eq!(artifact(&line("/work/a/Cargo.toml", "/elsewhere/liba.rlib"), own), None);
        assert_eq!(artifact("no JSON", own), None);
    }
}
