//! Runs with an inference server: the same tokens as without it, new weights before each use, failures and rejections.

mod outages;
mod several;

use crate::common::{Desk, TIC_TAC_TOE, WORD_PROBLEMS};
use crate::peer::{Mischief, Peer};
use gymkhana_policy::{Policy, ScoreRequest};
use gymkhana_policy_server::Protocol;
use gymkhana_record::{EpisodeRecord, Phase, Segment};
use gymkhana_trainer::Trainer;
use serde_json::Value;

/// A run of two steps from a model's folder.
const RUN: &str = r#"
seed = 1
success = "answer-match.correct"
limits = { turns = 2, reply_tokens = 24 }
evaluation = { tasks = 3 }
policy = { max_concurrent_sequences = 1, checkpoint = "model" }

[[stages]]
kind = "rl"
steps = 2
groups = 2
group_size = 4
"#;

/// A run of a game whose rewards vary, so that weights change; the model first learns that a move is a digit.
const GAME: &str = r#"
seed = 1
success = "environment.success"
limits = { turns = 8, reply_tokens = 2 }
evaluation = { tasks = 2 }
environment = { options = { opening = 4 } }
policy = { max_concurrent_sequences = 1, checkpoint = "model" }

[[stages]]
kind = "sft"
steps = 12
batch = 4
optimizer = { learning_rate = 5e-2 }

[[stages]]
kind = "rl"
steps = 3
groups = 4
group_size = 4
optimizer = { learning_rate = 1e-2 }
"#;

/// The run file with a server and one retry.
fn served(run: &str, url: &str, protocol: &str) -> String {
    let server = format!(
        "checkpoint = \"model\", server = {{ url = \"{url}\", protocol = \"{protocol}\", name = \"tiny\", retries = 1 }}"
    );
    run.replace("checkpoint = \"model\"", &server)
}

fn peer(desk: &Desk, protocol: Protocol) -> Peer {
    Peer::start(protocol, &desk.path("model"))
}

fn of_step(records: &[EpisodeRecord], step: u64) -> Vec<&EpisodeRecord> {
    records.iter().filter(|record| record.id.phase == Phase::Train && record.id.step == step).collect()
}

/// Largest difference between recorded and recomputed log-probabilities of a segment's sampled tokens.
fn largest_difference(trainer: &Trainer, segment: &Segment) -> f32 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let scored = runtime.block_on(
        trainer
            .score(ScoreRequest { prefix: segment.tokens()[..1].into(), continuation: segment.tokens()[1..].into() }),
    );
    let scored = scored.expect("scored").log_probs;
    let places = segment.log_probs()[1..].iter().zip(&scored).zip(&segment.sampled()[1..]);
    let differences = places.filter(|(_, sampled)| **sampled).map(|((recorded, scored), _)| (recorded - scored).abs());
    differences.fold(0.0, f32::max)
}

/// Weight version that sampled all tokens of a step.
fn version_of(records: &[&EpisodeRecord]) -> u32 {
    let segments = records.iter().flat_map(|record| &record.segments);
    let tokens = segments.flat_map(|segment| segment.versions().iter().zip(segment.sampled()));
    let versions: Vec<u32> = tokens.filter(|(_, sampled)| **sampled).map(|(version, _)| *version).collect();
    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
    versions[0]
}

