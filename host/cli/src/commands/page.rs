//! `host page`: shows runs as a web page.

use std::net::SocketAddr;

use gymkhana_page::{PageError, Place, Token};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::PageArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::units::counted;

/// Runs the command.
pub fn page(args: &PageArgs, printer: &Printer) -> CliResult<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    runtime.block_on(async {
        let (place, link) = bind(args.listen, args.token.clone()).await?;
        let page = place.open(&args.runs).map_err(page_error)?;
        printer.status(format!("serving {} at {link}", counted(args.runs.len(), "run")));
        page.serve(stop_signal()?).await.map_err(page_error)
    })
}

/// Binds an address and returns it with the link to open in a browser. Addresses that other machines can reach get a
/// random token if none is given.
pub async fn bind(address: SocketAddr, token: Option<String>) -> CliResult<(Place, String)> {
    let text = match token {
        Some(text) => Some(text),
        None if address.ip().is_loopback() => None,
        None => Some(Token::random().user_error()?),
    };
    let token = text.as_deref().map(Token::new).transpose().user_error()?;
    let place = Place::bind(address, token).await.map_err(page_error)?;
    let query = text.map(|text| format!("/?token={text}")).unwrap_or_default();
    let link = format!("http://{}{query}", place.address());
    Ok((place, link))
}

/// Errors of a run's files keep their side; the others are the user's to fix.
fn page_error(error: PageError) -> CliError {
    match error {
        PageError::Store(error) => error.into(),
        other => CliError::user(other),
    }
}

/// Waits for the first signal.
fn stop_signal() -> CliResult<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).internal()?;
    let mut terminate = signal(SignalKind::terminate()).internal()?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
