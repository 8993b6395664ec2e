//! Compatibility with other programs: `cargo xtask test --reference` runs this with Python's `prometheus_client`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::served::serve;
use crate::common::{Desk, SMALL_RUN};

#[test]
#[ignore = "needs prometheus_client: `cargo xtask test --reference` runs it"]
fn the_openmetrics_parser_reads_the_page() {
    let python = std::env::var_os("GYMKHANA_REFERENCE_PYTHON").expect("GYMKHANA_REFERENCE_PYTHON names a Python");
    let pages = serve(&Desk::with_run_file(SMALL_RUN)).pages();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference_read.py");
    let mut reader = Command::new(python);
    let mut reader = reader.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
    let page = pages.last().expect("at least one page");
    reader.stdin.take().expect("it is piped").write_all(page.as_bytes()).expect("it reads");
    let output = reader.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let read: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for (name, kind, unit) in [
        ("gymkhana_wait_seconds", "histogram", "seconds"),
        ("gymkhana_waiting", "gauge", ""),
        ("gymkhana_token_staleness_steps", "histogram", "steps"),
        // The parser treats the suffix of a counter as part of its type.
        ("gymkhana_episodes", "counter", ""),
        ("gymkhana_trainer_idle_seconds", "counter", "seconds"),
    ] {
        assert_eq!(read[name], serde_json::json!({ "type": kind, "unit": unit }), "{name}");
    }
    let families = read.as_object().expect("an object");
    assert_eq!(families.values().filter(|family| family["type"] == "unknown").count(), 0);
}
