//! A server that is killed during a reply or an update ends the run, which then resumes.

use std::path::Path;

use crate::common::killed::Signalled;
use crate::common::{Desk, TIC_TAC_TOE, json, run_arguments};
use crate::runs::{desk, write_run_file};
use crate::server::Vllm;

/// Runs, kills the server as soon as `reached` holds, and resumes with a new server.
fn killed_when(desk: &Desk, reached: impl Fn(&Vllm) -> bool) {
    let model = desk.path("served");
    let mut vllm = Vllm::start(&model, &desk.path("log"));
    write_run_file(desk, &vllm);
    let mut run = Signalled::start(desk, &run_arguments(TIC_TAC_TOE, &[]));
    run.wait_until(|| reached(&vllm));
    vllm.kill();
    let told = run.end().mistake("a killed server");
    for word in [vllm.url().as_str(), "--resume"] {
        assert!(told.contains(word), "`{told}` does not say `{word}`");
    }
    let port = vllm.port();
    drop(vllm);
    let _again = Vllm::start_on(port, &model, &desk.path("log-again"));
    desk.run(TIC_TAC_TOE, &["--resume"]).succeeded();
    assert_whole(&desk.path("out"));
}

/// Checks that all episodes of the RL stage are there: four steps of four groups of four.
fn assert_whole(out: &Path) {
    let summary = json(&out.join("summary.json"));
    assert_eq!(summary["stages"][1]["episodes"], 64, "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs vLLM: `cargo xtask test --reference vllm` runs it"]
async fn a_server_killed_during_a_reply_ends_the_run_which_resumes() {
    let desk = desk().await;
    // More replies than the evaluations before and between the stages have.
    tokio::task::block_in_place(|| killed_when(&desk, |vllm| vllm.requests("/v1/completions") > 80));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs vLLM: `cargo xtask test --reference vllm` runs it"]
async fn a_server_killed_during_an_update_ends_the_run_which_resumes() {
    let desk = desk().await;
    // The third pause precedes the update after the first RL step.
    tokio::task::block_in_place(|| killed_when(&desk, |vllm| vllm.requests("/pause") == 3));
}
