//! What the benches share: where components are, how rounds are timed, and how a figure is printed.

#![allow(clippy::print_stdout, reason = "the figures are this program's result")]
#![allow(dead_code, reason = "each bench uses a part of it")]

pub mod native;
pub mod rollouts;

use std::time::Instant;

use anyhow::{Context, Result};
use gymkhana_record::{Call, Part, TaskRef};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Grants, Plugin, Sandbox};
use gymkhana_tests::root;

/// The host's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A first-party plugin or a guest.
pub fn load(sandbox: &Sandbox, name: &str) -> Result<Plugin> {
    load_with(sandbox, name, &Grants::default())
}

/// A guest that may ask for whatever a run can grant.
pub fn load_granted(sandbox: &Sandbox, name: &str) -> Result<Plugin> {
    load_with(sandbox, name, &Grants([Capability::Assets, Capability::Model, Capability::Http].into()))
}

fn load_with(sandbox: &Sandbox, name: &str, grants: &Grants) -> Result<Plugin> {
    let target = root().join("target");
    let built = target.join(format!("wasm32-wasip2/release/{}.wasm", name.replace('-', "_")));
    let path = Some(target.join(format!("plugins/{name}.wasm"))).filter(|path| path.exists()).unwrap_or(built);
    Plugin::load(sandbox, &path, grants).with_context(|| format!("run `cargo xtask plugins` for `{name}`"))
}

/// The first training task.
pub fn train() -> TaskRef {
    TaskRef { split: "train".to_owned(), index: 0 }
}

/// A message's content.
pub fn text(words: &str) -> Vec<Part> {
    vec![Part::Text(words.to_owned())]
}

/// A call of a function without arguments.
pub fn call(name: &str) -> Call {
    Call { id: String::new(), name: name.to_owned(), arguments: "{}".to_owned() }
}

/// Microseconds of the wall clock since then.
pub fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// The middle one.
pub fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Memory of this process that is resident, in bytes.
pub fn resident_bytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS in /proc/self/status")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0)
}

/// Memory mappings of this process.
pub fn mappings() -> Result<usize> {
    Ok(std::fs::read_to_string("/proc/self/maps")?.lines().count())
}

/// Prints a figure that took so many microseconds.
pub fn print(bench: &str, value: f64, versus: &str, versus_value: f64) {
    print_in("µs", bench, value, versus, versus_value);
}

/// Prints a figure.
pub fn print_in(unit: &str, bench: &str, value: f64, versus: &str, versus_value: f64) {
    let line = serde_json::json!({
        "bench": bench,
        "value": value,
        "unit": unit,
        "versus": versus,
        "versus_value": versus_value,
        // No number of JSON is infinite: against nothing there is no ratio.
        "ratio": if versus_value == 0.0 { None } else { Some(value / versus_value) },
    });
    println!("{line}");
}
