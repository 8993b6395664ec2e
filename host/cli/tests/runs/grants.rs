//! Grants of a run file: whole runs with them, and messages about wrong ones.

use std::fs;

use crate::common::{Desk, SMALL_RUN};

const ASKING: &str = "plugins/word-problems.wasm,plugins/calculator.wasm,plugins/answer-match.wasm,\
                      plugins/guest-asking-tool.wasm";

/// All grants that the asking tool requests.
const GRANTED: &str = r#"
[plugins.guest-asking-tool]
assets = { "words.txt" = "data/words.txt" }
model = "judge"
http = [{ allow = "https://example.org" }]

[models.judge]
script = ["yes"]
"#;

/// A run in which a model simulates the environment's user.
const CONVERSATION: &str = r#"
seed = 1
success = "environment.success"

[policy]
max_concurrent_sequences = 4
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }

[limits]
turns = 3
reply_tokens = 8

[evaluation]
tasks = 2

[plugins.guest-asking-environment]
model = "user"

[models.user]
script = ["Good evening.", "Hm?", "thanks"]

[[stages]]
kind = "rl"
steps = 2
groups = 2
group_size = 2
"#;

#[test]
fn a_run_with_a_simulated_user_is_replayed_without_it() {
    let desk = Desk::with_run_file(CONVERSATION).with_file("data/words.txt", "one two three");
    desk.run("plugins/guest-asking-environment.wasm", &[]).succeeded();
    let episodes = desk.episodes();
    assert!(episodes.iter().all(|episode| !episode.exchanges.is_empty()), "every episode asks");
    // The model gets the same prompt each time, so every seat that speaks twice has been thanked.
    assert!(episodes.iter().all(|episode| episode.success), "{:?}", episodes.first());
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("{0} episodes replayed, every byte equal: {0}", episodes.len())), "{replayed}");
}

#[test]
fn assets_are_pinned_by_their_content() {
    let desk = Desk::with_run_file(&format!("{SMALL_RUN}{GRANTED}")).with_file("data/words.txt", "one two three");
    desk.run(ASKING, &[]).succeeded();
    let digest = "6899ee404683a14e8c2a03149860df25d67d34d9cd4dae7350cbe91e4b3976be";
    let kept = fs::read_dir(desk.path("out/assets")).expect("a folder").flatten().next().expect("an asset");
    let name = kept.file_name().to_string_lossy().into_owned();
    assert_eq!((name.as_str(), fs::read(kept.path()).ok().as_deref()), (digest, Some(b"one two three".as_slice())));
    let resolved = fs::read_to_string(desk.path("out/run.toml")).expect("a run file");
    assert!(resolved.contains(&format!("\"words.txt\" = \"sha256:{digest}\"")), "{resolved}");

    // The run has its own copy.
    fs::remove_dir_all(desk.path("data")).expect("removed");
    desk.host(&["replay", "out"]).succeeded();
    desk.run(ASKING, &["--resume"]).succeeded();
    fs::create_dir(desk.path("data")).expect("a folder");
    desk.write("data/words.txt", "one two four");
    let refused = desk.run(ASKING, &["--resume"]);
    assert!(refused.mistake("resumed").contains("was started with another run file"), "{refused:?}");
    desk.write("data/words.txt", "one two three");
    desk.run(ASKING, &["--resume"]).succeeded();
    fs::write(kept.path(), "one two four").expect("altered");
    let altered = desk.host(&["replay", "out"]);
    assert!(altered.mistake("replayed").contains(digest), "{altered:?}");
}

