//! The web page of a run in progress.

use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use gymkhana_cli::printer::Printer;
use gymkhana_page::{PageAddress, PageError};
use gymkhana_store::RunReader;

/// Time between two looks whether the run's folder exists.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves the page from the moment that the run's folder exists. A page that fails does not end the run.
pub async fn serve(place: PageAddress, folder: PathBuf, printer: Printer) {
    while RunReader::open(&folder).is_err() {
        tokio::time::sleep(PAUSE).await;
    }
    if let Err(error) = open_and_serve(place, folder).await {
        printer.warn(format!("--page ended: {error}"));
    }
}

async fn open_and_serve(place: PageAddress, folder: PathBuf) -> Result<(), PageError> {
    place.beside_run().open(&[folder], None)?.serve(pending()).await;
    Ok(())
}
