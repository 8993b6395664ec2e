//! `host page`: shows runs as a web page.

use std::net::SocketAddr;
use std::sync::Arc;

use gymkhana_page::{AccessToken, PageAddress, PageError, ReplayRequest, Replayed, Replayer};
use tokio::signal::unix::{SignalKind, signal};

use super::replay::{self, Differing};
use crate::args::{PageArgs, ReplayArgs};
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::units::counted;

/// Runs the command.
pub fn page(args: &PageArgs, printer: &Printer) -> CliResult<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    runtime.block_on(async {
        let (place, link) = bind(args.listen, args.token.clone())?;
        let replayer: Option<Replayer> = if args.allow_replay { Some(Arc::new(replayed(printer))) } else { None };
        let page = place.open(&args.runs, replayer).map_err(page_error)?;
        let stop = stop_signal()?;
        printer.status(format!("serving {} at {link}", counted(args.runs.len(), "run")));
        page.serve(stop).await;
        Ok(())
    })
}

/// Binds an address and returns it with the link to open in a browser. Addresses that other machines can reach get a
/// random token if none is given. Must be called in a tokio runtime.
pub fn bind(address: SocketAddr, token: Option<String>) -> CliResult<(PageAddress, String)> {
    let text = match token {
        Some(text) => Some(text),
        None if address.ip().is_loopback() => None,
        None => Some(AccessToken::random().user_error()?),
    };
    let token = text.as_deref().map(AccessToken::new).transpose().user_error()?;
    let place = PageAddress::bind(address, token).map_err(page_error)?;
    let query = text.map(|text| format!("/?token={text}")).unwrap_or_default();
    let link = format!("http://{}{query}", place.address());
    Ok((place, link))
}

/// Replays an episode as `host replay` does.
fn replayed(printer: &Printer) -> impl Fn(&ReplayRequest) -> Result<Replayed, String> + Send + Sync + 'static {
    let printer = printer.clone();
    move |request| {
        let ReplayRequest { run, episode, fork } = request.clone();
        let args = ReplayArgs { dir: run, episode: Some(episode), forks: false, fork };
        let mut first = None;
        let tally = replay::run(&args, &printer, |differing| {
            first.get_or_insert(differing);
        });
        let tally = tally.map_err(|error| error.to_string())?;
        Ok(match first {
            Some(Differing { turn, difference, .. }) => Replayed::Differs {
                in_fork: turn.is_some(),
                place: difference.place,
                recorded: difference.recorded,
                replayed: difference.replayed,
            },
            None if tally.dropped > 0 => Replayed::Dropped,
            None => Replayed::Equal { forks: tally.forks },
        })
    }
}

/// Errors of a run's files keep their side; the others are the user's to fix.
fn page_error(error: PageError) -> CliError {
    match error {
        PageError::Store(error) => error.into(),
        other => CliError::user(other),
    }
}

/// Waits for the first signal.
pub fn stop_signal() -> CliResult<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).internal()?;
    let mut terminate = signal(SignalKind::terminate()).internal()?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
