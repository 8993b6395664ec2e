//! The overview: results and curves of one or several runs.

pub(crate) mod health;
mod series;
pub(crate) mod settings;

use std::collections::BTreeMap;

use gymkhana_store::{MetricsLine, RunSummary, StageSummary};
use maud::{Markup, html};

use crate::chart::{Curve, colour, curves};
use crate::error::PageProblem;
use crate::layout::{self, PageFrame, choices, input, scrolling, select};
use crate::query::Query;
use crate::run::ShownRun;
use crate::state::App;
use crate::words::{number, seconds, visible};
use series::{Across, CurveView, Zoom, names};

/// Points of a run's values, by name.
type Series = BTreeMap<String, Vec<(f64, f64)>>;

/// The runs that a query selects; all if it names none.
fn selected<'a>(app: &'a App, query: &Query) -> Result<Vec<&'a ShownRun>, PageProblem> {
    let wanted: Vec<&str> = query.all("run").collect();
    if wanted.is_empty() {
        return Ok(app.runs().iter().collect());
    }
    let find = |text: &str| {
        let index = text.parse().map_err(|_| PageProblem::NotFound(format!("there is no run `{text}`")))?;
        app.run(index)
    };
    wanted.into_iter().map(find).collect()
}

/// The page.
pub(crate) fn page(app: &App, query: &Query) -> Result<Markup, PageProblem> {
    let runs = selected(app, query)?;
    let across = query.choice("x", &[("step", Across::Steps), ("time", Across::Minutes)], "step or time")?;
    let across = across.unwrap_or(Across::Steps);
    let zoom = Zoom { from: query.parsed("from", "a number")?, to: query.parsed("to", "a number")? };
    let stage = query.get("stage");
    let past = query.parsed::<f64>("smooth", "a number from 0 to 0.99")?.unwrap_or(0.0).clamp(0.0, 0.99);
    let mut all = Vec::new();
    for run in &runs {
        let lines = run.metrics()?;
        let chosen = stage.map(|name| run.stages().iter().position(|known| known == name));
        let lines: Vec<&MetricsLine> = match chosen {
            None => lines.iter().collect(),
            Some(index) => lines.iter().filter(|line| Some(line.stage as usize) == index).collect(),
        };
        let view = CurveView { across, zoom, own_steps: stage.is_some() };
        all.push((*run, series::of_run(&lines, &run.finished_stages()?, view)));
    }
    let (first, others) = names(&all.iter().flat_map(|(_, series)| series));
    let x_name = match (across, stage) {
        (Across::Minutes, _) => "minutes".to_owned(),
        (Across::Steps, None) => "training step".to_owned(),
        (Across::Steps, Some(stage)) => format!("training step of {stage}"),
    };
    let chart = |name: &str| curves(name, "", &x_name, &of_name(&all, name), past);
    let body = html! {
        h1 { "Overview" }
        (results(&runs)?)
        (options(app, &runs, query))
        @if first.is_empty() && others.is_empty() {
            p { "No training step has been recorded here yet." }
        }
        div.charts { @for name in first { (chart(name)) } }
        @if !others.is_empty() {
            details #others {
                summary { "Other values (" (others.len()) ")" }
                div.charts { @for name in others { (chart(name)) } }
            }
        }
    };
    let live = layout::updated(query, runs.iter().map(|run| run.index).collect())?;
    Ok(layout::page(app, &PageFrame { title: "Overview", run: None, live }, &body))
}

fn of_name(all: &[(&ShownRun, Series)], name: &str) -> Vec<Curve> {
    let curve = |(run, series): &(&ShownRun, Series)| {
        let points = series.get(name)?.clone();
        Some(Curve { run: run.index, name: run.name.clone(), points })
    };
    all.iter().filter_map(curve).collect()
}

/// Stages of some runs by name, after the choice of all.
fn stages_of(runs: &[&ShownRun]) -> Vec<(String, String)> {
    let mut stages = choices(&[("", "all")]);
    for name in runs.iter().flat_map(|run| run.stages()) {
        if stages.iter().all(|(known, _)| *known != name) {
            stages.push((name.clone(), name));
        }
    }
    stages
}

/// The form with the runs and the axis.
fn options(app: &App, runs: &[&ShownRun], query: &Query) -> Markup {
    let smooth = [("", "none"), ("0.5", "a little"), ("0.8", "some"), ("0.95", "much")];
    html! {
        form.options method="get" action="/" aria-label="Curves" data-auto {
            @if app.runs().len() > 1 {
                fieldset {
                    legend { "Runs" }
                    @for run in app.runs() {
                        label class={ "toggle " (colour(run.index)) } {
                            input type="checkbox" name="run" value=(run.index)
                                checked[runs.iter().any(|shown| shown.index == run.index)];
                            span.mark aria-hidden="true" {}
                            (visible(&run.name))
                        }
                    }
                }
            }
            (select(query, "stage", "Stage", &stages_of(runs)))
            (select(query, "x", "Axis", &choices(&[("", "training step"), ("time", "minutes")])))
            (select(query, "smooth", "Smoothing", &choices(&smooth)))
            (input(query, "from", "From", "number"))
            (input(query, "to", "To", "number"))
            button { "Show" }
            a href="/" { "Show all" }
        }
    }
}

/// A table with the state and the results of each run.
fn results(runs: &[&ShownRun]) -> Result<Markup, PageProblem> {
    let mut rows = Vec::new();
    for run in runs {
        let (summary, stages) = (run.reader.summary()?, run.finished_stages()?);
        rows.push((*run, summary, stages, run.reader.is_in_use()?, run.table()?.len(), run.metrics()?.len()));
    }
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "Run" } th scope="col" { "State" } th.number scope="col" { "Steps" }
                th.number scope="col" { "Episodes" } th scope="col" { "Success of stages" }
                th.number scope="col" { "Success" } th scope="col" { "Time" }
            } }
            tbody {
                @for (run, summary, finished, is_live, episodes, steps) in &rows {
                    tr {
                        th scope="row" class=(colour(run.index)) { span.mark aria-hidden="true" {} (visible(&run.name)) }
                        td { (state(summary.as_ref(), *is_live)) }
                        td.number { (steps) }
                        td.number { a href=(format!("{}/episodes", run.path())) { (episodes) } }
                        td { (stages(run, finished)) }
                        td.number { (share(summary.as_ref().and_then(|summary| summary.success))) }
                        td { @if let Some(summary) = summary { (seconds(summary.seconds)) } }
                    }
                }
            }
        }
    };
    Ok(scrolling("Results of the runs", &table))
}

fn state(summary: Option<&RunSummary>, is_live: bool) -> &'static str {
    match (summary, is_live) {
        (_, true) => "running",
        (Some(_), false) => "finished",
        (None, false) => "stopped",
    }
}

/// Success before and after each stage that has ended; the names of all stages before the first has.
fn stages(run: &ShownRun, finished: &[StageSummary]) -> Markup {
    let change = |stage: &StageSummary| format!("{} → {}", share(stage.success_before), share(stage.success_after));
    html! {
        @if finished.is_empty() { (visible(&run.stages().join(", "))) } @else {
            ul.plain { @for stage in finished { li { (visible(&stage.name)) ": " (change(stage)) } } }
        }
    }
}

/// A share as a percentage.
pub(crate) fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{} %", number((value * 1000.0).round() / 10.0)))
}
