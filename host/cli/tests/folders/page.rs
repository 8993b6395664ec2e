//! The web page of a run in progress.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use crate::common::served::{serve_folder, serve_page, serve_page_with_handles};
use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS};

#[test]
fn a_run_shows_itself_as_a_page() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let pages = serve_page(&desk).pages();
    let first = pages.first().expect("at least one page");
    assert!(first.contains("<html") && first.contains(">out<"), "{first}");
}

/// Connections that send no whole head take neither the file handles of a run nor the place of the page's reader.
#[test]
fn silent_connections_neither_end_a_run_nor_hide_its_page() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let served = serve_page_with_handles(&desk, 256);
    let address = served.url().trim_start_matches("http://").to_owned();
    let crowd: Vec<_> = (0..600)
        .filter_map(|_| {
            // The last ones may come after the end of the run.
            let mut stream = TcpStream::connect(&address).ok()?;
            stream.write_all(b"GET / HTTP/1.1\r\nx:").ok()?;
            Some(stream)
        })
        .collect();
    assert!(crowd.len() > 300, "{} connections", crowd.len());
    assert!(served.pages().iter().all(|page| page.contains("<html")));
}

#[test]
fn an_address_that_is_taken_is_found_before_the_run_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let page = format!("--page={}", taken.local_addr().expect("it has one"));
    let desk = Desk::with_run_file(SMALL_RUN);
    let told = desk.run(WORD_PROBLEMS, &[&page]).mistake("an address that is taken");
    assert!(told.contains("error: cannot listen on") && told.contains("hint: choose an address"), "{told}");
    assert!(!desk.path("out").exists(), "a folder was left behind");
}

/// The form of the page replays an episode of a real run and forks it.
#[test]
fn an_episode_is_replayed_from_the_page() {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.run(WORD_PROBLEMS, &["--set", "evaluation.tasks=1"]).succeeded();
    let served = serve_folder(&desk, &["--allow-replay"]);
    let page = served.post("/runs/0/episodes/0.demo.0.0.0.0/replay?turn=0");
    assert!(page.contains("Every byte is equal to the record, in the fork as well."), "{page}");
    let page = served.post("/runs/0/episodes/0.demo.0.0.0.0/replay?turn=99");
    assert!(page.contains("The replay failed.") && page.contains("it can be forked before turn 0 to"), "{page}");
}
