//! `host page`: shows runs as a web page.

use gymkhana_page::{Page, PageError, Token};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::PageArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::units::counted;

/// Runs the command.
pub fn page(args: &PageArgs, printer: &Printer) -> CliResult<()> {
    let text = match &args.token {
        Some(text) => Some(text.clone()),
        None if args.listen.ip().is_loopback() => None,
        None => Some(Token::random().user_error()?),
    };
    let token = text.as_deref().map(Token::new).transpose().user_error()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    runtime.block_on(async {
        let page = Page::bind(&args.runs, args.listen, token).await.map_err(page_error)?;
        let query = text.map(|text| format!("/?token={text}")).unwrap_or_default();
        printer.status(format!("serving {} at http://{}{query}", counted(args.runs.len(), "run"), page.address()));
        page.serve(stop_signal()?).await.map_err(page_error)
    })
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