#[test]
fn a_run_through_a_server_is_the_run_without_it_and_new_weights_play_each_step() {
    let alone = Desk::with_run_file(GAME).with_model(2, 512);
    alone.run(TIC_TAC_TOE, &[]).succeeded();
    let expected = alone.episodes();
    for (protocol, name) in [(Protocol::Vllm, "vllm"), (Protocol::Sglang, "sglang")] {
        let desk = Desk::with_run_file(GAME).with_model(2, 512);
        let peer = peer(&desk, protocol);
        desk.write("run.toml", served(GAME, &peer.url(), name));
        desk.run(TIC_TAC_TOE, &[]).succeeded();
        let found = desk.episodes();
        // Before any update. SGLang receives 63 bits of a seed, so half of its draws differ.
        let alike = |record: &&EpisodeRecord| match record.id.phase {
            Phase::Before => record.id.stage == 0,
            Phase::BeforeSampled => record.id.stage == 0 && protocol == Protocol::Vllm,
            Phase::Train => record.id.step == 0 && protocol == Protocol::Vllm,
            _ => false,
        };
        let (found_alike, expected_alike): (Vec<_>, Vec<_>) =
            (found.iter().filter(alike).collect(), expected.iter().filter(alike).collect());
        assert_eq!(found_alike.len(), if protocol == Protocol::Vllm { 2 + 2 + 16 } else { 2 });
        for (found, expected) in found_alike.into_iter().zip(expected_alike) {
            same_episode(found, expected);
        }
        // The initial weights of the server, those of the run, those after the supervised stage, and those after each
        // step of the other.
        let loaded = peer.loaded();
        let mut versions = vec![];
        for step in 0..3 {
            let records = of_step(&found, step);
            assert_eq!(records.len(), 16);
            let version = version_of(&records);
            versions.push(version);
            let place = 2 + version as usize - 12;
            let (own, before) = (&loaded[place], &loaded[place - 1]);
            let segments = || records.iter().flat_map(|record| &record.segments);
            assert!(segments().all(|segment| largest_difference(own, segment) < 1e-4), "step {step}: its own weights");
            assert!(segments().any(|segment| largest_difference(before, segment) > 1e-3), "step {step}: they differ");
        }
        assert_eq!(versions, [12, 13, 14], "every step's tokens are of the weights of the step before");
        assert_eq!(loaded.len(), 2 + 1 + 3);
        assert!(!desk.path("out/served").exists(), "what the server has loaded is removed");
    }
}

/// A supervised stage does not sample, so that only the evaluation after it needs its weights.
#[test]
fn weights_are_pushed_before_their_next_use() {
    const STAGE: &str = r#"
seed = 1
success = "environment.success"
limits = { turns = 8, reply_tokens = 2 }
evaluation = { tasks = 2, sampled = false }
environment = { options = { opening = 4 } }
policy = { max_concurrent_sequences = 1, checkpoint = "model" }

[[stages]]
kind = "sft"
steps = 5
batch = 4
optimizer = { learning_rate = 5e-2 }
"#;
    for (tasks, pushes) in [("tasks = 2", 2), ("tasks = 0", 1)] {
        let run = STAGE.replace("tasks = 2", tasks);
        let desk = Desk::with_run_file(&run).with_model(2, 512);
        let peer = peer(&desk, Protocol::Vllm);
        desk.write("run.toml", served(&run, &peer.url(), "vllm"));
        desk.run(TIC_TAC_TOE, &[]).succeeded();
        let metrics = std::fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
        assert_eq!(metrics.lines().count(), 5, "steps");
        let requests = peer.requests();
        let updates: Vec<usize> =
            (0..).zip(&requests).filter(|(_, (path, _))| path == "/collective_rpc").map(|(at, _)| at).collect();
        assert_eq!(
            updates.len(),
            pushes,
            "{tasks}: the run's own weights, and those of the last step if they are used"
        );
        let samples =
            |(path, body): &&(String, Value)| path == "/v1/completions" && body.get("prompt_logprobs").is_none();
        let after = requests[updates[pushes - 1]..].iter().filter(samples).count();
        assert_eq!(after > 0, pushes == 2, "{tasks}: the evaluation comes after the push");
    }
}

#[test]
fn a_server_that_computes_with_old_weights_ends_the_run() {
    let desk = Desk::with_run_file(GAME).with_model(2, 512);
    let peer = peer(&desk, Protocol::Vllm);
    peer.keep_head(true);
    desk.write("run.toml", served(GAME, &peer.url(), "vllm"));
    // The weights of the first push are those that the server has; the next ones are those after the supervised stage.
    let told = desk.run(TIC_TAC_TOE, &[]).mistake("old weights");
    for words in [peer.url().as_str(), "weights of version 12", "policy.server.max_divergence = 0.1", "host export"] {
        assert!(told.contains(words), "`{told}` does not say `{words}`");
    }
    assert!(of_step(&desk.episodes(), 0).is_empty(), "no step is played with them");
}

