//! Commands, flags and keys that messages and hints name: each exists in the parser of the command line, in the schema of
//! run files, or among the keys of a server's settings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use gymkhana_cli::args::Cli;
use serde_json::Value as Json;

/// Flags of other programs that hints name.
const OTHERS: [&str; 8] =
    ["--gpus", "--ignore-scripts", "--locked", "--logprobs-mode", "--proto", "--release", "--target", "--tlsv1.2"];

/// Facts of an environment in a rule of success, which look like keys.
const FACTS: [&str; 2] = ["environment.FACT", "environment.success"];

/// A text of a source file.
struct Text {
    place: String,
    text: String,
}

/// Texts of the sources in `host` and `registry`, without those of tests.
fn texts() -> Vec<Text> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![];
    for folder in ["host", "registry"] {
        sources(&root.join(folder), &mut files);
    }
    files.sort();
    let mut texts = vec![];
    for file in files {
        let source = fs::read_to_string(&file).expect("a source");
        let production = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let place = file.strip_prefix(&root).expect("below the root").display().to_string();
        texts.extend(literals(production).into_iter().map(|text| Text { place: place.clone(), text }));
    }
    assert!(texts.len() > 5000, "{} texts were found", texts.len());
    texts
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !matches!(name, "tests" | "target" | "node_modules" | "templates") {
                sources(&path, files);
            }
        } else if name.ends_with(".rs") && !name.starts_with("tests") {
            files.push(path);
        }
    }
}

/// The string literals of a source, with lines joined as the compiler joins them.
fn literals(source: &str) -> Vec<String> {
    let (mut found, mut rest) = (vec![], source);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(behind) = ["'\"'", "'\\\"'", "b'\"'"].iter().find_map(|letter| from.strip_prefix(letter)) {
            rest = behind;
        } else if let Some(behind) = from.strip_prefix('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let is_raw = before[..before.len() - hashes].ends_with('r');
            let (text, end) = if is_raw { raw(behind, hashes) } else { escaped(behind) };
            found.push(text);
            rest = &behind[end..];
        } else {
            rest = &from[1..];
        }
    }
    found
}

fn raw(source: &str, hashes: usize) -> (String, usize) {
    let close = format!("\"{}", "#".repeat(hashes));
    let end = source.find(&close).unwrap_or(source.len());
    (source[..end].to_owned(), (end + close.len()).min(source.len()))
}

fn escaped(source: &str) -> (String, usize) {
    let (mut text, mut letters) = (String::new(), source.char_indices().peekable());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (text, at + 1),
            '\\' => match letters.next() {
                Some((_, '\n')) => while letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {},
                Some((_, 'n')) => text.push('\n'),
                Some((_, other)) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    (text, source.len())
}

/// Follows the words of a command line to its subcommand. Returns what is wrong.
fn check_command(line: &str, root: &Command) -> Option<String> {
    let mut command = root;
    for word in line.split_whitespace().skip(1) {
        if let Some(flag) = word.strip_prefix("--") {
            let name = flag.split(['=', '[', ',']).next().unwrap_or_default();
            let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            let is_known = name == "help" || command.get_arguments().any(|argument| argument.get_long() == Some(name));
            if is_plain && !is_known {
                return Some(format!("`{line}`: `{}` has no --{name}", command.get_name()));
            }
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
        } else if command.has_subcommands() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
            // An argument may stand there if the command works without a subcommand.
            if command.get_positionals().next().is_none() {
                return Some(format!("`{line}`: `{}` has no command `{word}`", command.get_name()));
            }
        }
    }
    None
}

fn flags(command: &Command, found: &mut BTreeSet<String>) {
    found.extend(command.get_arguments().filter_map(|argument| Some(format!("--{}", argument.get_long()?))));
    command.get_subcommands().for_each(|command| flags(command, found));
}

/// Whether a path of keys leads to a place in a schema.
fn leads(schema: &Json, at: &Json, path: &[&str]) -> bool {
    if let Some(target) = at["$ref"].as_str() {
        return leads(schema, schema.pointer(target.trim_start_matches('#')).unwrap_or(&Json::Null), path);
    }
    let [key, rest @ ..] = path else { return true };
    let alternatives = ["anyOf", "oneOf", "allOf"].iter().filter_map(|name| at[*name].as_array()).flatten();
    alternatives.into_iter().any(|one| leads(schema, one, path))
        || at["properties"].get(*key).is_some_and(|next| leads(schema, next, rest))
        || at.get("additionalProperties").is_some_and(|next| next.is_object() && leads(schema, next, rest))
        || at.get("items").is_some_and(|next| leads(schema, next, path))
}

/// Whether a path of keys exists in settings; tables of named entries hold every name.
fn exists(settings: &Json, path: &[&str]) -> bool {
    let [key, rest @ ..] = path else { return true };
    match settings.get(*key) {
        Some(Json::Object(table)) if table.is_empty() => true,
        Some(next) => exists(next, rest),
        None => false,
    }
}

/// The words of a text that can be a flag or a path of keys.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let ends = |letter: char| letter.is_whitespace() || "`,;()\"'".contains(letter);
    text.split(ends).map(|word| word.trim_end_matches(['.', ':']))
}

#[test]
fn every_command_flag_and_key_that_a_message_names_exists() {
    let command = Cli::command();
    let mut known = BTreeSet::from(OTHERS.map(str::to_owned));
    flags(&command, &mut known);
    let schema = gymkhana_config::json_schema();
    let served = serde_json::to_value(gymkhana_serve::config::ServeFile::default()).expect("JSON");
    let mut wrong = BTreeSet::new();
    for Text { place, text } in texts() {
        let quoted = text.split('`').skip(1).step_by(2);
        for line in quoted.filter(|quoted| quoted.starts_with("host ")) {
            wrong.extend(check_command(line, &command).map(|why| format!("{place}: {why}")));
        }
        let Some((_, hint)) = text.split_once("hint: ") else { continue };
        for word in words(hint).filter(|word| !word.contains(['{', '…', '=']) && !FACTS.contains(word)) {
            let is_flag = word
                .strip_prefix("--")
                .is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_lowercase()));
            if is_flag && !known.contains(word) {
                wrong.insert(format!("{place}: no command has {word}: {hint}"));
            }
            let path: Vec<&str> = word.split('.').collect();
            let is_path = path.len() > 1
                && path
                    .iter()
                    .all(|key| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_'));
            let is_section = leads(&schema, &schema, &path[..1]) || exists(&served, &path[..1]);
            if is_path && is_section && !leads(&schema, &schema, &path) && !exists(&served, &path) {
                wrong.insert(format!("{place}: no settings have the key {word}: {hint}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_does_not_exist_is_found() {
    let command = Cli::command();
    assert_eq!(check_command("host run RUN.toml --out DIR", &command), None);
    assert!(check_command("host fly", &command).is_some());
    assert!(check_command("host run --wings", &command).is_some());
    let schema = gymkhana_config::json_schema();
    assert!(leads(&schema, &schema, &["limits", "turns"]) && leads(&schema, &schema, &["plugins", "sql", "options"]));
    assert!(!leads(&schema, &schema, &["limits", "wings"]));
    let source = r##"const A: &str = "one \
        line"; // "no"
        let b = '"'; f(r#"raw "text""#, "\"end\"");"##;
    assert_eq!(literals(source), ["one line", "raw \"text\"", "\"end\""]);
}
