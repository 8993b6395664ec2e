//! Learning from recorded episodes, and from files of conversations and preferences.

mod expert_iteration;
mod preferences;

use std::fs;

use crate::common::{Desk, Outcome, SMALL_RUN, WORD_PROBLEMS, episodes};
use gymkhana_record::{EpisodeRecord, Phase, Segment};
use serde_json::Value;

/// A run with eight demonstrations and 32 episodes of the policy, under instructions.
fn recorded() -> Desk {
    let desk = Desk::with_run_file(&SMALL_RUN.replace("[policy]", "[policy]\nsystem = \"Be brief.\""));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    desk
}

/// A run file with one supervised stage of two steps with these sources.
fn learner(sources: &str) -> String {
    let (head, _) = SMALL_RUN.split_once("[[stages]]").expect("stages");
    let head = head.replace("[policy]", "[policy]\nsystem = \"Be brief.\"").replace("tasks = 4", "tasks = 0");
    format!("{head}[[stages]]\nkind = \"sft\"\nsteps = 2\nbatch = 4\n{sources}")
}

const DEMONSTRATIONS: &str = "success and purpose == 'demonstrations'";

/// Runs a file into a folder.
fn learn(desk: &Desk, name: &str, text: &str) -> Outcome {
    let file = format!("{name}.toml");
    desk.write(&file, text);
    desk.host(&["run", &file, "--plugins", WORD_PROBLEMS, "--out", name])
}

/// The values of the metrics of each step.
fn steps(desk: &Desk, name: &str) -> Vec<Value> {
    let metrics = fs::read_to_string(desk.path(name).join("metrics.jsonl")).expect("metrics");
    metrics.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["values"].clone()).collect()
}

fn sum(steps: &[Value], key: &str) -> f64 {
    steps.iter().map(|values| values[key].as_f64().unwrap_or_else(|| panic!("{key}: {values}"))).sum()
}

fn sampled(records: &[EpisodeRecord]) -> f64 {
    records.iter().flat_map(|record| &record.segments).map(Segment::sampled_len).sum::<usize>() as f64
}

fn solved(desk: &Desk) -> Vec<EpisodeRecord> {
    let solved = |record: &EpisodeRecord| record.success && record.id.phase == Phase::Demonstration;
    desk.episodes().into_iter().filter(solved).collect()
}

/// Records are trained on with their own tokens, and text that was exported from them gives the same ones.
#[test]
fn records_and_their_exports_give_the_same_tokens() {
    let desk = recorded();
    let records = solved(&desk);
    assert_eq!(records.len(), 8);
    let source = format!("[[stages.source]]\nruns = [\"out\"]\nwhere = \"{DEMONSTRATIONS}\"\n");
    learn(&desk, "tokens", &learner(&source)).succeeded();
    let expected = steps(&desk, "tokens");
    assert_eq!((sum(&expected, "demonstrations"), sum(&expected, "tokens")), (8.0, sampled(&records)));
    assert!(episodes(&desk.path("tokens")).is_empty(), "an oracle played");
    for format in ["openai", "sharegpt"] {
        let file = format!("{format}.jsonl");
        let export = ["data", "export", "out", "--format", format, "--where", DEMONSTRATIONS, "--out", &file];
        desk.host(&export).succeeded();
        assert_eq!(fs::read_to_string(desk.path(&file)).expect("an export").lines().count(), 8);
        learn(&desk, format, &learner(&format!("[[stages.source]]\nchat = [\"{file}\"]\n"))).succeeded();
        assert_eq!(steps(&desk, format), expected, "{format}");
    }
    // Observations are trained on as well, and are the same from records and from text.
    let observing = |source: &str| learner(&format!("train_observations = true\n{source}"));
    learn(&desk, "seen", &observing(&source)).succeeded();
    learn(&desk, "seen-text", &observing("[[stages.source]]\nchat = [\"openai.jsonl\"]\n")).succeeded();
    let seen = steps(&desk, "seen");
    assert!(sum(&seen, "tokens") > sampled(&records));
    assert_eq!(steps(&desk, "seen-text"), seen);
}

/// Sources share a batch by their weights, rows have weights of their own, and a resumed stage draws the same.
#[test]
fn sources_are_mixed_and_resumed() {
    let desk = recorded();
    desk.host(&["data", "export", "out", "--format", "openai", "--solved", "--out", "solved.jsonl"]).succeeded();
    let sources = "[[stages.source]]\noracle = true\n[[stages.source]]\nruns = [\"out\"]\nwhere = \"length > 0\"\n\
                   weight = 2\n[[stages.source]]\nchat = [\"solved.jsonl\"]\nweight_column = \"reward\"\n";
    let text = learner(sources).replace("steps = 2", "steps = 4");
    learn(&desk, "whole", &text).succeeded();
    let oracle = episodes(&desk.path("whole"));
    assert_eq!(oracle.len(), 4, "a quarter of 16 demonstrations");
    let failed = oracle.iter().filter(|record| !record.success).count() as f64;
    assert_eq!(sum(&steps(&desk, "whole"), "demonstrations"), 16.0 - failed);
    learn(&desk, "parts", &text.replace("steps = 4", "steps = 2\ncheckpoint_every = 1")).succeeded();
    desk.host(&["run", "--resume", "parts", "--set", "stages.sft.steps=4"]).succeeded();
    assert_eq!(steps(&desk, "parts"), steps(&desk, "whole"));
}

