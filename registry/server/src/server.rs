//! The listening server: accepts connections within the limits and runs the routes on them.
//!
//! Connections are served with hyper directly, because `axum::serve` has no header timeout, no buffer limit and no hook
//! for the stall budget.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use gymkhana_registry::{FolderError, FolderReadError, RegistryFolder, SecretKey};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::client_address::{ClientAddress, network_of};
use crate::connection_limit::ConnectionLimit;
use crate::files::page_cache::PageCache;
use crate::limits::ServerLimits;
use crate::publish_tokens::{PublishTokens, TokenError};
use crate::rate_limit::RateLimiter;
use crate::request_log::RequestLog;
use crate::routes::router;
use crate::service::RegistryService;
use crate::stall_timeout::{StallTimeout, TimedStream};

/// Age of temporary files of crashed processes that are deleted at the start.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Socket send buffer in bytes. A larger one would hide a stalled client for minutes.
const SEND_BUFFER: u32 = 128 << 10;
/// Length of the accept queue.
const BACKLOG: u32 = 1024;
/// Limit of a connection's read buffer in bytes, and thereby of a request head.
const MAX_HEAD: usize = 64 << 10;
/// Delay after a failed accept, such as for lack of file handles.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}\nhint: choose an address of this machine and a free port")]
    Listen {
        /// Address.
        address: SocketAddr,
        /// I/O error.
        source: std::io::Error,
    },
    /// The folder is not a registry of this root key.
    #[error(transparent)]
    Read(#[from] FolderReadError),
    /// The folder cannot be changed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The tokens cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenError),
}

/// A server bound to an address.
pub struct RegistryServer {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<RegistryService>,
}

impl RegistryServer {
    /// Opens a registry folder, deletes leftovers of a crash, and binds the address. `lifetime` is the validity of
    /// checkpoints in seconds.
    ///
    /// # Errors
    /// If the folder is not a registry of this root key, or the address cannot be bound.
    pub async fn start(
        folder: &Path,
        root: SecretKey,
        lifetime: u64,
        address: SocketAddr,
        limits: ServerLimits,
        log: RequestLog,
    ) -> Result<Self, ServeError> {
        let limits = limits.within_file_handles();
        let folder = RegistryFolder::open(folder)?;
        let tokens = PublishTokens::of_registry(folder.path());
        tokens.check()?;
        let service = RegistryService {
            folder,
            root,
            lifetime,
            tokens,
            limiter: RateLimiter::new(limits),
            log,
            changes: Arc::new(Semaphore::new(limits.max_concurrent_changes)),
            uploads: ConnectionLimit::new(limits.max_uploads_per_token),
            limits,
            pages: PageCache::default(),
        };
        service.folder.state(Some(&service.root.public()))?;
        service.folder.clean_up(STALE_AFTER, service.authority())?;
        service.renew_if_due()?;
        let failed = |source| ServeError::Listen { address, source };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, service: Arc::new(service) })
    }

    /// Bound address; a requested port 0 is replaced by the assigned port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until the future is dropped.
    pub async fn serve(self) {
        let Self { listener, service, .. } = self;
        let limits = service.limits;
        let connections = Arc::new(Semaphore::new(limits.max_connections));
        let per_network = if limits.behind_proxy { limits.max_connections } else { limits.max_connections_per_network };
        let networks = ConnectionLimit::new(per_network);
        let connection = Connection {
            router: router(Arc::clone(&service)),
            header_timeout: limits.header_timeout,
            stall: service.stall_timeout(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(service.renew_regularly());
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
            while tasks.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => match networks.try_acquire(network_of(peer.ip())) {
                    Some(network_permit) => {
                        let connection = connection.clone();
                        tasks.spawn(async move {
                            connection.serve(stream, ClientAddress(peer.ip())).await;
                            drop((permit, network_permit));
                        });
                    }
                    None => reject(stream),
                },
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    }
}

/// Settings of a connection.
#[derive(Clone)]
struct Connection {
    router: Router,
    header_timeout: Duration,
    stall: StallTimeout,
}

impl Connection {
    /// Serves the requests of a connection sequentially.
    async fn serve(self, stream: TcpStream, peer: ClientAddress) {
        let route = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            self.router.clone().oneshot(request)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.header_timeout).max_buf_size(MAX_HEAD);
        let stream = TimedStream::new(stream, self.stall);
        // An error of the connection affects this client only.
        let _ = builder.serve_connection(TokioIo::new(stream), route).await;
    }
}

/// Binds an address. The bounded send buffer makes the progress of a client visible in small steps.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
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
    let _ = stream.into_std().and_then(|mut stream| std::io::Write::write(&mut stream, response.as_bytes()));
}
