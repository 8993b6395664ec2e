//! `docs/reference/metrics.md`, generated from the tables of values and metrics.

use gymkhana_record::step_metrics::{StepMetric, best_of_n, evaluation, rl, sft};
use gymkhana_record::{Boundary, FailureKind};
use gymkhana_rollout::{RolloutMetrics, WaitKind};

use super::families::{self, MetricFamily};

/// Text of the reference page of all metrics.
#[must_use]
pub fn metrics_page() -> String {
    let template = include_str!("reference.md");
    let parts = [
        ("SFT_RUN", values("", sft::RUN)),
        ("SFT_TRAINER", values("", sft::TRAINER)),
        ("BEST_OF_N_RUN", values("", best_of_n::RUN)),
        ("RL_RUN", values("", rl::RUN)),
        ("RL_CAUSE", values("OWNER.KIND/", rl::CAUSE)),
        ("RL_SEAT", values("SEAT/", rl::SEAT)),
        ("RL_TRAINER", values("", rl::TRAINER)),
        ("EVALUATION", values("", evaluation::RUN)),
        ("FAMILIES", families::ALL.iter().map(family).collect()),
        ("BOUNDS", bounds()),
        ("WAITS", WaitKind::ALL.into_iter().map(wait).collect()),
        ("BOUNDARIES", boundaries()),
    ];
    parts.iter().fold(template.to_owned(), |page, (mark, text)| page.replace(&format!("@{mark}@\n"), text))
}

/// Rows of values of `metrics.jsonl`.
fn values(prefix: &str, table: &[StepMetric]) -> String {
    let row = |metric: &StepMetric| row(&[&format!("`{prefix}{}`", metric.name()), metric.unit(), metric.meaning()]);
    table.iter().map(row).collect()
}

/// Row of a metric for Prometheus.
fn family(family: &MetricFamily) -> String {
    let labels: Vec<String> = family.labels().iter().map(|label| format!("`{label}`")).collect();
    let name = format!("`{}`", family.full_name());
    row(&[&name, family.kind().as_str(), &labels.join(", "), family.unit(), family.meaning()])
}

/// Rows of the histograms' upper bounds.
fn bounds() -> String {
    let metrics = RolloutMetrics::default();
    let row = |family: MetricFamily, bounds: &[u64], unit: f64| {
        let bounds: Vec<String> = bounds.iter().map(|bound| number(*bound as f64 / unit)).collect();
        row(&[&format!("`{}`", family.full_name()), &format!("{}, +Inf", bounds.join(", "))])
    };
    let wait = row(families::WAIT, metrics.times(WaitKind::Queue).bounds, super::exposition::SECOND);
    wait + &row(families::TOKEN_STALENESS, metrics.staleness().bounds, 1.0)
}

/// A bound as the label `le` shows it.
fn number(bound: f64) -> String {
    if bound.fract() == 0.0 { format!("{bound:.1}") } else { bound.to_string() }
}

fn wait(wait: WaitKind) -> String {
    row(&[&format!("`{}`", wait.label()), families::wait_meaning(wait)])
}

/// Values of the labels `boundary` and `kind` of failures, in a sentence.
fn boundaries() -> String {
    let kinds = FailureKind::ALL.map(|kind| kind.to_string());
    format!(
        "Values of `boundary` in `{}` are {}, and those of `kind` {}.\n",
        families::FAILURES.full_name(),
        listed(Boundary::CLASSES.into_iter()),
        listed(kinds.iter().map(String::as_str))
    )
}

/// Names as code, with `and` before the last one.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let (last, first) = names.split_last().map_or(("", &[][..]), |(last, first)| (last.as_str(), first));
    format!("{} and {last}", first.join(", "))
}

/// A row of a Markdown table.
fn row(cells: &[&str]) -> String {
    let cells: Vec<String> =
        cells.iter().map(|cell| if cell.is_empty() { " ".into() } else { format!(" {cell} ") }).collect();
    format!("|{}|\n", cells.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_value_and_metric() {
        let page = metrics_page();
        assert!(!page.contains('@'), "a mark is left in {page}");
        for metric in [sft::RUN, sft::TRAINER, best_of_n::RUN, rl::RUN, rl::TRAINER, evaluation::RUN].concat() {
            assert!(page.contains(&format!("| `{}` |", metric.name())), "{}", metric.name());
        }
        assert!(page.contains("| `SEAT/reward` | reward | "));
        assert!(page.contains(
            "| `gymkhana_failures_total` | counter | `boundary`, `kind` | failures | failures of episodes by "
        ));
        assert!(
            page.contains("| `gymkhana_token_staleness_steps` | 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, +Inf |\n")
        );
        assert!(page.contains(
            "are `environment`, `tool`, `reward`, `model`, `host` and `agent`, and those of `kind` `trap`, "
        ));
    }
}
