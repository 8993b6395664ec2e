//! Damaged or missing files in a run's folder: the messages, and that following them helps.

use std::fs;
use std::path::PathBuf;

use crate::common::{Desk, Outcome, SMALL_RUN, WORD_PROBLEMS, files_below, resealed};
use gymkhana_registry::Digest;

/// A desk with a finished small run.
fn finished() -> Desk {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    desk
}

fn resume(desk: &Desk) -> Outcome {
    desk.run(WORD_PROBLEMS, &["--resume"])
}

/// Asserts an error that names the file and contains `words`.
fn assert_refused(outcome: &Outcome, file: &str, words: &str) {
    assert_eq!((outcome.code, outcome.results.as_str()), (Some(2), ""), "{outcome:?}");
    assert_eq!(outcome.talk.matches("error: ").count(), 1, "{}", outcome.talk);
    assert!(outcome.talk.contains(&format!("`out/{file}`")), "{file}: {}", outcome.talk);
    assert!(outcome.talk.contains(words), "{words}: {}", outcome.talk);
}

/// Runs `while_away` while a file is moved away.
fn without<T>(path: PathBuf, while_away: impl FnOnce() -> T) -> T {
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).expect("a file can be moved");
    let done = while_away();
    fs::rename(aside, path).expect("a file can be moved back");
    done
}

#[test]
fn a_run_whose_state_is_lost_keeps_what_it_has() {
    let desk = finished();
    let before = (desk.episodes().len(), files_below(&desk.path("out/checkpoints")));
    let refused = without(desk.path("out/state.json"), || resume(&desk));
    assert_refused(&refused, "state.json", "restore the file, or start a new run");
    assert_eq!((desk.episodes().len(), files_below(&desk.path("out/checkpoints"))), before);
    // Commands that the message recommends.
    without(desk.path("out/state.json"), || {
        desk.host(&["show", "out"]).succeeded();
        desk.host(&["replay", "out"]).succeeded();
    });
    resume(&desk).succeeded();
}

/// Without a state, a run that died while writing its first checkpoint resumes.
#[test]
fn a_run_that_died_before_its_first_state_goes_on() {
    let desk = finished();
    let whole = desk.episodes().len();
    for gone in ["state.json", "summary.json", "metrics.jsonl"] {
        fs::remove_file(desk.path(&format!("out/{gone}"))).expect("a file can be removed");
    }
    for gone in ["episodes", "checkpoints"] {
        fs::remove_dir_all(desk.path(&format!("out/{gone}"))).expect("a folder can be removed");
    }
    for checkpoint in ["0-000000", ".0-000000.partial-7"] {
        fs::create_dir_all(desk.path(&format!("out/checkpoints/{checkpoint}"))).expect("a folder can be made");
    }
    resume(&desk).succeeded();
    assert_eq!(desk.episodes().len(), whole);
}

#[test]
fn a_state_that_does_not_fit_is_refused() {
    let desk = finished();
    let path = desk.path("out/state.json");
    let sound = fs::read_to_string(&path).expect("a state");
    let state: serde_json::Value = serde_json::from_str(&sound).expect("JSON");
    let begun = serde_json::json!({
        "name": "warm", "step": 1, "before": { "greedy": 0.5, "sampled": null }, "episodes": 4, "tokens": 90,
        "begun": 0.0
    });
    for (place, value, words) in [
        ("/progress/seconds", serde_json::json!(-5), "-5 is not a time in seconds"),
        ("/progress/seconds", serde_json::json!(1e300), "is not a time in seconds"),
        ("/progress/stage", serde_json::json!(9), "it is at stage 9 of 2"),
        ("/progress/stage", serde_json::json!(1), "its finished stages differ"),
        ("/progress/finished/0/name", serde_json::json!("warm"), "its finished stages differ"),
        ("/progress/current", begun, "is not called `warm`"),
        ("/progress/stage", serde_json::json!("two"), "cannot read"),
        ("/schema", serde_json::json!(3), "use a newer host"),
        (
            "/checkpoint/name",
            serde_json::json!("0-000002"),
            "its checkpoint is `0-000002`, but its position is `1-000002`",
        ),
        ("/checkpoint/name", serde_json::json!("../../other/checkpoints/1-000002"), "cannot read"),
    ] {
        let mut damaged = state.clone();
        *damaged.pointer_mut(place).unwrap_or_else(|| panic!("{place} in {state}")) = value;
        fs::write(&path, damaged.to_string()).expect("a file can be written");
        assert_refused(&resume(&desk), "state.json", "its digest does not match its content");
        fs::write(&path, resealed(&damaged.to_string())).expect("a file can be written");
        assert_refused(&resume(&desk), "state.json", words);
    }
    fs::write(&path, "{\"schema\": 1, \"checkpoint\": null}").expect("a file can be written");
    assert_refused(&resume(&desk), "state.json", "it has no digest, so another program or an older version wrote it");
    fs::write(&path, &sound[..sound.len() / 2]).expect("a file can be written");
    assert_refused(&resume(&desk), "state.json", "restore the file, or start a new run");
    fs::write(&path, sound).expect("a file can be written");
    resume(&desk).succeeded();
}

