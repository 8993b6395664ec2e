//! Replays from the page: a question before each, and its result.
//!
//! They run plugins, so the routes exist only if the page was started with a replayer, and a form of another site cannot
//! send one.

use std::path::Path;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use gymkhana_record::EpisodeId;
use gymkhana_waits::{Counterpart, within};
use maud::{Markup, html};

use crate::error::PageProblem;
use crate::layout::{self, PageFrame};
use crate::query::Query;
use crate::replayer::{ReplayRequest, Replayed};
use crate::run::ShownRun;
use crate::state::App;
use crate::words::{shell_word, visible};

/// Longest time that a request waits for a replay, which goes on after it.
const WAIT: Duration = Duration::from_secs(120);

/// Address of the question about an episode's replay, with a fork before a turn.
pub(crate) fn path(run: &ShownRun, id: EpisodeId, fork: Option<u32>) -> String {
    let query = Query::default();
    let query = fork.map_or_else(|| query.clone(), |turn| query.with("turn", turn.to_string()));
    query.link(&format!("{}/replay", run.episode_path(id)))
}

/// The question.
pub(crate) fn question(app: &App, run: &ShownRun, id: &str, query: &Query) -> Result<Markup, PageProblem> {
    let request = request(run, id, query)?;
    let again = path(run, request.episode, request.fork);
    let body = html! {
        p {
            "The run's plugins play this episode again in the sandbox, with the recorded tokens and the recorded answers of \
             models and servers. The result is compared with the record, and nothing is written. On this page's machine the \
             command is"
        }
        pre.command tabindex="0" { (command(&request)) }
        form method="post" action=(again) {
            button type="submit" { @if request.fork.is_some() { "Replay and fork" } @else { "Replay" } }
        }
    };
    Ok(page(app, run, &request, &body))
}

/// Replays, and shows the result.
///
/// # Errors
/// If the request comes from another site, the episode does not exist, or another replay is running.
pub(crate) async fn result(
    app: &App,
    run: &ShownRun,
    id: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Markup, PageProblem> {
    let replays = app.replays().ok_or_else(|| PageProblem::NotFound("replays are not allowed".to_owned()))?;
    if !is_own_form(headers) {
        return Err(PageProblem::ForeignForm);
    }
    let request = request(run, id, query)?;
    let replay = replays.start(request.clone()).ok_or(PageProblem::Busy)?;
    let body = match within(Counterpart::Place, WAIT, replay).await {
        Ok(Ok(replayed)) => outcome(&replayed),
        Ok(Err(_)) => return Err(PageProblem::Panicked),
        Err(_) => html! { p { "The replay takes longer than " (WAIT.as_secs()) " s. Use the command:" }
        pre.command tabindex="0" { (command(&request)) } },
    };
    Ok(page(app, run, &request, &body))
}

/// Whether a browser sent the form from a page of this server.
fn is_own_form(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (text(ORIGIN), text(HOST)) {
        (Some(origin), Some(host)) => origin.strip_prefix("http://") == Some(host),
        _ => false,
    }
}

fn request(run: &ShownRun, id: &str, query: &Query) -> Result<ReplayRequest, PageProblem> {
    let episode: EpisodeId =
        id.parse().map_err(|error: gymkhana_record::ParseEpisodeIdError| PageProblem::NotFound(error.to_string()))?;
    if run.table()?.position(episode).is_none() {
        return Err(PageProblem::NotFound(format!("the run has no episode `{episode}`")));
    }
    let fork = query.parsed("turn", "the number of a turn")?;
    Ok(ReplayRequest { run: run.reader.path().to_owned(), episode, fork })
}

fn page(app: &App, run: &ShownRun, request: &ReplayRequest, body: &Markup) -> Markup {
    let title = match request.fork {
        None => format!("Replay of episode {}", request.episode),
        Some(turn) => format!("Replay of episode {} with a fork before turn {turn}", request.episode),
    };
    let body = html! {
        h1 { (title) }
        (body)
        p { a href=(run.episode_path(request.episode)) { "Back to the episode" } }
    };
    layout::page(app, &PageFrame { title: &title, run: Some(run), live: vec![] }, &body)
}

/// The command that replays the same.
pub(crate) fn command(request: &ReplayRequest) -> String {
    let ReplayRequest { run, episode, fork } = request;
    let fork = fork.map_or_else(String::new, |turn| format!(" --fork {turn}"));
    format!("host replay {} --episode {episode}{fork}", shown(run))
}

fn shown(path: &Path) -> String {
    visible(&shell_word(&path.display().to_string()))
}

fn outcome(replayed: &Result<Replayed, String>) -> Markup {
    html! {
        @match replayed {
            Ok(Replayed::Equal { forks: 0 }) => { p role="status" { "Every byte is equal to the record." } }
            Ok(Replayed::Equal { .. }) => { p role="status" { "Every byte is equal to the record, in the fork as well." } }
            Ok(Replayed::Dropped) => {
                p role="status" { "The host dropped this episode when it was recorded. It is not replayed." }
            }
            Ok(Replayed::Differs { in_fork, place, recorded, replayed }) => {
                p role="status" { @if *in_fork { "The fork" } @else { "The replay" } " differs at " code { (visible(place)) } "." }
                dl.facts {
                    dt { "Recorded" } dd { pre.text { (visible(recorded)) } }
                    dt { "Replayed" } dd { pre.text { (visible(replayed)) } }
                }
            }
            Err(message) => { p role="status" { "The replay failed." } pre.text { (visible(message)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_other_sites_are_told_apart() {
        let of = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "127.0.0.1:8123".parse().unwrap());
            origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
            is_own_form(&headers)
        };
        assert!(of(Some("http://127.0.0.1:8123")));
        for foreign in [
            None,
            Some("null"),
            Some("http://127.0.0.1:8124"),
            Some("https://evil.example"),
            Some("http://localhost:8123"),
        ] {
            assert!(!of(foreign), "{foreign:?}");
        }
    }
}
