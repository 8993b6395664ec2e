//! The episodes about which two rewards disagree most.

use gymkhana_record::EpisodeId;
use maud::{Markup, html};

use super::sample::EpisodeSample;
use super::statistics::{moments, present};
use crate::layout::{scrolling, select};
use crate::query::Query;
use crate::run::ShownRun;
use crate::words::{number, visible};

/// Number of listed episodes.
const LISTED: usize = 10;

/// An episode with two numbers, and the difference of the two in standard deviations.
#[derive(Debug, PartialEq)]
struct Disagreement {
    id: EpisodeId,
    numbers: [f64; 2],
    difference: f64,
}

/// The largest differences, after each series was reduced to mean 0 and deviation 1.
fn largest(ids: &[EpisodeId], one: &[Option<f64>], other: &[Option<f64>]) -> Vec<Disagreement> {
    let (Some(first), Some(second)) = (moments(&present(one)), moments(&present(other))) else { return vec![] };
    let standard = |value: f64, (mean, deviation): (f64, f64)| {
        if deviation > 0.0 { (value - mean) / deviation } else { 0.0 }
    };
    let disagreement = |(id, (one, other)): (&EpisodeId, (&Option<f64>, &Option<f64>))| {
        let numbers = [(*one)?, (*other)?];
        let difference = (standard(numbers[0], first) - standard(numbers[1], second)).abs();
        Some(Disagreement { id: *id, numbers, difference })
    };
    let mut all: Vec<Disagreement> = ids.iter().zip(one.iter().zip(other)).filter_map(disagreement).collect();
    all.sort_by(|one, other| other.difference.total_cmp(&one.difference));
    all.truncate(LISTED);
    all.retain(|found| found.difference > 0.0);
    all
}

/// Names of series: totals of reward plugins first, then the sum `reward`, then components, some of which are counts.
fn by_meaning(sample: &EpisodeSample) -> Vec<&String> {
    let mut names: Vec<&String> = sample.series.keys().collect();
    names.sort_by_key(|name| (name.contains('.'), name.as_str() == "reward"));
    names
}

/// The section, with a form that chooses the two rewards: the first two without a choice.
pub(super) fn disagreements(run: &ShownRun, sample: &EpisodeSample, query: &Query) -> Markup {
    let names = by_meaning(sample);
    let chosen = |key: &str, place: usize| {
        let wanted = query.get(key).filter(|name| sample.series.contains_key(*name));
        wanted.or_else(|| names.get(place).map(|name| name.as_str()))
    };
    let (Some(one), Some(other)) = (chosen("one", 0), chosen("other", 1)) else { return html! {} };
    let found = largest(&sample.ids, &sample.series[one], &sample.series[other]);
    let choices: Vec<(String, String)> = names.iter().map(|name| ((*name).clone(), (*name).clone())).collect();
    let shown = query.with("one", one).with("other", other);
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "Episode" } th.number scope="col" { (visible(one)) } th.number scope="col" { (visible(other)) }
                th.number scope="col" { "Difference (deviations)" }
            } }
            tbody {
                @for found in &found {
                    tr {
                        th scope="row" { a href=(run.episode_path(found.id)) { (found.id.to_string()) } }
                        td.number { (number(found.numbers[0])) }
                        td.number { (number(found.numbers[1])) }
                        td.number { (number(found.difference)) }
                    }
                }
            }
        }
    };
    html! {
        h2 { "Disagreements" }
        form.options method="get" action=(format!("{}/rewards", run.path())) aria-label="Disagreements" data-auto {
            @for (key, value) in query.pairs().filter(|(key, _)| !["one", "other"].contains(key)) {
                input type="hidden" name=(key) value=(value);
            }
            (select(&shown, "one", "One", &choices))
            (select(&shown, "other", "Other", &choices))
            button { "Compare" }
        }
        @if found.is_empty() { p { "These two agree about every episode." } } @else { (scrolling("Disagreements", &table)) }
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Phase;

    use super::*;

    #[test]
    fn rewards_are_compared_before_components() {
        let series = ["match", "match.calls", "match.correct", "reward", "style"];
        let series = series.map(|name| (name.to_owned(), vec![])).into_iter().collect();
        let sample = EpisodeSample { series, ..EpisodeSample::default() };
        assert_eq!(by_meaning(&sample), ["match", "style", "reward", "match.calls", "match.correct"]);
    }

    #[test]
    fn the_largest_standard_difference_is_first() {
        let id = |member| EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member, attempt: 0 };
        let ids: Vec<EpisodeId> = (0..4).map(id).collect();
        // Means 0 and 0, deviations 1 and 10: the last two episodes differ by two deviations, the first two by none.
        let one = [Some(1.0), Some(-1.0), Some(1.0), Some(-1.0)];
        let other = [Some(10.0), Some(-10.0), Some(-10.0), Some(10.0)];
        let found: Vec<(u32, f64)> =
            largest(&ids, &one, &other).iter().map(|found| (found.id.member, found.difference)).collect();
        assert_eq!(found, [(2, 2.0), (3, 2.0)]);
        assert_eq!(largest(&ids, &one, &[None; 4]), []);
        assert_eq!(largest(&ids, &one, &one), []);
    }
}
