//! `host plugin bench`: measures time and memory of a plugin's calls.

use std::collections::BTreeMap;

use gymkhana_conformance::{Measured, SuiteSettings, measure};
use gymkhana_sandbox::CompilerEffort;
use serde_json::json;

use crate::args::plugin::BenchArgs;
use crate::error::CliResult;
use crate::plugin::build::BuildMode;
use crate::plugin::find;
use crate::plugin::plugin_inputs::{self, PluginInputs};
use crate::printer::{Printer, ProgressLine};
use gymkhana_orchestration::{ProgressFigures, Work};

/// Runs the command.
pub fn bench(args: &BenchArgs, printer: &Printer) -> CliResult<()> {
    let inputs = find(&args.plugin, BuildMode::Whole, printer)?;
    let settings = SuiteSettings {
        seed: args.seed,
        options: plugin_inputs::options(inputs.manifest.name.name(), &args.option)?,
        assets: plugin_inputs::assets(&args.asset)?,
        setup: plugin_inputs::setup(args.setup.as_deref())?,
        ..SuiteSettings::default()
    };
    let sandbox = plugin_inputs::sandbox(&plugin_inputs::author_config(CompilerEffort::Optimised), printer)?;
    printer.status(format!("loading `{}`", inputs.origin));
    let plugin = inputs.load(&sandbox)?;
    let runtime = plugin_inputs::runtime()?;
    let with_assets = plugin.clone().with_assets(settings.assets.clone());
    runtime.block_on(plugin_inputs::check_options(&with_assets, &settings.options))?;
    let mut lines: BTreeMap<&str, ProgressLine> = BTreeMap::new();
    let mut told = |kind: &'static str, done: u32| {
        let line = lines.entry(kind).or_insert_with(|| printer.progress(Work::new(kind, args.times.into())));
        line.at(done.into(), &ProgressFigures::of("repetitions"));
    };
    let measured = plugin_inputs::suite_result(runtime.block_on(measure(&plugin, settings, args.times, &mut told)))?;
    drop(lines);
    if !args.json {
        printer.result(format!(
            "{:<22} {:>7} {:>10} {:>10} {:>10} {:>10}",
            "call", "times", "median µs", "p95 µs", "memory KiB", "snapshot B"
        ));
    }
    for one in &measured {
        print(one, &inputs, args.json, printer);
    }
    Ok(())
}

fn print(measured: &Measured, inputs: &PluginInputs, as_json: bool, printer: &Printer) {
    let Measured { call, times_us, memory_bytes, snapshot_bytes } = measured;
    let (median, late) = (measured.quantile(0.5), measured.quantile(0.95));
    if as_json {
        printer.json(json!({
            "plugin": inputs.manifest.name.to_string(),
            "version": inputs.manifest.version.to_string(),
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