#[test]
fn wrong_grants() {
    let mut told = String::new();
    let changed = |from: &str, to: &str| {
        assert!(GRANTED.contains(from), "{from}");
        GRANTED.replace(from, to)
    };
    for (title, granted) in [
        ("nothing granted", String::new()),
        ("assets not granted", changed("assets =", "# assets =")),
        ("http not granted", changed("http =", "# http =")),
        ("a grant that the plugin does not request", format!("{GRANTED}\n[plugins.calculator]\ntools = true\n")),
        ("a misspelt grant", changed("model =", "modle =")),
        ("a missing file", changed("data/words.txt", "data/wards.txt")),
        ("no such model", changed("\"judge\"", "\"jugde\"")),
        ("a model that is not used", format!("{GRANTED}\n[models.other]\nscript = [\"x\"]\n")),
        ("a model that is nothing", changed("script = [\"yes\"]", "")),
        (
            "a model that is two things",
            changed("script = [\"yes\"]", "script = []\nname = \"x\"\nurl = \"http://a.b\""),
        ),
        ("a model elsewhere", changed("script = [\"yes\"]", "name = \"x\"\nurl = \"ftp://a.b\"")),
        (
            "a key that is not set",
            changed("script = [\"yes\"]", "name = \"x\"\nurl = \"http://a.b\"\nkey_env = \"NO_KEY\""),
        ),
        ("no server", changed("https://example.org", "example.org/path")),
        ("no method", changed("https://example.org\"", "https://example.org\", methods = [\"get\"]")),
        ("no methods", changed("https://example.org\"", "https://example.org\", methods = []")),
        (
            "a secret that is not set",
            changed("example.org\"", "example.org\", secret = { header = \"x-key\", env = \"NO_KEY\" }"),
        ),
        (
            "a secret in the clear",
            changed("https://example.org\"", "http://example.org\", secret = { header = \"x-key\", env = \"HOME\" }"),
        ),
        ("requests without servers", changed("http = [{ allow = \"https://example.org\" }]", "http_requests = 5")),
        ("too slow", changed("https://example.org\"", "https://example.org\", seconds = 0")),
    ] {
        let desk = Desk::with_run_file(&format!("{SMALL_RUN}{granted}")).with_file("data/words.txt", "one two three");
        let outcome = desk.run(ASKING, &[]);
        told.push_str(&outcome.mistake(title).replace(&desk.path("").display().to_string(), ""));
        assert!(!desk.path("out").exists(), "{title}: a folder was left behind");
    }
    insta::assert_snapshot!("wrong-grants", told);
}

/// `examples/runs/booking.toml` in a smaller size; its guest follows rules first, then a script.
#[test]
fn the_example_of_a_simulated_user_is_a_sound_run_file() {
    let example = fs::read_to_string(gymkhana_tests::root().join("examples/runs/booking.toml")).expect("an example");
    let smaller = [
        "policy.tiny={ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 768 }",
        "limits.reply_tokens=16",
        "evaluation.tasks=4",
        "stages.sft.steps=2",
        "stages.sft.batch=4",
        "stages.rl.steps=1",
        "stages.rl.groups=2",
        "stages.rl.group_size=2",
    ];
    for by_model in [false, true] {
        let desk = Desk::with_run_file(&example);
        let user = ["environment.options.user=\"model\"", "models.guest.script=[\"In the garden.\"]"];
        let user = user.into_iter().filter(|_| by_model);
        let sets: Vec<&str> = smaller.into_iter().chain(user).flat_map(|set| ["--set", set]).collect();
        desk.run("plugins/booking.wasm", &sets).succeeded();
        let episodes = desk.episodes();
        let asked = episodes.iter().filter(|episode| !episode.exchanges.is_empty()).count();
        assert_eq!(asked > 0, by_model);
        let replayed = desk.host(&["replay", "out"]).succeeded();
        assert!(replayed.ends_with(&format!("every byte equal: {}\n", episodes.len())), "{replayed}");
        fs::remove_dir_all(desk.path("out")).expect("removed");
        let refused =
            desk.run("plugins/booking.wasm", &[&sets[..], &["--set", "plugins={}", "--set", "models={}"]].concat());
        assert!(refused.mistake("no grant").contains("`model = \"NAME\"`"), "{refused:?}");
    }
}
