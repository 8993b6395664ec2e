//! `host plugin bench`: what a plugin's calls take.

use gymkhana_conformance::{Measured, Settings, measure};
use gymkhana_sandbox::SandboxConfig;
use serde_json::json;

use crate::error::{Classify, CliResult};
use crate::plugin::args::BenchArgs;
use crate::plugin::given::{self, Given};
use crate::printer::Printer;

/// Measures, and prints a table or lines of JSON.
pub fn bench(args: &BenchArgs, printer: &Printer) -> CliResult<()> {
    let given = Given::read(&args.file)?;
    let settings = Settings {
        seed: args.seed,
        options: given::options(given.manifest.name.name(), &args.option)?,
        assets: given::assets(&args.asset)?,
        setup: given::setup(args.setup.as_deref())?,
        ..Settings::default()
    };
    let sandbox = given::sandbox(&SandboxConfig::default(), printer)?;
    let plugin = given.load(&sandbox)?;
    let measured = given::runtime()?.block_on(measure(&plugin, settings, args.times)).user_error()?;
    if !args.json {
        printer.result(format!(
            "{:<22} {:>7} {:>10} {:>10} {:>10} {:>10}",
            "call", "times", "median µs", "p95 µs", "memory KiB", "snapshot B"
        ));
    }
    for one in &measured {
        print(one, &given, args.json, printer);
    }
    Ok(())
}

fn print(measured: &Measured, given: &Given, as_json: bool, printer: &Printer) {
    let Measured { call, times_us, memory_bytes, snapshot_bytes } = measured;
    let (median, late) = (measured.quantile(0.5), measured.quantile(0.95));
    if as_json {
        printer.json(json!({
            "plugin": given.manifest.name.to_string(),
            "version": given.manifest.version.to_string(),
            "call": call,
            "times": times_us.len(),
            "median_us": median,
            "p95_us": late,
            "memory_bytes": memory_bytes,
            "snapshot_bytes": snapshot_bytes,
        }));
        return;
    }
    let snapshot = snapshot_bytes.map_or_else(String::new, |bytes| bytes.to_string());
    let (times, memory) = (times_us.len(), memory_bytes >> 10);
    printer.result(format!("{call:<22} {times:>7} {median:>10.1} {late:>10.1} {memory:>10} {snapshot:>10}").trim_end());
}
