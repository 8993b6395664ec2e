//! Records of served sessions: they replay, score and survive the end of the server.

use std::sync::Arc;

use gymkhana_config::RunFile;
use gymkhana_http::Client;
use gymkhana_orchestration::environments::recorded_environments;
use gymkhana_orchestration::grants::OutboundMode;
use gymkhana_orchestration::plugins::recorded_files;
use gymkhana_orchestration::{Reporter, Silent};
use gymkhana_record::{Boundary, Ending, EpisodeRecord, FailureKind, NamedValue, Seed, Value};
use gymkhana_rollout::ReplayDifference;
use gymkhana_serve::endpoints::Protocol;
use gymkhana_serve::error::ErrorKind;
use gymkhana_serve::session::{NextEpisode, SessionTarget, TurnRequest};
use gymkhana_store::RunReader;
use serde_json::json;
use tempfile::TempDir;

use crate::common::serve_in;

fn records(folder: &TempDir, name: &str) -> (RunReader, Vec<EpisodeRecord>) {
    let run = RunReader::open(&folder.path().join(name)).unwrap();
    let records = run.episodes().unwrap().read_all().map(Result::unwrap).collect();
    (run, records)
}

/// Replays and rescores each record, as the commands do.
async fn assert_replays(run: &RunReader, records: &[EpisodeRecord]) {
    let mut file = RunFile::parse(&run.run_text().unwrap(), "run.toml", &[]).unwrap();
    file.rules.sandbox.instances = Some(32);
    let reporter: Arc<dyn Reporter> = Arc::new(Silent);
    let files = recorded_files(run).unwrap();
    let recorded = recorded_environments(run, &file, &files, OutboundMode::Recorded, &reporter).await;
    let (environments, _) = recorded.unwrap();
    let rollout = &environments.first().rollout;
    for record in records {
        let replayed = rollout.replay_group(std::slice::from_ref(record)).await.unwrap();
        assert_eq!(ReplayDifference::between(record, &replayed[0]), None);
        let scored = rollout.rescore(std::slice::from_ref(record)).await;
        assert_eq!((&scored[0].rewards, &scored[0].scores), (&record.rewards, &record.scores));
    }
}

/// The wrapper gives three attempts, which end in a hole of the lake each. One of two environments lists it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_environment_is_served_inside_of_its_wrappers() {
    let folder = tempfile::tempdir().unwrap();
    let wrapped = "[environments.frozen-lake]\nwrap = [{ plugin = \"retry\", attempts = 3 }]\n";
    let config = format!("{wrapped}[environments.frozen-lake.options]\nslippery = false\n");
    let served = serve_in(Some(&folder), &["frozen-lake", "word-problems", "retry"], &config).await;
    let names: Vec<&str> = served.sessions.catalog().environments().iter().map(|served| served.name()).collect();
    assert_eq!(names, ["frozen-lake", "word-problems"]);
    let me = Client::anyone();
    let open = |options| SessionTarget::Environment { name: Some("frozen-lake".to_owned()), options };
    let option = |name: &str, value| NamedValue { name: name.to_owned(), value };
    let unknown = open(vec![option("attempts", Value::Integer(1))]);
    let refused = served.sessions.open(&me, Protocol::OpenEnv, unknown).await.err().unwrap();
    assert!(refused.to_string().contains("plugin `frozen-lake` has no option `attempts`"), "{refused}");
    // A session of its own map keeps the wrapper, and the other options.
    let large = open(vec![option("map", Value::Text("8x8".to_owned()))]);
    let session = served.sessions.open(&me, Protocol::OpenEnv, large).await.unwrap();
    let began =
        session.reset(NextEpisode { task: Some(0), seed: Some(Seed(1)), ..NextEpisode::default() }).await.unwrap();
    assert!(format!("{began:?}").matches('F').count() > 40, "{began:?}");
    session.close().await.unwrap();
    let session = served.sessions.open(&me, Protocol::OpenEnv, open(vec![])).await.unwrap();
    session.reset(NextEpisode { task: Some(0), seed: Some(Seed(1)), ..NextEpisode::default() }).await.unwrap();
    let mut told = String::new();
    for step in 0..100 {
        let step = session.act(TurnRequest::say(if step % 2 == 0 { "down" } else { "right" })).await.unwrap();
        told += &format!("{step:?}");
        if step.done() {
            break;
        }
    }
    session.close().await.unwrap();
    assert!(told.contains("Attempt 1 of 3 is over") && told.contains("Attempt 2 of 3 is over"), "{told}");
    served.stop().await;
    let (run, recorded) = records(&folder, "frozen-lake");
    assert_eq!((recorded.len(), recorded[0].ending), (1, Ending::Terminated));
    assert!(run.run_text().unwrap().contains("attempts = 3"), "{}", run.run_text().unwrap());
    assert_replays(&run, &recorded).await;
    let mut folders = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string());
    let of_session = folders.find_map(|name| name.ok().filter(|name| name.starts_with("frozen-lake-"))).unwrap();
    let (run, recorded) = records(&folder, &of_session);
    let text = run.run_text().unwrap();
    assert!(["attempts = 3", "map = \"8x8\"", "slippery = false"].iter().all(|line| text.contains(line)), "{text}");
    assert_eq!(recorded.len(), 1);
    assert_replays(&run, &recorded).await;
}

