//! The page of a run's rewards: their distributions and agreement, and the failures and times of the same episodes.

mod comparisons;
mod disagreements;
mod sample;
mod statistics;

use maud::{Markup, html};

use crate::chart::ValueHistogram;
use crate::episodes::filter::EpisodeFilter;
use crate::error::PageProblem;
use crate::layout::{self, PageFrame, choices, input, scrolling, select};
use crate::query::Query;
use crate::run::ShownRun;
use crate::state::App;
use crate::words::{counted, number, visible};
use comparisons::comparisons;
use disagreements::disagreements;
use sample::EpisodeSample;
use statistics::{correlation, moments, present};

/// Most series that are compared with each other.
const COMPARED: usize = 24;
/// Parts of a histogram.
const PARTS: usize = 20;

/// The page.
pub(crate) fn page(app: &App, run: &ShownRun, query: &Query) -> Result<Markup, PageProblem> {
    let filter = EpisodeFilter::parse(query)?;
    let sample = EpisodeSample::read(&run.table()?, &filter, &run.stages())?;
    let compared = comparisons(run)?;
    let title = format!("Rewards of {}", run.name);
    let body = html! {
        h1 { "Rewards of " (visible(&run.name)) }
        (form(run, query))
        p role="status" {
            (counted(sample.ids.len(), "episode"))
            @if sample.ids.len() < sample.candidates { ", a sample of " (sample.candidates) }
        }
        @if sample.series.is_empty() { p { "These episodes have no rewards." } } @else {
            h2 { "Distributions" }
            (scrolling("Distributions", &distributions(&sample)))
            @if sample.series.len() > 1 {
                h2 { "Agreement" }
                p { "Pearson's correlation over the episodes that have both numbers: 1 for rewards that agree, -1 for opposite ones." }
                (scrolling("Agreement", &agreement(&sample)))
                (disagreements(run, &sample, query))
            }
        }
        (compared)
        (failures(&sample))
        (time(&sample))
    };
    Ok(layout::page(app, &PageFrame { title: &title, run: Some(run), live: vec![] }, &body))
}

fn form(run: &ShownRun, query: &Query) -> Markup {
    let mut stages = choices(&[("", "all")]);
    stages.extend(run.stages().into_iter().enumerate().map(|(stage, name)| (stage.to_string(), name)));
    let phases =
        [("", "all"), ("train", "training"), ("evaluation", "evaluation"), ("demonstrations", "demonstrations")];
    html! {
        form.options method="get" action=(format!("{}/rewards", run.path())) aria-label="Filters" data-auto {
            (select(query, "stage", "Stage", &stages))
            (select(query, "phase", "Phase", &choices(&phases)))
            (input(query, "step_min", "Step from", "number"))
            (input(query, "step_max", "Step to", "number"))
            button { "Show" }
        }
    }
}

/// A row for each number and phase. Means of several phases together would say little: demonstrations succeed, and
/// evaluations are greedy.
fn distributions(sample: &EpisodeSample) -> Markup {
    let phases = sample.phases();
    html! {
        table {
            thead { tr {
                th scope="col" { "Number" } @if phases.len() > 1 { th scope="col" { "Phase" } }
                th.number scope="col" { "Episodes" } th.number scope="col" { "Mean" } th.number scope="col" { "Deviation" } th.number scope="col" { "Lowest" } th.number scope="col" { "Highest" }
                th scope="col" { "Distribution" }
            } }
            tbody {
                @for ((name, series), phase) in sample.series.iter().flat_map(|entry| phases.iter().map(move |phase| (entry, phase))) {
                    @let values = present(&sample.of_phase(series, *phase));
                    @if let Some((mean, deviation)) = moments(&values) {
                        tr {
                            th scope="row" { (visible(name)) }
                            @if phases.len() > 1 { td { (phase.name()) } }
                            td.number { (values.len()) }
                            td.number { (number(mean)) }
                            td.number { (number(deviation)) }
                            td.number { (number(values.iter().copied().fold(f64::INFINITY, f64::min))) }
                            td.number { (number(values.iter().copied().fold(f64::NEG_INFINITY, f64::max))) }
                            td {
                                @if let Some(histogram) = ValueHistogram::of(&values, PARTS) { (histogram.draw(name)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn agreement(sample: &EpisodeSample) -> Markup {
    let series: Vec<(&String, &Vec<Option<f64>>)> = sample.series.iter().take(COMPARED).collect();
    html! {
        table.agreement {
            thead { tr { th scope="col" { "Number" } @for (name, _) in &series { th scope="col" { (visible(name)) } } } }
            tbody {
                @for (name, one) in &series {
                    tr {
                        th scope="row" { (visible(name)) }
                        @for (_, other) in &series {
                            @match correlation(one, other) {
                                Some(value) => td.number.(strength(value)) { (format!("{value:.2}")) },
                                None => td.number { "–" },
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Class of a correlation.
fn strength(value: f64) -> &'static str {
    match value {
        0.7.. => "agrees",
        ..=-0.3 => "opposes",
        _ => "",
    }
}

fn failures(sample: &EpisodeSample) -> Markup {
    html! {
        h2 { "Failures" }
        @if sample.failures.is_empty() { p { "These episodes have no failures." } } @else {
            ul { @for (cause, count) in &sample.failures { li { (visible(cause)) ": " (counted(*count, "episode")) } } }
        }
    }
}

fn time(sample: &EpisodeSample) -> Markup {
    let sum: f64 = sample.time.iter().map(|(_, milliseconds)| milliseconds).sum();
    html! {
        @if sum > 0.0 {
            h2 { "Time" }
            p { "Share of the episodes' wall-clock time by boundary:" }
            ul { @for (name, milliseconds) in &sample.time { li { (name) ": " (number(100.0 * milliseconds / sum)) " %" } } }
        }
    }
}