/// Reports of a server that computes other log-probabilities while it generates: each too small by 1. The k3 estimate of
/// the divergence is then `exp(-1) + 1 - 1` in every token.
#[test]
fn divergence_of_the_behaviour_policy_is_measured_and_bounded() {
    let shift = Mischief::Edits(|answer| {
        let listed = answer.pointer_mut("/choices/0/logprobs/token_logprobs").and_then(Value::as_array_mut);
        for number in listed.into_iter().flatten() {
            *number = (number.as_f64().expect("a number") - 1.0).into();
        }
    });
    let desk = Desk::with_run_file(GAME).with_model(2, 512);
    let peer = peer(&desk, Protocol::Vllm);
    peer.always(Some(shift));
    desk.write("run.toml", served(GAME, &peer.url(), "vllm"));
    let told = desk.run(TIC_TAC_TOE, &[]).mistake("a divergence");
    for words in ["is 0.368 nats per token, above policy.max_behaviour_divergence = 0.1", "hint: check the server's"] {
        assert!(told.contains(words), "`{told}` does not say `{words}`");
    }
    let accepted = ["--set", "policy.max_behaviour_divergence=0.5", "--set", "stages.rl.steps=1"];
    let arguments = [&["run", "run.toml", "--plugins", TIC_TAC_TOE, "--out", "accepted"], &accepted[..]].concat();
    desk.host(&arguments).succeeded();
    let metrics = std::fs::read_to_string(desk.path("accepted/metrics.jsonl")).expect("metrics");
    let last: Value = serde_json::from_str(metrics.lines().last().expect("a line")).expect("JSON");
    let found = last["values"]["on_policy_divergence"].as_f64().expect("a number");
    assert!((found - (-1.0_f64).exp()).abs() < 1e-3, "{last}");
}

#[test]
fn vllm_with_a_tied_model_is_refused_before_anything_is_written() {
    let desk = Desk::with_run_file(RUN).with_model(2, 512);
    let model = desk.path("model").to_string_lossy().into_owned();
    let peer_of_tied = peer(&desk, Protocol::Vllm);
    peer_of_tied.name_root(&model);
    desk.write("run.toml", served(RUN, &peer_of_tied.url(), "vllm"));
    let told = desk.run(WORD_PROBLEMS, &[]).mistake("tied embeddings");
    assert!(told.contains("tied embeddings") && told.contains(&format!("host export {model} DIR")), "{told}");
    assert!(!desk.path("out").exists());
    // SGLang updates a tied model, and vLLM a copy of it that is not tied.
    let sglang = peer(&desk, Protocol::Sglang);
    sglang.name_root(&model);
    desk.write("run.toml", served(RUN, &sglang.url(), "sglang"));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    desk.host(&["export", "model", "untied"]).succeeded();
    peer_of_tied.name_root(&desk.path("untied").to_string_lossy());
    desk.write("run.toml", served(RUN, &peer_of_tied.url(), "vllm"));
    let arguments = ["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", "other"];
    desk.host(&arguments).succeeded();
}

