//! The members of one group side by side: rewards, scores and transcripts.

use gymkhana_record::{EpisodeId, EpisodeRecord};
use maud::{Markup, html};

use crate::episode::transcript;
use crate::error::PageProblem;
use crate::layout::{self, PageFrame, scrolling};
use crate::run::{ShownRun, first_of_group, group_name};
use crate::state::App;
use crate::words::{counted, number, numbers, visible, yes};

/// Most members whose transcripts are shown.
const TRANSCRIPTS: usize = 16;
/// Most levels of the tree of forks.
const DEPTH: u32 = 64;
/// Most members in the table.
const MEMBERS: usize = 500;

/// The page.
pub(crate) fn page(app: &App, run: &ShownRun, group: &str) -> Result<Markup, PageProblem> {
    let first = first_of_group(group).ok_or_else(|| {
        PageProblem::NotFound(format!(
            "`{group}` is not a group; an example is `1.train.12.3`: stage, phase, step, group"
        ))
    })?;
    let table = run.table()?;
    let is_member =
        |id: EpisodeId| (id.stage, id.phase, id.step, id.group) == (first.stage, first.phase, first.step, first.group);
    let positions = table.rows().enumerate().filter(|(_, row)| is_member(row.id)).map(|(position, _)| position);
    let mut members: Vec<EpisodeRecord> =
        table.outlines(&positions.take(MEMBERS).collect::<Vec<_>>())?.into_iter().map(|(_, record)| record).collect();
    members.sort_by_key(|record| record.id);
    let Some(one) = members.first() else {
        return Err(PageProblem::NotFound(format!("the run has no group `{group}`")));
    };
    let name = group_name(first);
    let body = html! {
        h1 { "Group " (name) }
        p { "Task " (visible(&one.task_name())) ", " (members.len()) " members" }
        (scrolling("Members", &comparison(run, &members)))
        (forks(run, &members))
        h2 { "Transcripts" }
        div.members.scroll role="region" aria-label="Transcripts" tabindex="0" {
            @for record in members.iter().take(TRANSCRIPTS) {
                section aria-label=(format!("Episode {}", record.id)) {
                    h3 { a href=(run.episode_path(record.id)) { (record.id.to_string()) } }
                    p { "reward " (numbers(&record.rewards)) ", success: " (yes(record.success)) }
                    @if !record.forks.is_empty() { p.note { "A fork: turns that it shares with its parent may be left out here." } }
                    (transcript::turns(record, None))
                }
            }
        }
    };
    Ok(layout::page(app, &PageFrame { title: &format!("Group {name}"), run: Some(run), live: vec![] }, &body))
}

/// The members as a tree: below each member those that were forked from it.
fn forks(run: &ShownRun, members: &[EpisodeRecord]) -> Markup {
    let parent = |record: &EpisodeRecord| {
        let parent = record.forks.last()?.parent;
        // An id that is not smaller cannot be that of an earlier member; without this rule a tree could have a cycle.
        members.iter().find(|member| member.id == parent && member.id < record.id).map(|member| member.id)
    };
    let parents: Vec<Option<EpisodeId>> = members.iter().map(parent).collect();
    html! {
        @if parents.iter().any(Option::is_some) {
            h2 { "Forks" }
            (branches(run, members, &parents, None, 0))
        }
    }
}

/// Members with this parent, each with its own forks below.
fn branches(
    run: &ShownRun,
    members: &[EpisodeRecord],
    parents: &[Option<EpisodeId>],
    parent: Option<EpisodeId>,
    depth: u32,
) -> Markup {
    let of_parent = || members.iter().zip(parents).filter(move |(_, of)| **of == parent);
    html! {
        @if of_parent().next().is_some() && depth < DEPTH {
            ul {
                @for (record, _) in of_parent() {
                    li {
                        a href=(run.episode_path(record.id)) { (record.id.to_string()) }
                        @if let Some(fork) = record.forks.last() { " after " (counted(fork.taken() as usize, "turn")) }
                        ", reward " (numbers(&record.rewards))
                        (branches(run, members, parents, Some(record.id), depth + 1))
                    }
                }
            }
        }
    }
}

/// Names of all score components of some episodes, with their rewards.
fn components(members: &[EpisodeRecord]) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for plugin in members.iter().flat_map(|record| &record.scores) {
        for component in plugin.scores.iter().flat_map(|score| &score.components) {
            let name = (plugin.plugin.clone(), component.name.clone());
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Value of a component for the first seat that has it.
fn component(record: &EpisodeRecord, (plugin, name): &(String, String)) -> Option<f64> {
    let scores = record.scores.iter().filter(|score| score.plugin == *plugin).flat_map(|score| &score.scores);
    scores
        .flat_map(|score| &score.components)
        .find(|component| component.name == *name)
        .map(|component| component.value)
}

fn comparison(run: &ShownRun, members: &[EpisodeRecord]) -> Markup {
    let names = components(members);
    let first: Vec<f64> = members.iter().filter_map(|record| record.rewards.first().copied()).collect();
    let mean = first.iter().sum::<f64>() / first.len() as f64;
    html! {
        table {
            thead { tr {
                th scope="col" { "Episode" } th scope="col" { "Ending" } th scope="col" { "Success" }
                th.number scope="col" { "Reward" } th.number scope="col" { "Minus mean" } th scope="col" { "Selected" }
                @for (plugin, name) in &names { th.number scope="col" { (visible(plugin)) "." (visible(name)) } }
            } }
            tbody {
                @for record in members {
                    tr {
                        th scope="row" { a href=(run.episode_path(record.id)) { (record.id.to_string()) } }
                        td { (record.ending.word()) }
                        td { (yes(record.success)) }
                        td.number { (numbers(&record.rewards)) }
                        td.number { @if let Some(reward) = record.rewards.first() { (number(reward - mean)) } }
                        td { (yes(record.selected)) }
                        @for name in &names {
                            td.number { @if let Some(value) = component(record, name) { (number(value)) } }
                        }
                    }
                }
            }
        }
    }
}
