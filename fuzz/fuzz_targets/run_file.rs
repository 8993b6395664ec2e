//! The run file: parsing and validation, without reading other files.
#![no_main]

use gymkhana_config::RunFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(run) = RunFile::parse(text, "run.toml", &[]) {
        let _ = run.check();
        let resolved = run.resolved().expect("a parsed run file is written");
        RunFile::parse(&resolved, "resolved.toml", &[]).expect("a resolved run file is parsed");
    }
});