/// Following each message repairs the run.
#[test]
fn what_can_be_moved_away_can_be_moved_away() {
    let desk = finished();
    let show = |desk: &Desk| desk.host(&["show", "out"]);
    type Command = fn(&Desk) -> Outcome;
    let journal = "episodes/journal-000099.log";
    let whole = desk.episodes().len();
    let cases: [(&str, &str, Command); 4] = [
        (journal, "move it away to have `--resume` play its episodes again", resume),
        ("metrics.jsonl", "move it away to continue without the numbers in it", resume),
        ("summary.json", "move it away, and `host run … --resume` writes it again", show),
        ("episodes/part-000001.parquet", "move it away to continue without its episodes", resume),
    ];
    for (file, words, command) in cases {
        desk.write(&format!("out/{file}"), "{ damaged\n");
        assert_refused(&command(&desk), file, words);
        fs::remove_file(desk.path(&format!("out/{file}"))).expect("a file can be moved away");
        resume(&desk).succeeded();
        assert!(show(&desk).succeeded().contains("success"), "{file}");
    }
    let left = desk.episodes().len();
    assert!(left > 0 && left < whole, "{left} of {whole}");
    assert!(desk.host(&["replay", "out"]).succeeded().contains(&format!("every byte equal: {left}")));
}

#[test]
fn what_a_run_is_made_of_is_put_back_when_it_is_resumed() {
    let desk = finished();
    let digest = Digest::of(&fs::read(desk.path("plugins/calculator.wasm")).expect("a plugin"));
    let plugin = format!("plugins/{digest}.wasm");
    fs::remove_file(desk.path(&format!("out/{plugin}"))).expect("a file can be removed");
    assert_refused(&desk.host(&["replay", "out"]), &plugin, "copy the plugin file there whose sha256 is its name");
    fs::copy(desk.path("plugins/calculator.wasm"), desk.path(&format!("out/{plugin}"))).expect("a copy");
    desk.host(&["replay", "out"]).succeeded();
    for folder in ["plugins", "chat"] {
        fs::remove_dir_all(desk.path(&format!("out/{folder}"))).expect("a folder can be removed");
    }
    assert_eq!(desk.host(&["replay", "out"]).code, Some(2));
    resume(&desk).succeeded();
    desk.host(&["replay", "out"]).succeeded();
}

#[test]
fn a_damaged_lock_is_restored() {
    let desk = finished();
    let sound = fs::read(desk.path("out/gymkhana.lock")).expect("a lock");
    desk.write("out/gymkhana.lock", "schema = 1\nplugin = 3\n");
    for refused in [desk.host(&["show", "out"]), resume(&desk)] {
        assert_refused(&refused, "gymkhana.lock", "restore it from version control");
    }
    fs::remove_file(desk.path("out/gymkhana.lock")).expect("a file can be removed");
    assert_refused(&resume(&desk), "gymkhana.lock", "restore it from version control");
    desk.write("out/gymkhana.lock", sound);
    resume(&desk).succeeded();
}