/// Each mistake is one message before the run's folder exists.
#[test]
fn mistakes_are_found_before_anything_is_written() {
    let desk = recorded();
    let line = |message: &str| format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"?\"}}, {message}]}}\n");
    let good = line("{\"role\": \"assistant\", \"content\": \"!\"}");
    desk.write("role.jsonl", good.clone() + &line("{\"role\": \"asistant\", \"content\": \"!\"}"));
    let call = "{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{\"}}]}";
    desk.write("call.jsonl", good.clone() + "\n" + &line(call));
    desk.write("good.jsonl", good);
    for (source, words) in [
        ("runs = [\"out\"]\nwhere = \"sucess\"", &["did you mean `success`?", "column 1"][..]),
        (
            "runs = [\"out\"]\nwhere = \"answer-match.corect > 0\"",
            &["did you mean `answer-match.correct`?", "stage `sft`"],
        ),
        ("runs = [\"out\"]\nwhere = \"calls > 99\"", &["no episode of", "meets `calls > 99`", "loosen `where`"]),
        ("runs = [\"nowhere\"]", &["nowhere", "does not hold a run"]),
        ("chat = [\"role.jsonl\"]", &["role.jsonl, line 2: message 2: the role `asistant`", "`skip_bad`"]),
        ("chat = [\"call.jsonl\"]", &["call.jsonl, line 3: message 2: call 1: the arguments of `f`"]),
        ("chat = [\"good.jsonl\"]\nweight_column = \"score\"", &["there is no column `score`"]),
        ("chat = [\"good.jsonl\"]\nwhere = \"success\"", &["where applies to `runs` only"]),
        ("runs = [\"out\"]\nchat = [\"good.jsonl\"]", &["exactly one of the keys"]),
        ("oracle = true\nweight = 0", &["source.0.weight"]),
    ] {
        let message = learn(&desk, "wrong", &learner(&format!("[[stages.source]]\n{source}\n"))).mistake(source);
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
        assert!(!desk.path("wrong").exists(), "{source}");
    }
    let skipping = learner("[[stages.source]]\nchat = [\"role.jsonl\", \"call.jsonl\"]\nskip_bad = 2\n");
    let outcome = learn(&desk, "skipping", &skipping);
    assert!(outcome.talk.contains("skipped") && outcome.talk.contains("call.jsonl, line 3"), "{}", outcome.talk);
    outcome.succeeded();
    let one_less = skipping.replace("skip_bad = 2", "skip_bad = 1");
    let message = learn(&desk, "wrong", &one_less).mistake("one bad row more than may be skipped");
    assert!(message.contains("call.jsonl, line 3"), "{message}");
}

/// Records of a model with another tokenizer are refused, with the way to use them as text.
#[test]
fn records_of_another_tokenizer_are_refused() {
    let desk = recorded();
    let path = desk.path("out/chat/tokenizer.json");
    let tokenizer = fs::read_to_string(&path).expect("a tokenizer");
    fs::write(&path, tokenizer + "\n").expect("a changed tokenizer");
    let message = learn(&desk, "other", &learner("[[stages.source]]\nruns = [\"out\"]\n")).mistake("another tokenizer");
    assert!(message.contains("another tokenizer") && message.contains("host data export"), "{message}");
    assert!(!desk.path("other").exists());
}

/// `--where` selects episodes of an export, by the figures of their records.
#[test]
fn exports_are_filtered() {
    let desk = recorded();
    let records = desk.episodes();
    let count = |filter: &str| {
        let lines = desk.host(&["data", "export", "out", "--format", "openai", "--where", filter]).succeeded();
        lines.lines().count()
    };
    let of = |met: &dyn Fn(&EpisodeRecord) -> bool| records.iter().filter(|record| met(record)).count();
    assert_eq!(count("stage == 'rl'"), of(&|record| record.id.stage == 1));
    assert_eq!(
        count("not success and (calls >= 1 or purpose == 'evaluation')"),
        of(&|record| {
            let evaluation = !matches!(record.id.phase, Phase::Train | Phase::Demonstration);
            !record.success && (record.calls() >= 1 || evaluation)
        })
    );
    assert_eq!(
        count("version >= 3"),
        of(&|record| record.segments.iter().any(|segment| segment.versions().iter().any(|version| *version >= 3)))
    );
    let refused = |filter: &str| {
        desk.host(&["data", "export", "out", "--format", "openai", "--out", "x.jsonl", "--where", filter])
    };
    for (filter, words) in [
        ("rewrd > 0", "did you mean `reward`?"),
        ("stage == 'r'", "no episode has the stage `r`"),
        ("calls > 99", "no episode was exported"),
    ] {
        let outcome = refused(filter);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.talk.contains(words), "{}", outcome.talk);
        assert!(!desk.path("x.jsonl").exists());
    }
}
