//! The page of a run's health: each figure with its usual range and, outside of it, a remedy; and the same as JSON.

use gymkhana_finding::{Finding, FindingStatus};
use maud::{Markup, html};

use crate::error::PageProblem;
use crate::layout::{self, PageFrame, scrolling};
use crate::query::Query;
use crate::run::ShownRun;
use crate::state::App;
use crate::words::{counted, visible};

/// The page.
pub(crate) fn page(app: &App, run: &ShownRun, query: &Query) -> Result<Markup, PageProblem> {
    let findings = run.health()?;
    let unusual = findings.iter().filter(|finding| finding.status != FindingStatus::Ok).count();
    let title = format!("Health of {}", run.name);
    let body = html! {
        h1 { "Health of " (visible(&run.name)) }
        p role="status" {
            (counted(unusual, "figure")) " of " (findings.len()) " outside of the usual range, over the last steps of each stage"
        }
        (scrolling("Health", &table(&findings)))
    };
    let live = layout::updated(query, vec![run.index])?;
    Ok(layout::page(app, &PageFrame { title: &title, run: Some(run), live }, &body))
}

fn table(findings: &[Finding]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Figure" } th scope="col" { "Status" } th scope="col" { "Value" }
                th scope="col" { "Usual" } th scope="col" { "Remedy" }
            } }
            tbody {
                @for finding in findings {
                    tr.differs[finding.status != FindingStatus::Ok] {
                        th scope="row" { (visible(&finding.check)) }
                        td { (finding.status.word()) }
                        td { (visible(&finding.text)) }
                        td { (visible(finding.range.as_deref().unwrap_or("–"))) }
                        td { @if let Some(hint) = &finding.hint { (visible(hint)) } }
                    }
                }
            }
        }
    }
}
