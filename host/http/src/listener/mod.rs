//! The listener: accepts connections within the limits, until it ends in an orderly way.

mod arriving;
mod connection;
mod handles;
mod limits;
mod pace;
mod places;
mod stall;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_waits::{Counterpart, within};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::address::{Peer, network_of};
use crate::server::HttpServer;
use connection::ConnectionSettings;
pub use handles::HandleShare;
pub use limits::{ConnectionLimits, RequestPace};
use pace::Pace;
use places::ConnectionPlaces;
pub use stall::StallBudget;

/// Length of the accept queue.
const BACKLOG: u32 = 1024;
/// Socket send buffer in bytes. A larger one would hide a stalled client for minutes.
const SEND_BUFFER: u32 = 128 << 10;
/// Delay after a failed accept, such as for lack of file handles.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time that requests in progress get at the end.
const LAST_REQUESTS: Duration = Duration::from_secs(30);

/// An address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}\nhint: choose an address of this machine and a free port")]
pub struct ListenError {
    /// Address.
    pub address: SocketAddr,
    /// I/O error.
    pub source: io::Error,
}

/// A bound address.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds an address. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// If the address is not of this machine, or taken.
    pub fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, source };
        let listener = bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Bound address; a requested port 0 is replaced by the assigned port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready. Requests in progress then have 30 s; connections end when the future is dropped.
    pub async fn serve(self, server: HttpServer, limits: ConnectionLimits, stop: impl Future<Output = ()>) {
        let (ends, ending) = watch::channel(false);
        let places = ConnectionPlaces::new(limits.all, limits.per_network);
        let pace = Arc::new(Pace::of_all(limits.pace));
        let connection = Arc::new(ConnectionSettings::new(server, limits, Arc::clone(&pace), ending));
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = async {
                pace.keep().await;
                let (stream, address) = self.listener.accept().await?;
                let place = places.take(network_of(address.ip())).await;
                io::Result::Ok((stream, Peer(address.ip()), place))
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = accepted => match accepted {
                    Ok((stream, peer, Ok(place))) => {
                        let connection = Arc::clone(&connection);
                        connections.spawn(async move { connection.serve(stream, peer, place).await });
                    }
                    Ok((stream, _, Err(_))) => reject(stream),
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
                },
            }
        }
        drop(self.listener);
        // Fails if every connection has ended.
        let _ = ends.send(true);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = within(Counterpart::Client, LAST_REQUESTS, all).await;
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows an immediate restart on the same port.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Closes a connection above the limit of its network. The response is written without waiting.
fn reject(stream: TcpStream) {
    let message = "too many connections from your network\nhint: close some connections\n";
    let response = format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 10\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{message}",
        message.len()
    );
    let _ = stream.into_std().and_then(|mut stream| io::Write::write(&mut stream, response.as_bytes()));
}
