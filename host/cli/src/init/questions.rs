//! The plugins that a user names by flags, or in answer to three questions at a terminal.

use std::io::{IsTerminal, Write, stderr, stdin};

use gymkhana_registry::{Capability, Kind, Requirement, RequirementName};
use gymkhana_registry_client::SearchHit;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::args::InitArgs;
use crate::args::plugin::KindArg;
use crate::error::{Classify, CliError, CliResult};
use crate::escape::escape_terminal;
use crate::printer::Printer;
use crate::registry::RegistrySession;

const PROMPT: &str = "Numbers or names, with commas: ";

/// Plugins of a new project.
#[derive(Debug)]
pub struct WantedParts {
    /// `None` if the project's own environment is the one.
    pub environment: Option<Requirement>,
    pub tools: Vec<Requirement>,
    pub rewards: Vec<Requirement>,
}

/// The plugins that the flags name. Without an environment, the user is asked.
pub fn wanted(args: &InitArgs, session: &RegistrySession, printer: &Printer) -> CliResult<WantedParts> {
    if args.environment.is_some() || args.own == Some(KindArg::Environment) {
        let (tools, rewards) = (named(&args.tools)?, named(&args.rewards)?);
        return Ok(WantedParts { environment: args.environment.clone(), tools, rewards });
    }
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        let hint = "name one with --environment, such as `--environment word-problems`; `host list --all` lists them";
        return Err(CliError::user("the project has no environment").with_hint(hint));
    }
    let found = session.wait(printer, session.client().search(&[]))?;
    let environments = choices(&found, Kind::Environment, session, printer)?;
    let environment = loop {
        match &ask("Which environment?", &environments)?[..] {
            [one] => break one.clone(),
            _ => printer.status("name one environment"),
        }
    };
    let of = |given: &[String], question: &str, kind| match given {
        [] => ask(question, &choices(&found, kind, session, printer)?),
        given => named(given),
    };
    let tools = of(&args.tools, "Which tools? (none, or several)", Kind::Tool)?;
    let rewards = of(&args.rewards, "Which rewards besides the environment's own? (none, or several)", Kind::Reward)?;
    Ok(WantedParts { environment: Some(environment), tools, rewards })
}

/// Requirements in words, of which empty ones are left out.
fn named(words: &[String]) -> CliResult<Vec<Requirement>> {
    words.iter().filter(|word| !word.is_empty()).map(|word| word.parse().user_error()).collect()
}

/// Plugins of a kind, without wrappers, which change an environment and are none of their own.
fn choices<'a>(
    found: &'a [SearchHit],
    kind: Kind,
    session: &RegistrySession,
    printer: &Printer,
) -> CliResult<Vec<&'a SearchHit>> {
    let mut chosen = Vec::new();
    for hit in found.iter().filter(|hit| hit.row.kinds.contains(&kind)) {
        let name = RequirementName::Full(hit.row.name.clone());
        let versions = session.wait(printer, session.client().versions(&name))?;
        let wraps = |row: &gymkhana_registry::IndexRow| row.capabilities.contains(&Capability::InnerEnvironment);
        if versions.newest().is_some_and(|row| !wraps(row)) {
            chosen.push(hit);
        }
    }
    Ok(chosen)
}

/// Asks until the answer consists of numbers in the list and of names; an empty answer is none.
fn ask(question: &str, choices: &[&SearchHit]) -> CliResult<Vec<Requirement>> {
    let mut text = format!("{question}\n");
    for (number, hit) in (1..).zip(choices) {
        text.push_str(&format!("{number:>4}  {:<20} {}\n", hit.row.name.name(), hit.row.description));
    }
    say(&text)?;
    let unreadable = "the answer cannot be read\nhint: use the flags";
    let mut editor = DefaultEditor::new().user_context(unreadable)?;
    loop {
        let answer = match editor.readline(PROMPT) {
            Ok(answer) => answer,
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => {
                return Err(CliError::user("the questions were not answered").with_hint("use the flags"));
            }
            Err(error) => return Err(error).user_context(unreadable),
        };
        match parsed(&answer, choices) {
            Ok(chosen) => return Ok(chosen),
            Err(problem) => say(&format!("{problem}\n"))?,
        }
    }
}

fn say(text: &str) -> CliResult<()> {
    stderr().write_all(escape_terminal(text).as_bytes()).user_context("the question cannot be written")
}

/// The plugins of an answer.
fn parsed(answer: &str, choices: &[&SearchHit]) -> Result<Vec<Requirement>, String> {
    let words = answer.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty() && *word != "none");
    let one = |word: &str| match word.parse::<usize>() {
        Ok(number) => {
            let hit = number.checked_sub(1).and_then(|place| choices.get(place));
            let hit = hit.ok_or_else(|| format!("there is no number {number}"))?;
            hit.row.name.to_string().parse::<Requirement>().map_err(|error| error.to_string())
        }
        Err(_) => word.parse::<Requirement>().map_err(|error| error.to_string()),
    };
    words.map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gymkhana_registry::{CATALOGUE_SCHEMA, CatalogueRow};

    use super::*;

    fn hit(name: &str) -> SearchHit {
        let row = CatalogueRow {
            schema: CATALOGUE_SCHEMA,
            name: name.parse().expect("a name"),
            version: semver::Version::new(0, 1, 0),
            kinds: BTreeSet::from([Kind::Tool]),
            description: String::new(),
        };
        SearchHit { registry: "local".to_owned(), row, is_local: true }
    }

    #[test]
    fn an_answer_is_numbers_and_names() {
        let (one, two) = (hit("acme/adder"), hit("acme/clock"));
        let names = |answer: &str| {
            let chosen = parsed(answer, &[&one, &two])?;
            Ok::<_, String>(chosen.iter().map(|name| name.name.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(names("2, acme/adder\n"), Ok(vec!["acme/clock".to_owned(), "acme/adder".to_owned()]));
        assert_eq!(names("adder@^1"), Ok(vec!["adder".to_owned()]));
        assert_eq!((names("\n"), names("none")), (Ok(vec![]), Ok(vec![])));
        assert_eq!(names("3"), Err("there is no number 3".to_owned()));
        assert_eq!(names("0"), Err("there is no number 0".to_owned()));
        assert!(names("Adder!").is_err());
    }
}
