//! Runs that serve metrics or their page, and a client that reads them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};

use super::{Desk, WORD_PROBLEMS, run_arguments};

/// A run that serves metrics or its page.
pub struct Served {
    child: Child,
    url: String,
    talk: BufReader<ChildStderr>,
}

/// A run that serves metrics.
pub fn serve(desk: &Desk) -> Served {
    start(desk, &["--metrics", "127.0.0.1:0"], "serving metrics at ")
}

/// A run that serves its page.
pub fn serve_page(desk: &Desk) -> Served {
    start(desk, &["--page=127.0.0.1:0"], "page of the run: ")
}

/// Starts a run and waits for the line that has this beginning and then the address.
fn start(desk: &Desk, arguments: &[&str], beginning: &str) -> Served {
    let mut command = desk.command(&run_arguments(WORD_PROBLEMS, arguments));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the host can be started");
    let mut talk = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.starts_with(beginning) {
        line.clear();
        assert!(talk.read_line(&mut line).expect("it is text") > 0, "the run ended and said no address");
    }
    Served { child, url: line[beginning.len()..].trim().to_owned(), talk }
}

impl Served {
    /// All pages until the run ends, which must be a success.
    pub fn pages(mut self) -> Vec<String> {
        let pages = pages(&self.url);
        self.finish();
        pages
    }

    /// Waits for the end of the run, which must be a success.
    fn finish(&mut self) {
        let mut rest = String::new();
        self.talk.read_to_string(&mut rest).expect("it is text");
        assert!(self.child.wait().expect("it ends").success(), "{rest}");
    }
}

/// All pages until the server stops.
fn pages(url: &str) -> Vec<String> {
    // Fails if a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut pages = vec![];
    runtime.block_on(async {
        while let Ok(response) = client.get(url).send().await {
            assert_eq!(response.status(), 200);
            match response.text().await {
                Ok(page) => pages.push(page),
                Err(_) => break,
            }
        }
    });
    pages
}
