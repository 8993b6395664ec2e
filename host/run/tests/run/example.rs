//! The example `examples/train.rs` trains through the library.

use std::process::Command;

#[test]
fn the_example_trains_and_reports_both_stages() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    // cargo builds examples of a package before its tests, beside the folder of the test programs.
    let tests = std::env::current_exe().expect("this program");
    let program = tests.parent().and_then(|deps| deps.parent()).expect("the profile's folder").join("examples/train");
    let trained = Command::new(program).arg(&out).current_dir(gymkhana_tests::root()).output().expect("the example");
    let printed = String::from_utf8_lossy(&trained.stdout);
    assert!(trained.status.success(), "{printed}{}", String::from_utf8_lossy(&trained.stderr));
    assert!(printed.contains("stage sft: success ") && printed.contains("stage rl: success "), "{printed}");
    assert!(out.join("summary.json").is_file() && out.join("gymkhana.lock").is_file());
}
