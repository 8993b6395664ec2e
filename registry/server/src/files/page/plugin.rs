//! The page of a plugin: its release, and what the plugin says about itself.

use gymkhana_registry::{
    AcceptedCheckpoint, Answered, Check, CheckOutcome, EnvironmentDescription, ExampleEntry, FolderReadError,
    FunctionDescription, IndexRow, OptionDescription, PluginName, Release, Report, RewardDescription, SelfDescription,
    Speaker, ToolDescription,
};

use super::html::{document, heading, joined, paragraph, table, transcript};
use super::shown_version;
use crate::service::RegistryService;

/// Renders the page; `None` if the registry does not have the plugin.
pub(super) fn render(
    service: &RegistryService,
    state: &AcceptedCheckpoint,
    name: &PluginName,
) -> Result<Option<String>, FolderReadError> {
    let mut rows = service.folder.rows(state, name)?;
    rows.sort_by(|one, other| other.version.cmp(&one.version));
    let Some(row) = shown_version(&rows) else { return Ok(None) };
    let release = service.folder.release(row)?;
    let mut body = "<p><a href=\"../../\">All plugins</a></p>\n".to_owned();
    body += &paragraph(&release.manifest.description);
    body += &release_table(&release, &rows, row);
    body += &match &release.description {
        Some(description) => sections(description),
        None => paragraph("The release does not describe options, functions, splits and components."),
    };
    body += &match &release.report {
        Some(report) => conformance(report),
        None => paragraph("The release has no conformance report."),
    };
    Ok(Some(document(&format!("{name} {}", row.version), &body)))
}

/// Facts of the release.
fn release_table(release: &Release, rows: &[IndexRow], row: &IndexRow) -> String {
    let manifest = &release.manifest;
    let version = |row: &IndexRow| format!("{}{}", row.version, if row.yanked { " (yanked)" } else { "" });
    let publisher = row.signer.map_or_else(|| "no key".to_owned(), |key| key.to_string());
    let facts = [
        ("Add to a project", format!("host add {}@^{}", row.name, row.version)),
        ("Versions", joined(rows.iter().map(version))),
        ("Kinds", joined(&manifest.kinds)),
        ("Capabilities", joined(&manifest.capabilities)),
        ("Licence", manifest.license.clone()),
        ("Contract", format!("{} ({})", manifest.contract.version, manifest.contract.digest)),
        ("Deterministic", if manifest.deterministic { "yes" } else { "no" }.to_owned()),
        ("Publisher", publisher),
        ("Digest", release.digest.to_string()),
        ("Size", format!("{} bytes", release.size)),
    ];
    table(["Property", "Value"], facts.map(|(name, fact)| [name.to_owned(), fact]), "")
}

/// Checks of the suite with their evidence.
fn conformance(report: &Report) -> String {
    let row = |check: &Check| {
        let (outcome, words) = match &check.outcome {
            CheckOutcome::Passed(words) => ("passed", words),
            CheckOutcome::Failed(words) => ("failed", words),
            CheckOutcome::Skipped(words) => ("skipped", words),
        };
        [check.name.clone(), outcome.to_owned(), words.clone()]
    };
    let settings = format!(
        "Suite {} with {} actions, seed {}: {} steps, calls and scorings.",
        report.suite, report.actions, report.seed, report.steps
    );
    let rows = report.checks.iter().map(row);
    heading("Conformance report") + &paragraph(&settings) + &table(["Check", "Outcome", "Evidence"], rows, "No checks.")
}

fn sections(description: &SelfDescription) -> String {
    let SelfDescription { environment, tool, reward } = description;
    let environment = environment.as_ref().map(environment_section);
    let tool = tool.as_ref().map(tool_section);
    let reward = reward.as_ref().map(reward_section);
    [environment, tool, reward].into_iter().flatten().collect()
}

fn environment_section(environment: &EnvironmentDescription) -> String {
    let [low, high] = environment.rewards;
    let mut text = heading("Environment") + &paragraph(&environment.summary);
    text +=
        &paragraph(&format!("Seats: {}. Rewards per seat and episode: {low} to {high}.", joined(&environment.seats)));
    text += &paragraph(&format!("Optional interfaces: {}.", joined(&environment.offers)));
    text += &options(&environment.options);
    text += &answer("Splits", &environment.splits, |splits| {
        let tasks = |tasks: Option<u64>| tasks.map_or_else(|| "endless".to_owned(), |tasks| tasks.to_string());
        let rows = splits.iter().map(|split| [split.name.clone(), tasks(split.tasks)]);
        table(["Split", "Tasks"], rows, "No splits.")
    });
    text += &answer("Functions of the first task", &environment.first_task, |first| functions(&first.functions));
    text += &answer("Privileged fields", &environment.first_task, |first| paragraph(&joined(&first.privileged)));
    text += &answer("Facts that success may name", &environment.facts, |facts| paragraph(&joined(facts)));
    text + &example(&environment.example)
}

/// Transcript of the first task, if there is one.
fn example(entries: &[ExampleEntry]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let row = |ExampleEntry { seat, by, text }: &ExampleEntry| {
        let by = match by {
            Speaker::Environment => "environment",
            Speaker::Oracle => "oracle",
        };
        [seat.to_string(), by.to_owned(), text.clone()]
    };
    let rows = entries.iter().map(row);
    heading("Example") + &transcript(["Seat", "By", "Text"], rows)
}

fn tool_section(tool: &ToolDescription) -> String {
    let mut text = heading("Tool") + &paragraph(&tool.summary);
    text += &paragraph(&format!("Optional interfaces: {}.", joined(&tool.offers)));
    text += &options(&tool.options);
    text + &answer("Functions", &tool.functions, |all| functions(all))
}

fn reward_section(reward: &RewardDescription) -> String {
    let [low, high] = reward.range;
    let mut text = heading("Reward") + &paragraph(&reward.summary);
    text += &paragraph(&format!("Range: {low} to {high}."));
    text += &match &reward.unscored_without_privileged {
        Some(reason) => paragraph(&format!("An episode without privileged fields is not scored: {reason}")),
        None => paragraph("Needs no privileged fields."),
    };
    text += &options(&reward.options);
    let components = reward.components.iter().map(|one| [one.name.clone(), one.description.clone()]);
    text + &heading("Components") + &table(["Component", "Measures"], components, "No components.")
}

fn options(options: &[OptionDescription]) -> String {
    let row = |option: &OptionDescription| {
        [option.name.clone(), option.kind.clone(), option.default.to_string(), option.description.clone()]
    };
    let rows = options.iter().map(row);
    heading("Options") + &table(["Option", "Type", "Default", "Description"], rows, "No options.")
}

fn functions(functions: &[FunctionDescription]) -> String {
    let row = |function: &FunctionDescription| {
        let seat = function.seat.map_or_else(String::new, |seat| seat.to_string());
        let (name, description) = (function.name.clone(), function.description.clone());
        [seat, name, description, function.parameters.to_string(), function.cost.to_string()]
    };
    let rows = functions.iter().map(row);
    table(["Seat", "Function", "Description", "Arguments", "Cost"], rows, "No functions.")
}

/// Section of an answer, or the reason why the plugin gave none under default options.
fn answer<T>(title: &str, answer: &Answered<T>, show: impl FnOnce(&T) -> String) -> String {
    let shown = match answer {
        Answered::Given(answer) => show(answer),
        Answered::Failed { error } => paragraph(&format!("Not known with default options: {error}")),
    };
    heading(title) + &shown
}
