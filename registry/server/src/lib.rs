//! Serves a registry's folder, and takes releases from those who may publish.
//!
//! Everything that is read is a file of the folder, which any other web server could serve as well; what this one adds
//! is publishing. It trusts no client: tokens are bound to namespaces, and every rule that a client applies is applied
//! again. It speaks plain HTTP; in the open Internet it belongs behind a proxy that speaks TLS.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod change;
mod files;
mod limits;
mod log;
mod tokens;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gymkhana_registry::{Authority, FolderError, ReadError, RegistryFolder, SecretKey};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use limits::Limits;
pub use log::{Line, Log};
pub use tokens::{TokenError, Tokens};

use answer::{Body, Refusal, refuse};
use limits::Limiter;

/// How often it is looked whether the checkpoint must be signed again.
const RENEWALS: Duration = Duration::from_secs(600);
/// Files that nobody has named for so long are removed.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// After the system has refused a connection, such as for want of file handles.
const PAUSE: Duration = Duration::from_millis(100);

/// The server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be taken.
    #[error("{address} cannot be listened on; give an address of this machine and a free port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder is no registry that this key signs.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The folder cannot be changed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The tokens cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenError),
}

/// What a server needs.
pub struct Service {
    folder: RegistryFolder,
    root: SecretKey,
    /// For how many seconds a checkpoint counts.
    lifetime: u64,
    tokens: Tokens,
    limiter: Limiter,
    log: Log,
    /// Each change reads a whole component into memory.
    changes: Semaphore,
    limits: Limits,
}

/// A server on its port.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<Service>,
}

impl Server {
    /// Opens a registry's folder, puts right what a crash left, and takes the address.
    ///
    /// # Errors
    /// If the folder is no registry of this root key, or the address cannot be taken.
    pub async fn start(
        folder: &Path,
        root: SecretKey,
        lifetime: u64,
        address: SocketAddr,
        limits: Limits,
        log: Log,
    ) -> Result<Self, ServeError> {
        let limits = limits.within_handles();
        let folder = RegistryFolder::open(folder)?;
        let tokens = Tokens::below(folder.path());
        tokens.check()?;
        let service = Service {
            folder,
            root,
            lifetime,
            tokens,
            limiter: Limiter::new(limits),
            log,
            changes: Semaphore::new(limits.changes_at_once),
            limits,
        };
        service.folder.state(Some(&service.root.public()))?;
        service.folder.sweep(FORGOTTEN, service.authority())?;
        service.renew_if_due()?;
        let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
        let address = listener.local_addr().map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { listener, address, service: Arc::new(service) })
    }

    /// Where it listens; the port is the one that the system chose if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until this is dropped.
    pub async fn serve(self) {
        let Self { listener, service, .. } = self;
        let room = Arc::new(Semaphore::new(service.limits.connections));
        let mut tasks = JoinSet::new();
        tasks.spawn(renewals(Arc::clone(&service)));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            while tasks.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let service = Arc::clone(&service);
                    tasks.spawn(async move {
                        let answer = service_fn(|request| {
                            let service = Arc::clone(&service);
                            async move { Ok::<_, Infallible>(service.answer(request, peer.ip()).await) }
                        });
                        let mut connection = http1::Builder::new();
                        connection.timer(TokioTimer::new()).header_read_timeout(service.limits.patience);
                        connection.max_buf_size(64 << 10);
                        // A client that goes away has done harm to itself alone.
                        let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
                        drop(permit);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

impl Service {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
        let mut line = Line::begin(&request, peer);
        let changes = [Method::PUT].contains(request.method());
        let answered = if !self.limiter.may_ask(peer) {
            Err(Refusal::too_many("you ask too often; wait a moment"))
        } else if changes {
            Arc::clone(&self).change(request, peer, &mut line).await
        } else {
            self.file(&request).await
        };
        let response = answered.unwrap_or_else(|refusal| refuse(&refusal, &mut line));
        line.end(&response);
        (self.log)(&line);
        response
    }

    fn authority(&self) -> Authority<'_> {
        Authority { root: Some(&self.root), lifetime: self.lifetime, now: now() }
    }

    /// Signs the state again when a quarter of its time is over.
    fn renew_if_due(&self) -> Result<(), FolderError> {
        let state = self.folder.state(Some(&self.root.public()))?;
        let age = now().saturating_sub(state.checkpoint.issued);
        if age >= self.lifetime / 4 { self.folder.renew(self.authority()) } else { Ok(()) }
    }
}

async fn renewals(service: Arc<Service>) {
    loop {
        tokio::time::sleep(RENEWALS).await;
        let due = Arc::clone(&service);
        let renewed = tokio::task::spawn_blocking(move || due.renew_if_due()).await;
        if let Ok(Err(error)) = renewed {
            (service.log)(&Line::trouble(format!("the checkpoint is not renewed: {error}")));
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
