//! The page of one episode.

mod content;
mod details;
mod token_texts;
mod tokens;
pub(crate) mod transcript;

use gymkhana_record::{AgentRun, EpisodeId, EpisodeRecord};
use gymkhana_store::EpisodeTable;
use maud::{Markup, html};

use crate::error::PageProblem;
use crate::layout::{self, PageFrame};
use crate::query::Query;
use crate::replay;
use crate::replayer::ReplayRequest;
use crate::run::{ShownRun, group_name};
use crate::state::App;
use crate::words::{number, numbers, seconds, visible, yes};

/// The page.
pub(crate) fn page(app: &App, run: &ShownRun, id: &str, query: &Query) -> Result<Markup, PageProblem> {
    let id: EpisodeId =
        id.parse().map_err(|error: gymkhana_record::ParseEpisodeIdError| PageProblem::NotFound(error.to_string()))?;
    let table = run.table()?;
    let missing = || PageProblem::NotFound(format!("the run has no episode `{id}`"));
    let position = table.position(id).ok_or_else(missing)?;
    let record = table.record(position)?.ok_or_else(missing)?;
    let body = html! {
        h1 { "Episode " (id.to_string()) }
        (neighbours(run, &table, position))
        (summary(app, run, &record))
        (details::scores(&record))
        (details::failures(&record))
        h2 { "Transcript" }
        (opening(&record))
        (transcript::turns(&record, fork_links(app, run, &record).as_deref()))
        @if let Some(agent) = &record.agent { (agent_program(agent)) }
        (facts(&record))
        (tokens::section(&record, run, query)?)
        h2 { "Details" }
        (details::functions(&record))
        (details::costs(&record))
        (details::exchanges(&record))
        (details::logs(&record))
    };
    Ok(layout::page(app, &PageFrame { title: &format!("Episode {id}"), run: Some(run), live: vec![] }, &body))
}

/// Links to the episodes before and after in the order of storing, and to the group.
fn neighbours(run: &ShownRun, table: &EpisodeTable, position: usize) -> Markup {
    let before = position.checked_sub(1).and_then(|position| table.row(position));
    let after = table.row(position + 1);
    html! {
        nav.pages aria-label="Episodes" {
            a href=(format!("{}/episodes", run.path())) { "All episodes" }
            @if let Some(row) = table.row(position) { a href=(run.group_path(row.id)) { "Group " (group_name(row.id)) } }
            @if let Some(row) = before { a rel="prev" href=(run.episode_path(row.id)) { "Previous" } }
            @if let Some(row) = after { a rel="next" href=(run.episode_path(row.id)) { "Next" } }
        }
    }
}

fn summary(app: &App, run: &ShownRun, record: &EpisodeRecord) -> Markup {
    let timing = &record.timing;
    html! {
        dl.facts {
            dt { "Task" } dd { (visible(&record.task_name())) }
            dt { "Ending" } dd { (record.ending.word()) }
            dt { "Success" } dd { (yes(record.success)) }
            dt { "Reward" } dd { (numbers(&record.rewards)) }
            @if record.environment_rewards.iter().any(|seat| !seat.rewards.is_empty()) {
                dt { "Reward of the environment" } dd { ul.plain { @for seat in &record.environment_rewards {
                    li { "seat " (seat.seat) ": " (numbers(&seat.rewards)) }
                } } }
            }
            dt { "Seed" } dd { (record.seed.0) }
            dt { "Selected" } dd { (yes(record.selected)) }
            dt { "Time" } dd {
                (seconds(timing.total_ms / 1000.0)) ": policy " (milliseconds(timing.policy_ms)) ", environment "
                (milliseconds(timing.environment_ms)) ", tools " (milliseconds(timing.tool_ms)) ", rewards "
                (milliseconds(timing.reward_ms))
            }
            @if !record.forks.is_empty() {
                dt { "Forked from" } dd { ol.plain { @for fork in &record.forks {
                    li { a href=(run.episode_path(fork.parent)) { (fork.parent.to_string()) } " after " (fork.taken()) " turns" }
                } } }
            }
        }
        @if record.unsandboxed.is_empty() {
            p { "Replay it and compare every byte:" }
            pre.command tabindex="0" { (replay::command(&ReplayRequest { run: run.reader.path().to_owned(), episode: record.id, fork: None })) }
            @if app.replays().is_some() { p { a href=(replay::path(run, record.id, None)) { "Replay it here" } } }
        } @else {
            p { "It cannot be replayed, because these plugins ran without a sandbox: " (visible(&record.unsandboxed.join(", "))) }
        }
    }
}

/// Addresses that fork the episode before each of its turns, if replays are allowed and the episode can be forked.
fn fork_links(app: &App, run: &ShownRun, record: &EpisodeRecord) -> Option<Vec<String>> {
    app.replays().filter(|_| record.unsandboxed.is_empty() && record.agent.is_none())?;
    let turns = 0..record.policy_turns.len() as u32;
    Some(turns.map(|turn| replay::path(run, record.id, Some(turn))).collect())
}

fn milliseconds(value: f64) -> String {
    format!("{} ms", number(value))
}

fn opening(record: &EpisodeRecord) -> Markup {
    html! {
        @if let Some(guidance) = &record.guidance {
            section.turn.observation { h3 { "Hint from a failed attempt" } (content::content(guidance)) }
        }
        @if record.turns.is_empty() { p { "The transcript is empty." } }
        @if !record.opening.observations.is_empty() {
            details {
                summary { "First observations (" (record.opening.observations.len()) ")" }
                @for (seat, parts) in &record.opening.observations {
                    section.turn.observation { h3 { "Environment to seat " (seat) } (content::content(parts)) }
                }
            }
        }
    }
}

fn agent_program(agent: &AgentRun) -> Markup {
    html! {
        h2 { "Agent program" }
        dl.facts {
            dt { "Exit" } dd { @match agent.exit { Some(code) => (code), None => "ended by a signal or a deadline" } }
            dt { "Requests" } dd { (agent.repeats) " repeated, " (agent.side_requests) " side requests, " (agent.refused) " refused" }
        }
        @if let Some(answer) = &agent.answer { h3 { "Answer" } (content::text(answer)) }
        @if !agent.stderr.is_empty() { h3 { "Standard error" } (content::text(&agent.stderr)) }
    }
}

fn facts(record: &EpisodeRecord) -> Markup {
    html! {
        @if !record.extras.is_empty() { h2 { "Facts" } (content::facts(&record.extras)) }
        @if !record.views.is_empty() { h2 { "Final views of tools" } (content::facts(&record.views)) }
        @if !record.privileged.is_empty() || record.hint.is_some() {
            section.privileged aria-labelledby="privileged" {
                h2 #privileged { "Privileged" }
                p.note { "Policies never saw this." }
                (content::facts(&record.privileged))
                @if let Some(hint) = &record.hint { h3 { "Hint for another attempt" } (content::content(hint)) }
            }
        }
    }
}
