//! Loading of plugins, timing of rounds and printing of results.

#![allow(clippy::print_stdout, reason = "the figures are this program's result")]

pub mod native;
pub mod rollouts;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use gymkhana_record::{Call, Part, TaskRef};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Grants, Plugin, Sandbox};

/// The allocator of the host.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A first-party plugin or a guest of the tests, without grants.
///
/// # Errors
/// If its component is missing or refused.
pub fn load(sandbox: &Sandbox, name: &str) -> Result<Plugin> {
    load_with(sandbox, name, &Grants::default())
}

/// A guest with all capabilities granted.
///
/// # Errors
/// If its component is missing or refused.
pub fn load_granted(sandbox: &Sandbox, name: &str) -> Result<Plugin> {
    load_with(sandbox, name, &Grants([Capability::Assets, Capability::Model, Capability::Http].into()))
}

/// A wrapper around an environment with default options.
///
/// # Errors
/// If a component is missing or refused.
pub fn load_wrapped(sandbox: &Sandbox, wrapper: &str, inner: &Plugin) -> Result<Plugin> {
    let wrapper = load_with(sandbox, wrapper, &Grants([Capability::InnerEnvironment].into()))?;
    Ok(wrapper.wrapping(inner, vec![])?)
}

fn load_with(sandbox: &Sandbox, name: &str, grants: &Grants) -> Result<Plugin> {
    let target = root().join("target");
    let built = target.join(format!("wasm32-wasip2/release/{}.wasm", name.replace('-', "_")));
    let path = Some(target.join(format!("plugins/{name}.wasm"))).filter(|path| path.exists()).unwrap_or(built);
    Plugin::load(sandbox, &path, grants).with_context(|| format!("run `cargo xtask plugins` for `{name}`"))
}

/// The first training task.
#[must_use]
pub fn train() -> TaskRef {
    TaskRef { split: "train".to_owned(), index: 0 }
}

/// Content of a message.
#[must_use]
pub fn text(words: &str) -> Vec<Part> {
    vec![Part::Text(words.to_owned())]
}

/// A call of a function without arguments.
#[must_use]
pub fn call(name: &str) -> Call {
    Call { id: String::new(), name: name.to_owned(), arguments: "{}".to_owned() }
}

/// Microseconds of wall-clock time since `since`.
#[must_use]
pub fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// Median of at least one number.
#[must_use]
pub fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Resident memory of this process, in bytes.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn resident_bytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS in /proc/self/status")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0)
}

/// Number of memory mappings of this process.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn mappings() -> Result<usize> {
    Ok(std::fs::read_to_string("/proc/self/maps")?.lines().count())
}

/// Prints a result in microseconds.
pub fn print(bench: &str, value: f64, versus: &str, versus_value: f64) {
    print_in("µs", bench, value, versus, versus_value);
}

/// Prints a result and its comparison as one JSON line.
pub fn print_in(unit: &str, bench: &str, value: f64, versus: &str, versus_value: f64) {
    let line = serde_json::json!({
        "bench": bench,
        "value": value,
        "unit": unit,
        "versus": versus,
        "versus_value": versus_value,
        // JSON cannot hold an infinite ratio.
        "ratio": if versus_value == 0.0 { None } else { Some(value / versus_value) },
    });
    println!("{line}");
}