/// A server with other settings, or other plugins, leaves the folder of the first one as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_plugins_and_settings_have_folders_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (alone, with_tool) = (&["word-problems"][..], &["word-problems", "calculator"][..]);
    let limited = "[limits]\nturns = 3\n";
    for (plugins, config) in [(alone, ""), (alone, limited), (with_tool, ""), (alone, ""), (alone, limited)] {
        let served = serve_in(Some(&folder), plugins, config).await;
        let what = SessionTarget::Environment { name: None, options: vec![] };
        let session = served.sessions.open(&Client::anyone(), Protocol::OpenEnv, what).await.unwrap();
        session.reset(NextEpisode { task: Some(1), seed: Some(Seed(2)), ..NextEpisode::default() }).await.unwrap();
        session.act(TurnRequest::say("7")).await.unwrap();
        session.close().await.unwrap();
        served.stop().await;
    }
    for (name, count) in [("word-problems", 2), ("word-problems-2", 2), ("word-problems-3", 1)] {
        let (run, records) = records(&folder, name);
        assert_eq!(records.len(), count, "{name}");
        assert_replays(&run, &records).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn served_episodes_replay_and_score() {
    let folder = tempfile::tempdir().unwrap();
    let config = "success = \"answer-match.correct\"\n[sessions]\nlive = 1\n";
    let plugins = ["word-problems", "calculator", "answer-match"];
    let served = serve_in(Some(&folder), &plugins, config).await;
    let me = Client::anyone();
    let what = SessionTarget::Environment { name: None, options: vec![] };
    let session = served.sessions.open(&me, Protocol::OpenEnv, what.clone()).await.unwrap();
    let begin = || NextEpisode { task: Some(5), seed: Some(Seed(11)), ..NextEpisode::default() };
    session.reset(begin()).await.unwrap();
    // Another session takes the only place, so that the first one is parked in the middle.
    let other = served.sessions.open(&me, Protocol::OpenEnv, what).await.unwrap();
    session.call("calculate", &json!({ "expression": "1/0" })).await.unwrap();
    other.reset(begin()).await.unwrap();
    let step = session.act(TurnRequest::say("The answer is 42.")).await.unwrap();
    let score = step.score.clone().unwrap();
    assert!(step.done() && score.plugins[0].plugin == "answer-match", "{step:?}");
    assert_eq!(step.reward(0), score.rewards[0], "the episode's whole reward is in its only step");
    other.act(TurnRequest::say("I do not know.")).await.unwrap();
    let twice = served.sessions.score_group(&me, &[session.id(), other.id(), session.id()]).await.unwrap_err();
    assert!(twice.kind == ErrorKind::BadInput && twice.message.contains("in the group twice"), "{twice}");
    let crowd = served.sessions.score_group(&me, &vec![session.id(); 257]).await.unwrap_err();
    assert!(crowd.kind == ErrorKind::TooLarge && crowd.message.contains("at most 256"), "{crowd}");
    let group = served.sessions.score_group(&me, &[session.id(), other.id()]).await.unwrap();
    assert_eq!(group[0].rewards, score.rewards);
    // A third episode is given up before its end.
    session.reset(begin()).await.unwrap();
    session.close().await.unwrap();
    let tools = served.sessions.open(&me, Protocol::Mcp, SessionTarget::Tools { seed: Some(2) }).await.unwrap();
    assert_eq!(tools.call("calculate", &json!({ "expression": "2+2" })).await.unwrap().0.text(), "4");
    served.stop().await;
    let (run, recorded) = records(&folder, "word-problems");
    let endings: Vec<Ending> = recorded.iter().map(|record| record.ending).collect();
    assert_eq!(endings, [Ending::Terminated, Ending::Terminated, Ending::EarlyStopped]);
    assert_replays(&run, &recorded).await;
    let (run, recorded) = records(&folder, "tools-only");
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0].ending, Ending::EarlyStopped, "an orderly end of the server closes its sessions");
    assert_replays(&run, &recorded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_no_finished_turn_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve_in(Some(&folder), &["frozen-lake"], "").await;
    assert_eq!(served.recovered.episodes, 0);
    let what = SessionTarget::Environment { name: None, options: vec![] };
    let session = served.sessions.open(&Client::anyone(), Protocol::OpenEnv, what).await.unwrap();
    session.reset(NextEpisode { task: Some(1), seed: Some(Seed(4)), ..NextEpisode::default() }).await.unwrap();
    let shown = session.act(TurnRequest::say("nonsense")).await.unwrap();
    drop(session);
    served.abandon().await;
    // The last line of the journal is cut off in the middle.
    let journal = folder.path().join("live-0.jsonl");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes.extend_from_slice(b"{\"event\":\"turn\",\"folder\":\"frozen");
    std::fs::write(&journal, bytes).unwrap();
    let served = serve_in(Some(&folder), &["frozen-lake"], "").await;
    assert_eq!((served.recovered.episodes, served.recovered.torn), (1, true));
    served.stop().await;
    let (_, recorded) = records(&folder, "frozen-lake");
    let [record] = &recorded[..] else { panic!("{} records", recorded.len()) };
    assert_eq!(record.ending, Ending::Dropped);
    let failure = record.failures.last().unwrap();
    assert_eq!((&failure.at, failure.kind), (&Boundary::Host, FailureKind::Fault));
    assert!(failure.message.starts_with("the server was killed: the record is complete up to its last turn (1 "));
    let last = record.turns.last().unwrap();
    let gymkhana_record::Turn::Observation { content, .. } = last else { panic!("{last:?}") };
    assert_eq!(content, &shown.observations[0].1);
}
