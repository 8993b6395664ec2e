//! The table of a run's episodes, and the page of one group.

pub(crate) mod filter;
pub(crate) mod group;
pub(crate) mod selection;

use gymkhana_record::{Ending, EpisodeRecord, FailureKind, Phase};
use maud::{Markup, html};

use crate::error::PageProblem;
use crate::layout::{self, PageFrame, choices, input, scrolling, select};
use crate::query::Query;
use crate::run::ShownRun;
use crate::state::App;
use crate::words::{counted, numbers, seconds, visible, yes};
use selection::{ORDERS, PageEpisodes, Wish};

/// The page.
pub(crate) fn page(app: &App, run: &ShownRun, query: &Query) -> Result<Markup, PageProblem> {
    let wish = Wish::parse(query)?;
    let table = run.table()?;
    let selection = selection::select(&table, &wish, &run.stages())?;
    let title = format!("Episodes of {}", run.name);
    let body = html! {
        h1 { "Episodes of " (visible(&run.name)) }
        (form(run, query))
        (count(&selection, &wish, table.len()))
        @if !selection.found.is_empty() {
            (scrolling("Episodes", &rows(run, &selection.found)))
        }
        (pages(run, query, &wish, &selection))
    };
    // A table that changes while it is read would move; only its first page is updated.
    let live = layout::updated(query, if wish.from == 0 { vec![run.index] } else { vec![] })?;
    Ok(layout::page(app, &PageFrame { title: &title, run: Some(run), live }, &body))
}

/// The form with the filters.
pub(crate) fn form(run: &ShownRun, query: &Query) -> Markup {
    let mut stages = choices(&[("", "all")]);
    stages.extend(run.stages().into_iter().enumerate().map(|(stage, name)| (stage.to_string(), name)));
    let mut phases = choices(&[("", "all"), ("train", "training"), ("evaluation", "evaluation")]);
    phases.push(("demonstrations".to_owned(), "demonstrations".to_owned()));
    let single = Phase::all().filter(|phase| !matches!(phase, Phase::Train | Phase::Demonstration));
    phases.extend(single.map(|phase| (phase.word().to_owned(), phase.word().to_owned())));
    let mut endings = choices(&[("", "all")]);
    endings.extend(Ending::ALL.map(|ending| (ending.word().to_owned(), ending.word().to_owned())));
    let mut failures = choices(&[("", "all"), ("none", "without"), ("any", "any")]);
    failures.extend(FailureKind::ALL.map(|kind| (kind.to_string(), kind.to_string())));
    let orders: Vec<(String, String)> =
        ORDERS.iter().map(|(word, _)| ((*word).to_owned(), word.replace('-', " "))).collect();
    html! {
        form.options method="get" action=(format!("{}/episodes", run.path())) aria-label="Filters" data-auto {
            (input(query, "text", "Text", "search"))
            (input(query, "where", "Expression", "search"))
            (select(query, "stage", "Stage", &stages))
            (select(query, "phase", "Phase", &phases))
            (select(query, "success", "Success", &choices(&[("", "all"), ("yes", "yes"), ("no", "no")])))
            (select(query, "ending", "Ending", &endings))
            (select(query, "failure", "Failures", &failures))
            (input(query, "environment", "Environment", "text"))
            (input(query, "reward_min", "Reward from", "number"))
            (input(query, "reward_max", "Reward to", "number"))
            (input(query, "step_min", "Step from", "number"))
            (input(query, "step_max", "Step to", "number"))
            (select(query, "order", "Order", &orders))
            button { "Show" }
            a href=(format!("{}/episodes", run.path())) { "Show all" }
        }
    }
}

fn count(selection: &PageEpisodes, wish: &Wish, all: usize) -> Markup {
    let examined = selection.next.unwrap_or(selection.candidates);
    html! {
        p role="status" {
            @if wish.filter.needs_records() {
                (counted(selection.found.len(), "episode")) " found; "
                (examined) " of " (selection.candidates) " searched"
                @if selection.is_cut { "; \u{201c}Next\u{201d} continues the search" }
            } @else {
                (counted(selection.candidates, "episode"))
                @if selection.candidates < all { " of " (all) }
                @if selection.candidates > 0 {
                    ", " (wish.from.min(selection.candidates) + 1) " to " (examined) " shown"
                }
            }
        }
    }
}

fn rows(run: &ShownRun, found: &[(usize, EpisodeRecord)]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Episode" } th scope="col" { "Group" } th scope="col" { "Task" }
                th scope="col" { "Ending" } th scope="col" { "Success" } th.number scope="col" { "Reward" }
                th.number scope="col" { "Calls" } th.number scope="col" { "Turns" } th scope="col" { "Time" }
                th scope="col" { "Failures" }
            } }
            tbody {
                @for (_, record) in found {
                    tr {
                        th scope="row" { a href=(run.episode_path(record.id)) { (record.id.to_string()) } }
                        td { a href=(run.group_path(record.id)) aria-label=(format!("Group of {}", record.id)) { "group" } }
                        td { (visible(&record.task_name())) }
                        td { (record.ending.word()) }
                        td { (yes(record.success)) }
                        td.number { (numbers(&record.rewards)) }
                        td.number { (record.calls()) }
                        td.number { (record.policy_turns.len()) }
                        td { (seconds(record.timing.total_ms / 1000.0)) }
                        td { (failures(record)) }
                    }
                }
            }
        }
    }
}

/// The kinds of an episode's failures, each once.
fn failures(record: &EpisodeRecord) -> String {
    let mut kinds: Vec<String> = record.failures.iter().map(|failure| failure.kind.to_string()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(", ")
}

fn pages(run: &ShownRun, query: &Query, wish: &Wish, selection: &PageEpisodes) -> Markup {
    let path = format!("{}/episodes", run.path());
    let earlier = (wish.from > 0 && !wish.filter.needs_records()).then(|| wish.from.saturating_sub(wish.size));
    let last = selection.candidates.saturating_sub(1) / wish.size * wish.size;
    html! {
        nav.pages aria-label="Pages" {
            @if wish.from > 0 { a href=(query.without("from").link(&path)) { "First" } }
            @if let Some(earlier) = earlier { a rel="prev" href=(query.with("from", earlier.to_string()).link(&path)) { "Previous" } }
            @if let Some(next) = selection.next { a rel="next" href=(query.with("from", next.to_string()).link(&path)) { "Next" } }
            @if selection.next.is_some() && !wish.filter.needs_records() {
                a href=(query.with("from", last.to_string()).link(&path)) { "Last" }
            }
        }
    }
}
