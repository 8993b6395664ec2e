//! A server that falls silent: the run waits, gives it the weights again, and ends resumable if it waits too long.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use super::{GAME, RUN, largest_difference, of_step, peer, served};
use crate::common::{Desk, TIC_TAC_TOE, WORD_PROBLEMS, json};
use crate::peer::{Mischief, Peer};
use gymkhana_policy_server::Protocol;
use gymkhana_record::{EpisodeRecord, Phase};
use serde_json::Value;

/// Starts the game and waits until the server has the weights after the supervised stage.
fn begin(desk: &Desk, peer: &Peer) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut command = desk.command(&["run", "run.toml", "--plugins", TIC_TAC_TOE, "--out", "out"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the host can be started");
    let lines = BufReader::new(run.stderr.take().expect("piped")).lines();
    while peer.loaded().len() < 3 {
        assert!(run.try_wait().expect("a state").is_none(), "the run ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    (run, lines)
}

#[test]
fn a_server_that_dies_ends_the_run_and_a_resume_goes_on() {
    let run = format!("failures = {{ outage_seconds = 1 }}\n{RUN}");
    let desk = Desk::with_run_file(&run).with_model(2, 512);
    let peer = peer(&desk, Protocol::Vllm);
    desk.write("run.toml", served(&run, &peer.url(), "vllm"));
    // It answers the checks at the start and then dies.
    peer.die_after(10);
    let outcome = desk.run(WORD_PROBLEMS, &[]);
    let told = outcome.mistake("a dead server");
    assert!(told.contains(&peer.url()) && told.contains("--resume") && told.contains("failed 2 times"), "{told}");
    assert!(told.contains("waiting for the policy server at"), "{told}");
    for record in desk.episodes().iter().filter(|record| !record.failures.is_empty()) {
        assert_eq!(record.ending, gymkhana_record::Ending::Dropped, "no agent pays for it: {record:?}");
        assert!(record.failures.iter().all(|failure| failure.at == gymkhana_record::Boundary::Model));
        assert_eq!(record.rewards.iter().sum::<f64>(), 0.0);
    }
    peer.revive();
    desk.run(WORD_PROBLEMS, &["--resume"]).succeeded();
    let records = desk.episodes();
    for step in [0, 1] {
        let sound = of_step(&records, step).into_iter().filter(|record| record.failures.is_empty()).count();
        assert_eq!(sound, 8, "step {step}");
    }
    assert_eq!(json(&desk.path("out/summary.json"))["stages"][0]["episodes"], 16);
}

/// The server comes back with the weights that it was started with, as a restarted one does.
#[test]
fn an_outage_is_waited_out_and_the_server_gets_its_weights_again() {
    let game = format!("failures = {{ retries = 0 }}\n{GAME}");
    let desk = Desk::with_run_file(&game).with_model(2, 512);
    let peer = peer(&desk, Protocol::Vllm);
    desk.write("run.toml", served(&game, &peer.url(), "vllm"));
    let (mut run, lines) = begin(&desk, &peer);
    let mut lines = lines.map(|line| line.expect("a line"));
    peer.die_after(20);
    let told: Vec<String> = lines.by_ref().take_while(|line| !line.contains("next attempt in 2 s")).collect();
    assert!(told.iter().any(|line| line.contains("were lost, none of them to a plugin: episode ")), "{told:?}");
    peer.restart();
    peer.revive();
    let rest: Vec<String> = lines.collect();
    assert!(run.wait().expect("it ends").success(), "{told:?} {rest:?}");
    let (records, loaded) = (desk.episodes(), peer.loaded());
    for step in 0..3 {
        let sound: Vec<&EpisodeRecord> =
            of_step(&records, step).into_iter().filter(|record| record.failures.is_empty()).collect();
        // The group in which the server died keeps what was played of it.
        let groups: BTreeSet<u32> = sound.iter().map(|record| record.id.group).collect();
        assert_eq!(groups.len(), 4, "step {step}: no group is missing, and none was trained on twice");
        assert!(sound.len() > 12, "step {step}: {} episodes", sound.len());
        // After the restart: the model of the start, then one update before each step.
        let own = &loaded[1 + step as usize];
        let segments = sound.iter().flat_map(|record| &record.segments);
        for segment in segments.filter(|segment| segment.versions().iter().any(|version| *version == 12 + step as u32))
        {
            assert!(largest_difference(own, segment) < 1e-4, "step {step}: tokens of the run's own weights");
        }
    }
    let metrics = std::fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let dropped: f64 = metrics
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).expect("JSON")["values"]["dropped"].as_f64())
        .sum();
    assert_eq!(
        dropped,
        records.iter().filter(|record| record.id.phase == Phase::Train && record.is_lost()).count() as f64
    );
}

/// An interruption that retries bridge, after which the server has the weights that it was started with.
#[test]
fn tokens_of_a_server_that_was_started_again_are_not_trained_on() {
    let desk = Desk::with_run_file(GAME).with_model(2, 512);
    let peer = peer(&desk, Protocol::Vllm);
    desk.write("run.toml", served(GAME, &peer.url(), "vllm").replace("retries = 1", "retries = 5"));
    let (mut run, lines) = begin(&desk, &peer);
    let mut lines = lines.map(|line| line.expect("a line"));
    peer.die_after(4);
    assert!(lines.by_ref().any(|line| line.contains("waiting for the policy server at")));
    peer.restart();
    peer.revive();
    let rest: Vec<String> = lines.collect();
    assert_eq!(run.wait().expect("it ends").code(), Some(2), "{rest:?}");
    let told = rest.join("\n");
    assert!(told.contains("was silent, and may have been started again: the policy server at"), "{told}");
    assert!(told.contains("--resume"), "{told}");
}

#[test]
fn a_server_that_refuses_ends_the_run_at_once() {
    let desk = Desk::with_run_file(RUN).with_model(2, 512);
    let peer = peer(&desk, Protocol::Vllm);
    desk.write("run.toml", served(RUN, &peer.url(), "vllm"));
    peer.die_after(10);
    peer.always(Some(Mischief::Status(401, "")));
    let told = desk.run(WORD_PROBLEMS, &[]).mistake("a revoked key");
    assert!(told.contains("refused with 401") && told.contains("--resume") && !told.contains("next attempt"), "{told}");
}
