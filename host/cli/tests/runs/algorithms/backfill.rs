//! The preset `dart` in a whole run: groups without a success get the stored success of their task.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gymkhana_record::EpisodeRecord;
use serde_json::Value;

use crate::common::Desk;
use crate::common::taught::teach;

const STEPS: u64 = 6;

/// Number of groups per step that get a stored success, counted from the records: a success of an earlier step at the same
/// task, and none of its own.
fn expected(records: &[EpisodeRecord]) -> Vec<f64> {
    let mut stored = BTreeSet::new();
    let mut counts = Vec::new();
    for step in 0..STEPS {
        let of_step = || records.iter().filter(move |record| record.id.step == step);
        let solved: BTreeSet<u64> = of_step().filter(|record| record.success).map(|record| record.task.index).collect();
        let groups: BTreeSet<(u32, u64)> = of_step().map(|record| (record.id.group, record.task.index)).collect();
        counts.push(groups.iter().filter(|(_, task)| !solved.contains(task) && stored.contains(task)).count() as f64);
        stored.extend(solved);
    }
    counts
}

/// The policy was trained to say `yes`, which succeeds, and `no` with about equal probability. Eight tasks, four a step.
#[test]
fn groups_without_a_success_get_a_stored_one() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("says-yes-or-no");
    // Checkpoints are never overwritten; this one is from an earlier run of the tests.
    let _none = fs::remove_dir_all(&folder);
    tokio::runtime::Runtime::new().expect("a runtime").block_on(teach(&["yes", "no"], &folder));
    let desk = Desk::with_run_file(&format!(
        r#"
        seed = 1
        deterministic = true
        success = "environment.success"
        policy = {{ checkpoint = "{}", max_concurrent_sequences = 8 }}
        environment.train = "test"
        limits = {{ turns = 1, reply_tokens = 8 }}
        evaluation.tasks = 0
        [[stages]]
        kind = "rl"
        algorithm = "dart"
        steps = {STEPS}
        groups = 4
        group_size = 2
        optimizer = {{ learning_rate = 1e-6 }}
        "#,
        folder.display()
    ));
    desk.run("plugins/guest-hostile-environment.wasm", &[]).succeeded();
    let metrics = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let found: Vec<f64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|line| line["values"]["backfilled"].as_f64().expect("a number"))
        .collect();
    let expected = expected(&desk.episodes());
    assert_eq!(found, expected);
    assert!(expected.iter().sum::<f64>() > 0.0, "no group was backfilled");
}
