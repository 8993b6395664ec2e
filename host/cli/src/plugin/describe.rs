//! Self-description of a plugin for people: rows of its page. Texts of the plugin stay within their line.

use std::fmt::Display;

use gymkhana_registry::{
    Answered, ComponentDescription, EnvironmentDescription, FirstTask, FunctionDescription, OptionDescription,
    SelfDescription, SplitDescription,
};

use crate::escape::escape_line;
use crate::units::counted;

/// Rows of a plugin's page: a name and its lines.
pub type DescriptionRows = Vec<(&'static str, Vec<String>)>;

/// Rows of a self-description that was given under `options`, such as `default options`.
pub fn rows(described: &SelfDescription, options: &str) -> DescriptionRows {
    let mut rows = DescriptionRows::new();
    if let Some(environment) = &described.environment {
        rows.extend(environment_rows(environment, options));
    }
    if let Some(tool) = &described.tool {
        rows.push(("summary", vec![escape_line(&tool.summary)]));
        rows.push(("options", option_lines(&tool.options)));
        rows.push(("functions", answer_lines(&tool.functions, options, |functions| function_lines(functions))));
        rows.push(("offers", offer_lines(&tool.offers)));
    }
    if let Some(reward) = &described.reward {
        let component = |one: &ComponentDescription| format!("{}: {}", one.name, one.description);
        rows.push(("summary", vec![escape_line(&reward.summary)]));
        rows.push(("range", vec![range_line(reward.range)]));
        rows.push(("components", or_none(reward.components.iter().map(component))));
        rows.push(("options", option_lines(&reward.options)));
        let needs = match &reward.unscored_without_privileged {
            Some(reason) => format!("an episode without fields is not scored: {}", escape_line(reason)),
            None => "none needed: an episode without fields is scored".to_owned(),
        };
        rows.push(("privileged", vec![needs]));
    }
    rows
}

fn environment_rows(environment: &EnvironmentDescription, options: &str) -> DescriptionRows {
    let split = |split: &SplitDescription| match split.tasks {
        Some(tasks) => format!("{}: {}", split.name, counted(tasks, "task")),
        None => format!("{}: endless", split.name),
    };
    let privileged = |first: &FirstTask| or_none(first.privileged.iter());
    vec![
        ("summary", vec![escape_line(&environment.summary)]),
        ("seats", or_none(environment.seats.iter())),
        ("rewards", vec![format!("{} per seat and episode", range_line(environment.rewards))]),
        ("options", option_lines(&environment.options)),
        ("splits", answer_lines(&environment.splits, options, |splits| or_none(splits.iter().map(split)))),
        ("functions", answer_lines(&environment.first_task, options, |first| function_lines(&first.functions))),
        ("privileged", answer_lines(&environment.first_task, options, privileged)),
        ("facts", answer_lines(&environment.facts, options, |facts| or_none(facts.iter()))),
        ("offers", offer_lines(&environment.offers)),
    ]
}

/// Lines of an answer that was given under `options`, or one line with the reason.
fn answer_lines<T>(answer: &Answered<T>, options: &str, lines: impl FnOnce(&T) -> Vec<String>) -> Vec<String> {
    match answer {
        Answered::Given(answer) => lines(answer),
        Answered::Failed { error } => vec![format!("not known with {options}: {}", escape_line(error))],
    }
}

fn range_line([low, high]: [f64; 2]) -> String {
    format!("{low} to {high}")
}

fn option_lines(options: &[OptionDescription]) -> Vec<String> {
    let line = |option: &OptionDescription| {
        format!("{} = {} ({}): {}", option.name, option.default, option.kind, option.description)
    };
    or_none(options.iter().map(line))
}

fn function_lines(functions: &[FunctionDescription]) -> Vec<String> {
    let line = |function: &FunctionDescription| {
        let FunctionDescription { seat, name, description, parameters, .. } = function;
        let seat = seat.map(|seat| format!("seat {seat}, ")).unwrap_or_default();
        format!("{seat}{name}: {description} {parameters}")
    };
    or_none(functions.iter().map(line))
}

fn offer_lines(offers: &[String]) -> Vec<String> {
    if offers.is_empty() { vec!["none".to_owned()] } else { vec![escape_line(&offers.join(", "))] }
}

/// One escaped line for each item, or `none`.
fn or_none(items: impl Iterator<Item = impl Display>) -> Vec<String> {
    let lines: Vec<String> = items.map(|item| escape_line(&item.to_string())).collect();
    if lines.is_empty() { vec!["none".to_owned()] } else { lines }
}