/// The weights pass through the run's folder, which does not exist before the server has loaded them.
#[test]
fn a_server_that_cannot_take_weights_leaves_no_folder() {
    for (protocol, name) in [(Protocol::Vllm, "vllm"), (Protocol::Sglang, "sglang")] {
        let desk = Desk::with_run_file(RUN).with_model(2, 512);
        let peer = peer(&desk, protocol);
        desk.write("run.toml", served(RUN, &peer.url(), name));
        let arguments = ["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", "runs/first"];
        peer.refuse_weights(true);
        let told = desk.host(&arguments).mistake("refused weights");
        for words in [peer.url().as_str(), "cannot load the new weights", "cannot be read", "hint: start it"] {
            assert!(told.contains(words), "`{told}` does not say `{words}`");
        }
        assert!(!desk.path("runs").exists(), "neither the folder nor its parent stays");
        // The folder of an earlier, empty attempt stays as it was.
        std::fs::create_dir_all(desk.path("runs/first")).expect("a folder");
        desk.host(&arguments).mistake("refused weights");
        assert_eq!(names_in(&desk.path("runs/first")), Vec::<String>::new());
        // vLLM does not stay in the pause of an update that failed.
        peer.refuse_weights(false);
        desk.host(&arguments).succeeded();
        assert!(!desk.path("runs/first/served").exists());
        // A resumed run that the server refuses stays as it is.
        let kept = names_in(&desk.path("runs/first"));
        peer.refuse_weights(true);
        let resumed = ["run", "--resume", "runs/first", "--set", "stages.rl.steps=3"];
        desk.host(&resumed).mistake("refused weights");
        assert_eq!(names_in(&desk.path("runs/first")), kept);
        peer.refuse_weights(false);
        desk.host(&resumed).succeeded();
    }
}

/// Sorted names of a folder's entries.
fn names_in(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name().into_string();
    let mut names: Vec<String> = entries.map(|entry| name(entry).expect("text")).collect();
    names.sort();
    names
}

fn same_episode(found: &EpisodeRecord, expected: &EpisodeRecord) {
    assert_eq!(found.id, expected.id);
    assert_eq!(found.rewards, expected.rewards, "{}", found.id);
    assert_eq!(found.segments.len(), expected.segments.len());
    for (found, expected) in found.segments.iter().zip(&expected.segments) {
        assert_eq!((found.tokens(), found.sampled()), (expected.tokens(), expected.sampled()));
        assert_eq!(found.versions(), expected.versions());
        let near = |(found, expected): (&f32, &f32)| (found - expected).abs() < 1e-4;
        assert!(found.log_probs().iter().zip(expected.log_probs()).all(near), "the same probabilities");
    }
}

/// Weights are pushed during episodes; no token exceeds the staleness bound or comes from later weights.
#[test]
fn the_staleness_bound_holds_with_a_server() {
    let lagged = GAME
        .replace("group_size = 4", "group_size = 4\nmax_staleness = 1")
        .replace("max_concurrent_sequences = 1", "max_concurrent_sequences = 16");
    let desk = Desk::with_run_file(&lagged).with_model(2, 512);
    let peer = peer(&desk, Protocol::Sglang);
    desk.write("run.toml", served(&lagged, &peer.url(), "sglang"));
    desk.run(TIC_TAC_TOE, &[]).succeeded();
    let found = desk.episodes();
    let mut older = 0;
    for step in 0..3 {
        let now = 12 + step as u32;
        for segment in of_step(&found, step).iter().flat_map(|record| &record.segments) {
            for (version, _) in segment.versions().iter().zip(segment.sampled()).filter(|(_, sampled)| **sampled) {
                assert!((now - 1..=now).contains(version), "step {step} has a token of version {version}");
                older += u32::from(*version < now);
            }
        }
    }
    assert!(older > 0, "steps are played ahead");
}

#[test]
fn passing_faults_cost_nothing() {
    let calm = Desk::with_run_file(RUN).with_model(2, 512);
    let peer_of_calm = peer(&calm, Protocol::Vllm);
    calm.write("run.toml", served(RUN, &peer_of_calm.url(), "vllm"));
    calm.run(WORD_PROBLEMS, &[]).succeeded();
    let rough = Desk::with_run_file(RUN).with_model(2, 512);
    let peer_of_rough = peer(&rough, Protocol::Vllm);
    rough.write("run.toml", served(RUN, &peer_of_rough.url(), "vllm"));
    peer_of_rough.misbehave(&[Mischief::Status(503, "0"), Mischief::Garbage]);
    // The first failure hits the check at the start, the second its only retry.
    let refused = rough.run(WORD_PROBLEMS, &[]).mistake("two faults and one retry");
    assert!(refused.contains("not JSON"), "{refused}");
    peer_of_rough.misbehave(&[Mischief::Status(429, "0")]);
    rough.run(WORD_PROBLEMS, &[]).succeeded();
    let tokens = |desk: &Desk| -> Vec<Vec<u32>> {
        let records = desk.episodes();
        of_step(&records, 0)
            .iter()
            .flat_map(|record| &record.segments)
            .map(|segment| segment.tokens().to_vec())
            .collect()
    };
    assert_eq!(tokens(&calm), tokens(&rough));
}

