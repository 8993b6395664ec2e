//! Figures of a run's folder.

use gymkhana_finding::Finding;
use gymkhana_health::{Health, HealthError};
use gymkhana_record::step_metrics::rl;
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Seed, StepMetrics, TaskRef};
use gymkhana_store::RunFolder;

const RUN_FILE: &str = "[[stages]]\nkind = \"rl\"\n";

fn episode(step: u64, member: u32, phase: Phase) -> EpisodeRecord {
    let id = EpisodeId { stage: 0, phase, step, group: 0, member, attempt: 0 };
    let task = TaskRef { split: "train".to_owned(), index: 0 };
    EpisodeRecord::new(id, task, Seed(0), Ending::TurnLimit)
}

fn find<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.check == check).expect("a finding")
}

/// Parts, the journal and the metrics of a run in progress. Evaluations do not count.
#[test]
fn a_folder_is_read_with_its_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), RUN_FILE).expect("a run");
    let mut store = run.episodes().expect("the store opens");
    for member in 0..3 {
        store.append(&episode(0, member, Phase::Train)).expect("appended");
        store.append(&episode(0, member, Phase::After)).expect("appended");
    }
    store.commit().expect("a part");
    store.append(&episode(1, 0, Phase::Train)).expect("appended");
    let mut metrics = run.metrics().expect("metrics");
    metrics.append(0, 0, &StepMetrics::from([(rl::CUT_REPLIES, 0.5), (rl::LOSS, f64::NAN)])).expect("a line");
    let findings = Health::read(run.reader()).expect("figures").findings();
    let endings = find(&findings, "endings");
    assert_eq!(endings.text, "100.0 % cut short without success; turn-limit 100.0 %");
    assert!(find(&findings, "failures").text.ends_with("of 4 episodes"), "{findings:?}");
    assert!(find(&findings, "cut-replies").hint.is_some());
}

/// Only the last steps are read.
#[test]
fn steps_before_the_window_do_not_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), RUN_FILE).expect("a run");
    let mut store = run.episodes().expect("the store opens");
    for step in 0..30 {
        store.append(&episode(step, 0, Phase::Train)).expect("appended");
    }
    let findings = Health::read(run.reader()).expect("figures").findings();
    assert!(find(&findings, "failures").text.ends_with("of 20 episodes"), "{findings:?}");
}

#[test]
fn a_run_file_that_is_not_toml_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), "stages = [").expect("a run");
    let error = Health::read(run.reader()).expect_err("not TOML");
    assert!(matches!(error, HealthError::RunFile(_)), "{error}");
    assert!(error.to_string().starts_with("the run file cannot be read: "), "{error}");
}
