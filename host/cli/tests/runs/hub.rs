//! Runs with a model on a hub: downloaded once, pinned for the run's lifetime, rejected by name.

use crate::common::hub::{FakeHub, MODEL};
use crate::common::models::write_model;
use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, finish, run_arguments};

/// A run with the hub's model.
fn desk(checkpoint: &str) -> Desk {
    Desk::with_run_file(&SMALL_RUN.replace("tiny = {", &format!("checkpoint = {checkpoint} # {{")))
}

#[test]
fn a_run_stays_with_the_commit_that_it_began_with() {
    let (first, second) = ("1".repeat(40), "2".repeat(40));
    let desk = desk(&format!("{{ hub = \"{MODEL}\", revision = \"trial\" }}"));
    let [one, two, cache] = ["one", "two", "cache"].map(|name| desk.path(name));
    write_model(1, &one);
    write_model(2, &two);
    let hub = FakeHub::start();
    hub.push("trial", &first, &one);
    finish(hub.used_by(&mut desk.command(&run_arguments(WORD_PROBLEMS, &[])), &cache)).succeeded();
    assert!(hub.asked().contains(&format!("{first}/model.safetensors")));
    let resolved = std::fs::read_to_string(desk.path("out/run.toml")).expect("the resolved run file");
    assert!(resolved.contains(&format!("commit = \"{first}\"")), "{resolved}");
    // The branch moves; the run keeps its commit and sends no request, because it has its own weights.
    hub.push("trial", &second, &two);
    let resume = run_arguments(WORD_PROBLEMS, &["--resume"]);
    finish(hub.used_by(&mut desk.command(&resume), &desk.path("empty-cache"))).succeeded();
    assert_eq!(hub.asked(), Vec::<String>::new());
    // A new run uses the branch's current commit.
    let other: Vec<&str> = resume.iter().map(|word| if *word == "out" { "other" } else { word }).collect();
    let other: Vec<&str> = other.into_iter().filter(|word| *word != "--resume").collect();
    finish(hub.used_by(&mut desk.command(&other), &cache)).succeeded();
    let resolved = std::fs::read_to_string(desk.path("other/run.toml")).expect("the resolved run file");
    assert!(resolved.contains(&format!("commit = \"{second}\"")), "{resolved}");
}

#[test]
fn a_model_that_cannot_be_had_is_refused_by_name() {
    let hub = FakeHub::start();
    let lacking = tempfile::tempdir().expect("a folder");
    std::fs::write(lacking.path().join("config.json"), r#"{"model_type": "mamba"}"#).expect("written");
    hub.push("main", &"3".repeat(40), lacking.path());
    for (checkpoint, words) in [
        ("{ hub = \"owner/model\", revision = \"none\" }", "model `owner/model` has no revision `none`"),
        ("{ hub = \"owner/model\" }", "model_type = \"mamba\""),
        ("{ hub = \"../model\" }", "policy.checkpoint: `../model` is not a valid name of a model"),
        ("{ hub = \"owner/model\", revision = \"../main\" }", "policy.checkpoint: `../main` is not a"),
        ("{ hub = \"owner/model\", commit = \"abc\" }", "policy.checkpoint: commit `abc` is not a hash of 40 digits"),
        ("{ hub = \"owner/model\", branch = \"main\" }", "unknown field `branch`"),
        ("3", "3 is not a model\nhint: write the path of a folder"),
    ] {
        let desk = desk(checkpoint);
        let mut command = desk.command(&run_arguments(WORD_PROBLEMS, &[]));
        let message = finish(hub.used_by(&mut command, &desk.path("cache"))).mistake(checkpoint);
        assert!(message.contains(words), "{message}");
        assert!(!desk.path("out").exists(), "{checkpoint}");
    }
}