#[test]
fn texts_alone_are_evaluated_and_never_trained_on() {
    let desk = Desk::with_run_file(RUN).with_model(2, 512);
    let peer = peer(&desk, Protocol::Openai);
    desk.write("run.toml", served(RUN, &peer.url(), "openai"));
    let refused = desk.run(WORD_PROBLEMS, &[]).mistake("texts");
    assert!(refused.contains("`rl`") && refused.contains("host eval") && refused.contains("openai"), "{refused}");
    assert!(peer.requests().is_empty(), "nothing was asked");
    let plugins = ["--plugins", WORD_PROBLEMS];
    let eval = ["eval", "model", "run.toml", "--tasks", "3", "--json"];
    let arguments = [&eval[..], &plugins[..]].concat();
    let results = desk.host(&arguments).succeeded();
    let figures: Value = serde_json::from_str(&results).expect("JSON");
    assert_eq!((figures["episodes"].as_u64(), figures["dropped"].as_u64()), (Some(3), Some(0)), "{results}");
    assert!(peer.requests().iter().any(|(path, _)| path == "/v1/completions"));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let desk = Desk::with_run_file(RUN).with_model(2, 512);
    let url = "http://127.0.0.1:9";
    let refused = |text: String, words: &[&str]| {
        desk.write("run.toml", text);
        let told = desk.run(WORD_PROBLEMS, &[]).mistake(words[0]);
        for word in words {
            assert!(told.contains(word), "`{told}` does not say `{word}`");
        }
    };
    let vllm = || served(RUN, url, "vllm");
    refused(vllm().replace("checkpoint = \"model\", ", ""), &["policy.checkpoint"]);
    refused(vllm().replace("seed = 1", "seed = 1\ndeterministic = true"), &["deterministic", "server"]);
    refused(vllm().replace("protocol = \"vllm\"", "protocol = \"tgi\""), &["tgi", "sglang"]);
    refused(vllm().replace(url, "ftp://a.b"), &["policy.server.url", "http://"]);
    refused(vllm().replace("retries = 1", "max_divergence = -1.0"), &["policy.server.max_divergence", "0 to 100"]);
    refused(vllm().replace("retries = 1", "key_env = \"NO_SUCH_KEY\""), &["NO_SUCH_KEY", "policy.server.key_env"]);
    refused(vllm().replace("group_size = 4", "group_size = 4\ntemperature = 0.7"), &["temperature 0.7", "processed"]);
    let processed = vllm().replace("retries = 1", "logprobs = \"processed\"");
    refused(processed.replace("group_size = 4", "group_size = 4\ntop_k = 5"), &["top_k", "processed"]);
    refused(served(RUN, url, "sglang").replace("group_size = 4", "group_size = 4\nmin_p = 0.1"), &["min_p", "SGLang"]);
    refused(processed.replace("\"vllm\"", "\"sglang\""), &["policy.server.logprobs", "hint: remove it"]);
    // Nothing listens at this address.
    refused(vllm(), &[url, "policy.server.url", "start it"]);
}

#[test]
fn a_missing_model_that_a_server_should_train_is_named() {
    let desk = Desk::with_run_file(RUN);
    let server = "trainer={ kind = \"tinker\", url = \"http://127.0.0.1:9\" }";
    let refused = desk.run(WORD_PROBLEMS, &["--set", server]).mistake("a missing model");
    assert!(refused.contains("policy.checkpoint: `model` cannot be used"), "{refused}");
    assert!(refused.contains("hint: name the folder of the model that is trained"), "{refused}");
    assert!(!desk.path("out").exists());
}
