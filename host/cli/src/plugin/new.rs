//! `host plugin new`: creates a plugin that builds and passes its tests.

use std::fs;
use std::path::Path;

use gymkhana_registry::PluginName;

use crate::args::plugin::{KindArg, Language, NewArgs};
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::build::tools::{JS_SETUP, PYTHON_SETUP};
use crate::plugin::sdk::{self, Sdk};
use crate::printer::Printer;

/// A file of a template: the template's folder, the path below it and the text.
struct TemplateFile {
    template: &'static str,
    path: &'static str,
    text: &'static str,
}

/// `AGENTS.md` of a new plugin.
const AGENTS: &str = include_str!("agents.txt");

// `TEMPLATES`: the files below `templates/`, collected by `build.rs`.
include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// Runs the command.
pub fn new(args: &NewArgs, printer: &Printer) -> CliResult<()> {
    let name = PluginName::new(&args.namespace, &args.name).user_error();
    let name = name.map_err(|error| with_valid_name(error, &args.namespace, &args.name))?;
    let template = format!("{}-{}", sdk::name(args.lang), kind(args.kind));
    let files: Vec<&TemplateFile> = TEMPLATES.iter().filter(|file| file.template == template).collect();
    if files.is_empty() {
        let message = format!("there is no template `{template}`: wrappers are written in Rust");
        return Err(CliError::user(message).with_hint("leave out --lang"));
    }
    let sdk = Sdk::find(args.sdk.as_deref(), args.lang)?;
    let here = fs::canonicalize(".").user_context("the working folder cannot be opened\nhint: use another folder")?;
    let sdk = sdk.dependency(args.lang, &here, &args.name);
    let folder = Path::new(&args.name);
    if folder.exists() {
        let message = format!("`{}` already exists\nhint: choose another name or another folder", folder.display());
        return Err(CliError::user(message));
    }
    let agents = ("AGENTS.md", agents(args.lang, args.kind, &name));
    // Stored without the dot, because git would apply it here.
    let of_template = files.iter().map(|file| (file.path, fill(file.text, &name, &sdk)));
    for (path, text) in of_template.chain([agents]) {
        let path = folder.join(path.replace("gitignore", ".gitignore"));
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&path, text)
        };
        write().user_context(format!(
            "`{}` cannot be written\nhint: free space, or use a writable folder",
            path.display()
        ))?;
    }
    printer.result(format!("created {name} in {}", folder.display()));
    let first =
        set_up(args.lang).map_or_else(String::new, |command| format!("(cd {} && {command}) && ", folder.display()));
    printer.status(format!("next: {first}host plugin test {}{}", folder.display(), around(args.kind)));
    Ok(())
}

/// Whether a plugin's description is still that of a template.
pub fn is_template_description(text: &str) -> bool {
    let quoted = format!("\"{text}\"");
    let mut lines = TEMPLATES.iter().flat_map(|file| file.text.lines()).map(|line| line.trim().trim_end_matches(','));
    lines.any(|line| line.trim_start_matches('"').starts_with("description") && line.ends_with(&quoted))
}

/// The error about a name, with a valid one as its hint: `sokoban` for `Sokoban`.
fn with_valid_name(error: CliError, namespace: &str, name: &str) -> CliError {
    let valid = |word: &str| word.to_lowercase().replace(['_', ' '], "-");
    match PluginName::new(&valid(namespace), &valid(name)) {
        Ok(valid) if valid.namespace() == namespace => error.with_hint(format!("write `{}`", valid.name())),
        Ok(valid) => error.with_hint(format!("write `{} --namespace {}`", valid.name(), valid.namespace())),
        Err(_) => error,
    }
}

/// Command that installs what a plugin's language needs.
fn set_up(language: Language) -> Option<&'static str> {
    match language {
        Language::Rust => None,
        Language::Python => Some(PYTHON_SETUP),
        Language::Js => Some(JS_SETUP),
    }
}

/// What the conformance suite of a kind needs besides the plugin.
fn around(kind: KindArg) -> &'static str {
    if kind == KindArg::Wrapper { " --with ENVIRONMENT.wasm" } else { "" }
}

