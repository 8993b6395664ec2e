//! Kept results of `host reward diff`: two versions of a reward on the run's episodes.

use gymkhana_record::{EpisodeId, Score};
use gymkhana_store::{ComparedEpisode, RewardComparison, ScoreOutcome, StoreError, SummaryStats};
use maud::{Markup, html};

use crate::layout::scrolling;
use crate::run::ShownRun;
use crate::words::{counted, number, visible};

/// The section; empty without comparisons.
pub(super) fn comparisons(run: &ShownRun) -> Result<Markup, StoreError> {
    let all = run.reader.reward_comparisons()?;
    Ok(html! {
        @if !all.is_empty() {
            h2 { "Compared versions" }
            @for comparison in &all { (section(run, comparison)) }
        }
    })
}

fn section(run: &ShownRun, comparison: &RewardComparison) -> Markup {
    let [a, b] = &comparison.versions;
    let title = format!("{} and {}", visible(a), visible(b));
    let dash = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    html! {
        section aria-label=(title) {
            h3 { "A: " (visible(a)) ", B: " (visible(b)) }
            p {
                (counted(comparison.scored, "score")) " of both, " (comparison.equal) " equal; rank correlation "
                (dash(comparison.rank_correlation)) "; " (comparison.reordered_pairs) " of " (comparison.pairs)
                " pairs within a group are in another order"
                @for (name, failed) in [("A", comparison.failed.a), ("B", comparison.failed.b)] {
                    @if failed > 0 { "; " (name) " failed to score " (failed) }
                }
                "."
            }
            (scrolling(&format!("Means of {title}"), &means(comparison)))
            @if comparison.worst.is_empty() { p { "Both give every episode the same total." } } @else {
                (scrolling(&format!("Largest differences of {title}"), &worst(run, &comparison.worst)))
            }
        }
    }
}

fn means(comparison: &RewardComparison) -> Markup {
    let mean = |side: Option<SummaryStats>| side.map(|stats| stats.mean);
    let total = ("total".to_owned(), mean(comparison.a), mean(comparison.b));
    let components = comparison.components.iter().map(|(name, sides)| (name.clone(), sides.a, sides.b));
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    html! {
        table {
            thead { tr { th scope="col" { "Mean of" } th.number scope="col" { "A" } th.number scope="col" { "B" } } }
            tbody {
                @for (name, a, b) in std::iter::once(total).chain(components) {
                    tr { th scope="row" { (visible(&name)) } td.number { (shown(a)) } td.number { (shown(b)) } }
                }
            }
        }
    }
}

fn worst(run: &ShownRun, episodes: &[ComparedEpisode]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Episode" } th.number scope="col" { "A" } th.number scope="col" { "B" }
                th scope="col" { "Evidence of A" } th scope="col" { "Evidence of B" }
            } }
            tbody {
                @for compared in episodes {
                    tr {
                        th scope="row" {
                            @match compared.episode.parse::<EpisodeId>() {
                                Ok(id) => a href=(run.episode_path(id)) { (id.to_string()) },
                                Err(_) => (visible(&compared.episode)),
                            }
                        }
                        td.number { (total(&compared.a)) }
                        td.number { (total(&compared.b)) }
                        td { (evidence(&compared.a)) }
                        td { (evidence(&compared.b)) }
                    }
                }
            }
        }
    }
}

fn total(outcome: &ScoreOutcome) -> String {
    match outcome {
        ScoreOutcome::Scored(score) => number(score.total),
        ScoreOutcome::Failed { .. } => "–".to_owned(),
    }
}

/// What a score is based on, or why there is none. The episode's page highlights the passages of the recorded scores.
fn evidence(outcome: &ScoreOutcome) -> Markup {
    match outcome {
        ScoreOutcome::Failed { failed } => html! { "failed: " (visible(failed)) },
        ScoreOutcome::Scored(Score { components, evidence, .. }) => html! {
            @for component in components { div { (visible(&component.name)) ": " (number(component.value)) } }
            @for passage in evidence { div { "entry " (passage.turn) ": " (visible(&passage.note)) } }
        },
    }
}
