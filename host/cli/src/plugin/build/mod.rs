//! `host plugin build`: builds a plugin's folder to a component with the tools of its language.

mod together;
pub mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use gymkhana_registry::write_atomically;
use gymkhana_sandbox::CompilerEffort;
use gymkhana_waits::{ChildWait, Counterpart, Silent, output};

use crate::args::plugin::{BuildArgs, Language};
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::folder::PluginFolder;
use crate::plugin::plugin_inputs::PluginInputs;
use crate::printer::Printer;
use tools::{Interpreter, RUST_MISSING, cargo};

/// How a folder becomes a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildMode {
    /// The component to run and publish.
    Whole,
    /// A component to try out an edit. In Python and JavaScript, the language's runtime of an earlier build receives the
    /// folder's files.
    Quick,
}

/// Rust's target for components.
pub const TARGET: &str = "wasm32-wasip2";

/// Longest time of a program that tests or builds a folder. The largest plugin that we build takes a tenth of it on two slow
/// cores, with all that it depends on.
const LONGEST: Duration = Duration::from_secs(3600);
/// Time after which such a program is reported.
const REPORTED: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn build(args: &BuildArgs, printer: &Printer) -> CliResult<()> {
    let file = build_folder(&args.dir, args.out.as_deref(), BuildMode::Whole, printer)?;
    let inputs = PluginInputs::read(&file)?;
    let kinds: Vec<String> = inputs.manifest.kinds.iter().map(ToString::to_string).collect();
    let (name, version, bytes) = (&inputs.manifest.name, &inputs.manifest.version, inputs.bytes.len());
    printer.result(format!("{}: {name} {version}, {}, {bytes} bytes", file.display(), kinds.join(", ")));
    Ok(())
}

/// Builds a folder; returns the component's file. Without `out` it is named after the plugin.
pub fn build_folder(dir: &Path, out: Option<&Path>, mode: BuildMode, printer: &Printer) -> CliResult<PathBuf> {
    let project = PluginFolder::open(dir)?;
    // Called after the tools were found: their absence is reported first.
    let out = || out.map_or_else(|| file_of(&project, mode), |out| Ok(out.to_owned()));
    printer.status(format!("building {}", dir.display()));
    match project.language {
        Language::Rust => {
            let built = cargo_build(dir, printer)?;
            let bytes = fs::read(&built).user_context(format!("cargo did not build `{}`", built.display()))?;
            let out = out()?;
            write_atomically(&out, &bytes).user_context(format!(
                "the component `{}` cannot be written\nhint: free space, or use a writable folder",
                out.display()
            ))?;
            Ok(out)
        }
        Language::Python | Language::Js => {
            let (interpreter, out) = (Interpreter::find(&project)?, out()?);
            finish(&mut interpreter.build(&out, mode)?, dir, printer)?;
            Ok(out)
        }
    }
}

fn file_of(project: &PluginFolder<'_>, mode: BuildMode) -> CliResult<PathBuf> {
    match mode {
        BuildMode::Whole => project.component(),
        BuildMode::Quick => project.quick_component(),
    }
}

/// The component of a plugin: the file itself, or what the folder builds.
pub fn component(plugin: &Path, mode: BuildMode, printer: &Printer) -> CliResult<PathBuf> {
    if plugin.is_dir() { build_folder(plugin, None, mode, printer) } else { Ok(plugin.to_owned()) }
}

/// Effort for compiling a plugin: a folder is tried out after each edit, and therefore compiled quickly.
pub fn effort(plugin: &Path) -> CompilerEffort {
    if plugin.is_dir() { CompilerEffort::Quick } else { CompilerEffort::Optimised }
}

/// The component that the last build wrote into a plugin's folder.
///
/// # Errors
/// If the folder is not a plugin's, or was not built.
pub fn built_component(dir: &Path) -> CliResult<PathBuf> {
    let project = PluginFolder::open(dir)?;
    let file = project.component()?;
    let written = |file: &PathBuf| fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    let found = [project.quick_component()?, file.clone()].into_iter().filter_map(|file| Some((written(&file)?, file)));
    if let Some((_, newest)) = found.max() {
        return Ok(newest);
    }
    let (dir, file) = (dir.display(), file.display());
    Err(CliError::user(format!("`{dir}` has no `{file}`\nhint: build it with `host plugin build {dir}`")))
}

/// Runs a folder's own tests and builds it; returns the component's file.
pub fn test_and_build(dir: &Path, mode: BuildMode, printer: &Printer) -> CliResult<PathBuf> {
    let project = PluginFolder::open(dir)?;
    if project.language == Language::Rust {
        // cargo runs one build of a folder at a time.
        printer.status(format!("running the tests of {}", dir.display()));
        // The profile shares its macros with the build of the component; native code is only needed for the tests.
        finish(cargo(dir)?.args(["test", "--release"]).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"), dir, printer)?;
        return build_folder(dir, None, mode, printer);
    }
    let (interpreter, out) = (Interpreter::find(&project)?, file_of(&project, mode)?);
    printer.status(format!("running the tests of {} and building it", dir.display()));
    together::run(interpreter.tests(), interpreter.build(&out, mode)?, dir, LONGEST)?;
    Ok(out)
}

/// Builds with cargo; returns the file that cargo reports.
fn cargo_build(dir: &Path, printer: &Printer) -> CliResult<PathBuf> {
    has_target(dir)?;
    let mut command = cargo(dir)?;
    command.args(["build", "--release", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    let say = |text: &str| printer.status(text);
    let wait = wait_for(&command, &say);
    let output =
        output(&mut command, &wait).user_context("cargo cannot be started")?.map_err(|silent| late(&silent, dir))?;
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
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", TARGET]).current_dir(dir).stderr(Stdio::null());
    let say = |_: &str| {};
    let wait = wait_for(&command, &say);
    let output = output(&mut command, &wait).user_context(RUST_MISSING)?.map_err(|silent| late(&silent, dir))?;
    if Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir() {
        return Ok(());
    }
    Err(CliError::user(format!("Rust target {TARGET} is not installed\nhint: run `rustup target add {TARGET}`")))
}

/// Runs a program to its end; its output goes to standard error.
fn finish(command: &mut Command, dir: &Path, printer: &Printer) -> CliResult<()> {
    let mut child = command.stdout(std::io::stderr()).spawn().user_context(not_started(command))?;
    let say = |text: &str| printer.status(text);
    let ended = wait_for(command, &say).end(&mut child).user_context(not_started(command))?;
    let status = ended.map_err(|silent| late(&silent, dir))?;
    if status.success() { Ok(()) } else { Err(failed(command, status, dir)) }
}

/// The wait for a program of a build.
fn wait_for<'a>(command: &Command, say: &'a dyn Fn(&str)) -> ChildWait<'a> {
    let named = format!("`{}`", shown(command));
    ChildWait { counterpart: Counterpart::BuildTool, named, bound: LONGEST, first_report: REPORTED, say }
}

/// Error of a program that was ended because it did not end.
fn late(silent: &Silent, dir: &Path) -> CliError {
    let message =
        format!("{silent} in `{}`, and was ended\nhint: run it by hand to see what it waits for", dir.display());
    CliError::user(message)
}

/// Message about a program that cannot be started.
fn not_started(command: &Command) -> String {
    format!("`{}` cannot be started", shown(command))
}

/// Error of a program that was run in a folder and failed.
fn failed(command: &Command, status: ExitStatus, dir: &Path) -> CliError {
    let message = format!("`{}` failed in `{}` ({status})\nhint: fix the errors above", shown(command), dir.display());
    CliError::user(message)
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
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
