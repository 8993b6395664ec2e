//! A run with two servers, of which one falls silent and returns.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::{GAME, largest_difference, of_step, peer, served, version_of};
use crate::common::{Desk, TIC_TAC_TOE};
use gymkhana_policy_server::Protocol;

/// No episode is lost, each step is played with the weights of the step before, and the run is replayed.
#[test]
fn a_run_goes_on_with_one_server_and_takes_the_other_back() {
    let desk = Desk::with_run_file(GAME).with_model(2, 512);
    let peers = [peer(&desk, Protocol::Vllm), peer(&desk, Protocol::Vllm)];
    let file =
        served(GAME, &peers[0].url(), "vllm").replace("retries = 1", &format!("urls = [\"{}\"]", peers[1].url()));
    desk.write("run.toml", file);
    let mut command = desk.command(&["run", "run.toml", "--plugins", TIC_TAC_TOE, "--out", "out"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the host can be started");
    let mut lines = BufReader::new(run.stderr.take().expect("piped")).lines().map(|line| line.expect("a line"));
    // After the checks of the start, in the first evaluation.
    peers[1].die_after(4);
    let told: Vec<String> =
        lines.by_ref().take_while(|line| !line.contains("its turns are repeated elsewhere")).collect();
    peers[1].restart();
    peers[1].revive();
    let rest: Vec<String> = lines.collect();
    assert!(run.wait().expect("it ends").success(), "{told:?} {rest:?}");
    assert!(rest.iter().any(|line| line.contains("answers again, and gets the weights")), "{told:?} {rest:?}");
    let (records, loaded) = (desk.episodes(), peers[0].loaded());
    assert!(records.iter().all(|record| record.failures.is_empty()), "no episode is lost");
    let mut versions = vec![];
    for step in 0..3 {
        let own = of_step(&records, step);
        assert_eq!(own.len(), 16, "step {step}");
        let version = version_of(&own);
        versions.push(version);
        let weights = &loaded[2 + version as usize - 12];
        let segments = || own.iter().flat_map(|record| &record.segments);
        assert!(segments().all(|segment| largest_difference(weights, segment) < 1e-4), "step {step}: its own weights");
    }
    assert_eq!(versions, [12, 13, 14], "every step's tokens are of the weights of the step before");
    assert!(peers[1].requests().iter().any(|(path, _)| path == "/v1/completions"));
    desk.host(&["replay", "out"]).succeeded();
}
