//! `host generate`: needs only a model's folder, and escapes the model's output.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::common::hub::{FakeHub, MODEL};
use crate::common::{Desk, Outcome};
use serde_json::Value;

/// Runs a command with this standard input.
fn fed(command: &mut Command, text: &str) -> Outcome {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it is read");
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the host writes UTF-8");
    Outcome { code: status.code(), results: text(stdout), talk: text(stderr) }
}

/// One line of JSON.
fn json(results: &str) -> Value {
    assert_eq!(results.lines().count(), 1, "{results}");
    serde_json::from_str(results).expect("JSON")
}

fn tokens(reply: &Value) -> Vec<u64> {
    reply["tokens"].as_array().expect("a list").iter().map(|token| token.as_u64().expect("a token")).collect()
}

#[test]
fn the_same_seed_says_the_same_and_another_something_else() {
    let desk = Desk::new().with_model(1, 320);
    let say = |more: &[&str]| {
        let arguments = [&["generate", "model", "Hello", "--max-tokens", "24", "--json"], more].concat();
        json(&desk.host(&arguments).succeeded())
    };
    let one = say(&["--seed", "1"]);
    assert_eq!(one, say(&["--seed", "1"]));
    assert_ne!(tokens(&one), tokens(&say(&["--seed", "2"])));
    assert_eq!(say(&["--top-k", "1", "--seed", "3"]), say(&["--temperature", "0"]), "one of one is the most probable");
    let log_probs = one["log_probs"].as_array().expect("a list");
    assert_eq!(log_probs.len(), tokens(&one).len());
    assert!(log_probs.iter().all(|log_prob| log_prob.as_f64().expect("a number") < 0.0));
}

/// A model with random output produces control characters too.
#[test]
fn what_is_streamed_is_harmless_and_whole() {
    let desk = Desk::new().with_model(1, 320);
    let arguments = ["generate", "model", "Hello", "--max-tokens", "300", "--seed", "4"];
    let outcome = desk.host(&arguments);
    assert!(outcome.talk.contains(" tokens, ") && outcome.talk.contains("/s"), "{}", outcome.talk);
    let shown = outcome.succeeded();
    let whole = json(&desk.host(&[&arguments[..], &["--json"]].concat()).succeeded());
    let said = whole["text"].as_str().expect("a text");
    assert!(said.chars().any(|letter| letter.is_control() && letter != '\n'), "this seed shows nothing: {said:?}");
    assert!(shown.chars().all(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')), "{shown:?}");
    let escaped: String = said
        .chars()
        .map(|letter| match letter {
            '\n' | '\t' => letter.to_string(),
            letter if letter.is_control() => letter.escape_default().to_string(),
            letter => letter.to_string(),
        })
        .collect();
    assert_eq!(shown, format!("{escaped}\n"));
}

#[test]
fn prompts_come_from_everywhere() {
    let desk = Desk::new().with_model(1, 320);
    let base = ["generate", "model", "--max-tokens", "12", "--json"];
    let from_argument = desk.host(&[&base[..], &["Two and two?"]].concat()).succeeded();
    let from_input = fed(&mut desk.command(&base), "Two and two?\n").succeeded();
    assert_eq!(from_argument, from_input);
    let conversation = r#"[{"role": "user", "content": "Two and two?"}]"#;
    let from_messages = fed(&mut desk.command(&[&base[..], &["--messages"]].concat()), conversation).succeeded();
    assert_eq!(from_argument, from_messages);
    // The tiny model's template, expanded.
    let raw = desk.host(&[&base[..], &["--raw", "<|im_start|>uTwo and two?<|im_end|><|im_start|>a"]].concat());
    assert_eq!(from_argument, raw.succeeded());
    let system = desk.host(&[&base[..], &["Two and two?", "--system", "Be brief."]].concat()).succeeded();
    let both = r#"[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Two and two?"}]"#;
    assert_eq!(system, fed(&mut desk.command(&[&base[..], &["--messages"]].concat()), both).succeeded());
    assert_ne!(system, from_argument);
    let unread = desk.host(&[&base[..], &["Two and two?", "--template", "colour=1"]].concat());
    assert!(unread.talk.contains("warning: --template: the chat template reads no variable `colour`\n"), "{unread:?}");
    assert_eq!(unread.succeeded(), from_argument);
}

#[test]
fn a_reply_ends_with_a_stop_text() {
    let desk = Desk::new().with_model(1, 320);
    let arguments = ["generate", "model", "Hello", "--max-tokens", "200", "--json", "--seed", "4"];
    let whole = json(&desk.host(&arguments).succeeded());
    let printable = |token: &u64| (33..127).contains(token);
    let place = tokens(&whole).iter().skip(3).position(printable).expect("a printable byte") + 3;
    let letter = char::from(tokens(&whole)[place] as u8).to_string();
    let end = tokens(&whole).iter().position(|token| *token == tokens(&whole)[place]).expect("it is there");
    let ended = json(&desk.host(&[&arguments[..], &["--stop", "never", "--stop", &letter]].concat()).succeeded());
    assert_eq!((tokens(&ended), &ended["stop"]), (tokens(&whole)[..=end].to_vec(), &Value::from("text")));
}

#[test]
fn a_model_of_a_hub_needs_no_folder() {
    let desk = Desk::new().with_model(1, 320);
    let hub = FakeHub::start();
    hub.push("main", &"1".repeat(40), &desk.path("model"));
    let say = |model: &str, more: &[&str]| {
        let arguments = [&["generate", model, "Hello", "--max-tokens", "9", "--json"], more].concat();
        crate::common::finish(hub.used_by(&mut desk.command(&arguments), &desk.path("cache")))
    };
    let here = say("model", &[]).succeeded();
    assert_eq!(say(MODEL, &[]).succeeded(), here);
    assert_eq!(say(MODEL, &["--revision", &"1".repeat(40)]).succeeded(), here);
    let message = say(MODEL, &["--revision", "other"]).mistake("another revision");
    assert!(message.contains("model `owner/model` has no revision `other`"), "{message}");
}

#[test]
fn mistakes() {
    let desk = Desk::new().with_model(1, 320);
    std::fs::create_dir(desk.path("empty")).expect("a folder");
    let mut messages = String::new();
    for (title, arguments) in [
        ("no such model", &["nowhere", "Hello"][..]),
        ("a file", &["model/config.json", "Hello"]),
        ("an empty folder", &["empty", "Hello"]),
        ("a revision of a folder", &["model", "Hello", "--revision", "main"]),
        ("a temperature out of range", &["model", "Hello", "--temperature", "1000"]),
        ("a share out of range", &["model", "Hello", "--top-p", "0"]),
        ("another share out of range", &["model", "Hello", "--min-p", "1.5"]),
        ("no messages", &["model", "Hello", "--messages"]),
        ("an unknown role", &["model", r#"[{"role": "judge", "content": "?"}]"#, "--messages"]),
        ("an unknown key", &["model", r#"[{"role": "user", "text": "?"}]"#, "--messages"]),
        ("nothing", &["model", "", "--raw"]),
        ("more than the model takes", &["model", &"long ".repeat(100)]),
    ] {
        messages.push_str(&desk.host(&[&["generate"], arguments].concat()).mistake(title));
    }
    insta::assert_snapshot!("generate", messages);
}
