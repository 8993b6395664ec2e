//! Registries that are silent: in a black hole, and behind a half-open connection.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use crate::common::{User, get, web};
use gymkhana_registry_client::RegistryClientError;
use tokio::net::{TcpSocket, TcpStream};

const BOUND: Duration = Duration::from_secs(1);

/// The error with its causes.
fn told(error: &RegistryClientError) -> String {
    gymkhana_registry::ErrorChain(error).to_string()
}

/// Asks a registry at this address for a plugin.
async fn ask(address: SocketAddr) -> String {
    let client = User::new().client_of(&web(address, ""), |settings| {
        (settings.limits.connect_timeout, settings.limits.idle_timeout) = (BOUND, BOUND);
    });
    let began = Instant::now();
    let error = told(&get(&client, "adder").await.expect_err("silent"));
    // One attempt, and one more.
    assert!((2 * BOUND..20 * BOUND).contains(&began.elapsed()), "{:?}: {error}", began.elapsed());
    error
}

/// The kernel completes connections, and no request is read.
#[tokio::test]
async fn a_silent_registry_is_named_with_the_duration() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("it has one");
    let error = ask(address).await;
    assert!(error.contains(&format!("cannot reach `http://{address}`: it did not answer for 1 s")), "{error}");
    assert!(error.contains("hint: check the network"), "{error}");
}

/// The queue of connections is full, so that the kernel drops further ones without an answer.
#[tokio::test]
async fn a_registry_in_a_black_hole_is_named_with_the_duration() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let full = socket.listen(1).expect("listening");
    let address = full.local_addr().expect("it has one");
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(BOUND / 2, TcpStream::connect(address)).await {
        waiting.push(stream);
    }
    let error = ask(address).await;
    assert!(error.contains(&format!("cannot reach `http://{address}`: it did not answer for 1 s")), "{error}");
}