/// Text of `AGENTS.md`.
fn agents(language: Language, kind: KindArg, name: &PluginName) -> String {
    let (source, manifest) = match language {
        Language::Rust => ("src/lib.rs", "Cargo.toml"),
        Language::Python => ("plugin.py", "pyproject.toml"),
        Language::Js => ("plugin.mjs", "package.json"),
    };
    let set_up = set_up(language).map_or_else(String::new, |command| format!("- Once, run `{command}`.\n"));
    let text = AGENTS.replace("host plugin test .", &format!("host plugin test .{}", around(kind)));
    let text = text.replace("{{source}}", source).replace("{{manifest}}", manifest).replace("{{setup}}", &set_up);
    fill(&text.replace("{{file}}", &format!("{}.wasm", name.name())), name, "")
}

/// Text of a template with the plugin's names.
fn fill(text: &str, name: &PluginName, sdk: &str) -> String {
    let filled = text.replace("{{name}}", name.name()).replace("{{namespace}}", name.namespace());
    filled.replace("{{module}}", &name.name().replace('-', "_")).replace("{{sdk}}", sdk)
}

fn kind(kind: KindArg) -> &'static str {
    match kind {
        KindArg::Environment => "environment",
        KindArg::Tool => "tool",
        KindArg::Reward => "reward",
        KindArg::Wrapper => "wrapper",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn new_plugins_are_built_as_ours_are() {
        let ours =
            fs::read_to_string(Path::new(sdk::CHECKOUT).join("rust-toolchain.toml")).expect("a pinned toolchain");
        let channel = |text: &str| text.lines().find(|line| line.starts_with("channel")).map(str::to_owned);
        let pinned: Vec<_> = TEMPLATES.iter().filter(|file| file.path == "rust-toolchain.toml").collect();
        assert_eq!(pinned.len(), 4);
        assert!(channel(&ours).is_some() && pinned.iter().all(|file| channel(file.text) == channel(&ours)));
    }

    #[test]
    fn descriptions_of_templates_are_known() {
        for text in [
            "Guess a number from hints",
            "A notebook for one episode",
            "Success with a preference for short episodes",
            "Turns of the environment inside, counted aloud",
        ] {
            assert!(is_template_description(text), "{text}");
        }
        for text in ["Guess a number", "Spell a word backwards", "description", ""] {
            assert!(!is_template_description(text), "{text}");
        }
    }

    #[test]
    fn a_name_is_suggested_for_an_invalid_one() {
        let hint = |namespace: &str, name: &str| {
            let error = PluginName::new(namespace, name).user_error().expect_err(name);
            with_valid_name(error, namespace, name).hint()
        };
        assert_eq!(hint("me", "Sokoban").as_deref(), Some("write `sokoban`"));
        assert_eq!(hint("Me", "my_game").as_deref(), Some("write `my-game --namespace me`"));
        assert_eq!(hint("me", "spiel-für-zwei"), None);
    }

    /// Authors compare the languages by their templates, and the documentation describes one game.
    #[test]
    fn environments_of_all_languages_play_the_same_game() {
        let sources: Vec<_> =
            TEMPLATES.iter().filter(|file| ["src/lib.rs", "plugin.py", "plugin.mjs"].contains(&file.path)).collect();
        for language in ["rust", "python", "js"] {
            let template = format!("{language}-environment");
            let source = sources.iter().find(|file| file.template == template).expect("an environment");
            for words in [
                "Guess a number from hints",
                "I think of a number from 1 to ",
                "Answer with a whole number and nothing else.",
                "Too low.",
                "Too high.",
                "No guess is left.",
                "Right!",
                "The number is ",
                "guesses left",
            ] {
                assert!(source.text.contains(words), "{template} lacks `{words}`");
            }
        }
    }

    #[test]
    fn every_kind_has_a_complete_template() {
        let templates: BTreeSet<&str> = TEMPLATES.iter().map(|file| file.template).collect();
        for kind in ["environment", "tool", "reward", "wrapper"] {
            assert!(templates.contains(format!("rust-{kind}").as_str()), "{kind}: {templates:?}");
        }
        let name = PluginName::new("me", "a-b").expect("a name");
        for language in [Language::Rust, Language::Python, Language::Js] {
            let text = agents(language, KindArg::Tool, &name);
            assert!(!text.contains("{{") && text.contains("host plugin test .") && text.contains("a-b.wasm"), "{text}");
        }
        for file in TEMPLATES {
            let filled = fill(file.text, &name, "/sdk");
            assert!(!filled.contains("{{"), "{}/{} has an unfilled placeholder", file.template, file.path);
        }
    }
}
