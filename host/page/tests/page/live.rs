//! Live updates, over a connection as a browser has it.

use std::time::Duration;

use gymkhana_page::PageAddress;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fixture::{Runs, add_step, episode, run_file};

/// Reads until a text has arrived.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = String::new();
    let mut buffer = [0; 4096];
    let found = async {
        while !read.contains(text) {
            let count = stream.read(&mut buffer).await.expect("readable");
            assert!(count > 0, "the connection ended: {read}");
            read.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    };
    timeout(Duration::from_secs(30), found).await.expect("the text arrives");
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_step_is_announced_and_shown() {
    let mut runs = Runs::new();
    let run = runs.add("first", &run_file(1), &[episode(0, 0, 0), episode(0, 0, 1)]);
    let address = "127.0.0.1:0".parse().expect("an address");
    let place = PageAddress::bind(address, None).expect("a port");
    let address = place.address();
    let page = place.open(&[runs.path(0).to_owned()], None).expect("a page");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(page.serve(async { drop(stopped.await) }));
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut events = TcpStream::connect(address).await.expect("connected");
    events.write_all(request("/events?run=0").as_bytes()).await.expect("sent");
    let begin = read_until(&mut events, "event: open").await;
    assert!(begin.contains("content-type: text/event-stream"), "{begin}");
    assert!(!begin.contains("event: change"), "{begin}");
    add_step(&mut run.metrics().expect("metrics"), 10);
    read_until(&mut events, "event: change").await;
    let mut overview = TcpStream::connect(address).await.expect("connected");
    overview.write_all(request("/").as_bytes()).await.expect("sent");
    let mut text = String::new();
    timeout(Duration::from_secs(30), overview.read_to_string(&mut text)).await.expect("in time").expect("a page");
    // The eleventh step, while a process holds the run.
    assert!(text.contains("<td>running</td>") && text.contains("from 0 to 1, between"), "{text}");
    // The open stream does not keep the page from ending.
    stop.send(()).expect("the page runs");
    timeout(Duration::from_secs(10), serving).await.expect("in time").expect("no panic");
}
