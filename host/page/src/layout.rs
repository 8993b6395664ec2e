//! The frame of every page: head, navigation and main part.

use maud::{DOCTYPE, Markup, html};

use crate::error::PageProblem;
use crate::query::Query;
use crate::run::ShownRun;
use crate::state::App;
use crate::words::visible;

/// Frame of a page.
pub(crate) struct PageFrame<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// Run that the page is about; `None` for pages of several runs.
    pub run: Option<&'a ShownRun>,
    /// Runs whose changes update the page; empty for a page that does not change.
    pub live: Vec<usize>,
}

/// Runs whose changes update a page; none if the query asks for a page without updates, for programs that wait until
/// nothing is loaded.
pub(crate) fn updated(query: &Query, runs: Vec<usize>) -> Result<Vec<usize>, PageProblem> {
    let is_still = query.choice("live", &[("no", true)], "no")?.unwrap_or(false);
    Ok(if is_still { vec![] } else { runs })
}

/// A whole page.
pub(crate) fn page(app: &App, frame: &PageFrame<'_>, body: &Markup) -> Markup {
    let events = frame.live.iter().fold(None::<String>, |events, run| match events {
        None => Some(format!("/events?run={run}")),
        Some(events) => Some(format!("{events}&run={run}")),
    });
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (visible(frame.title)) " – Gymkhana" }
                link rel="stylesheet" href="/assets/page.css";
                script src="/assets/page.js" defer {}
            }
            body data-events=[events] {
                a.skip href="#main" { "Skip to content" }
                header {
                    nav aria-label="Runs" {
                        ul {
                            li { a href="/" { "Overview" } }
                            li { a href="/settings" { "Settings" } }
                            @for run in app.runs() {
                                @let is_here = frame.run.is_some_and(|here| here.index == run.index);
                                li.run {
                                    span.name.here[is_here] { (visible(&run.name)) }
                                    " "
                                    a href=(format!("{}/episodes", run.path()))
                                        aria-label=(format!("Episodes of {}", visible(&run.name))) { "episodes" }
                                    " "
                                    a href=(format!("{}/rewards", run.path()))
                                        aria-label=(format!("Rewards of {}", visible(&run.name))) { "rewards" }
                                    " "
                                    a href=(format!("{}/health", run.path()))
                                        aria-label=(format!("Health of {}", visible(&run.name))) { "health" }
                                }
                            }
                        }
                    }
                    p #live role="status" hidden {}
                }
                main #main tabindex="-1" { (body) }
            }
        }
    }
}

/// The page for a problem, with its causes.
pub(crate) fn problem(app: &App, problem: &PageProblem) -> Markup {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(problem);
    // A transparent error has its own text as its first cause.
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    let body = html! {
        h1 { "This page cannot be shown" }
        pre.text { (visible(&problem.to_string())) }
        @for cause in &causes { pre.text { (visible(cause)) } }
        p { a href="/" { "Overview" } }
    };
    page(app, &PageFrame { title: "Problem", run: None, live: vec![] }, &body)
}

/// A wide table in a container that scrolls by itself and that the keyboard reaches.
pub(crate) fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// A select field of a form with its choices: value and text. The empty value leaves the option out.
pub(crate) fn select(query: &Query, key: &str, label: &str, choices: &[(String, String)]) -> Markup {
    let chosen = query.get(key).unwrap_or_default();
    html! {
        label { span { (label) }
            select name=(key) {
                @for (value, text) in choices {
                    option value=(value) selected[value == chosen] { (visible(text)) }
                }
            }
        }
    }
}

/// An input field of a form.
pub(crate) fn input(query: &Query, key: &str, label: &str, kind: &str) -> Markup {
    html! {
        label { span { (label) }
            input type=(kind) name=(key) value=(query.get(key).unwrap_or_default()) step=[(kind == "number").then_some("any")];
        }
    }
}

/// Choices of [`select`] from fixed words.
pub(crate) fn choices(words: &[(&str, &str)]) -> Vec<(String, String)> {
    words.iter().map(|(value, text)| ((*value).to_owned(), (*text).to_owned())).collect()
}
