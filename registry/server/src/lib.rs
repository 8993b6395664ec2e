//! Serves a registry's folder, and takes releases from those who may publish.
//!
//! Everything that is read is a file of the folder, which any other web server could serve as well; what this one adds
//! is publishing. It trusts no client: tokens are bound to namespaces, and every rule that a client applies is applied
//! again. It speaks plain HTTP; in the open Internet it belongs behind a proxy that speaks TLS.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod change;
mod crowd;
mod files;
mod limits;
mod log;
mod pace;
mod tokens;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gymkhana_registry::{Authority, FolderError, FolderReadError, RegistryFolder, SecretKey};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use limits::ServerLimits;
pub use log::{RequestLogEntry, RequestLog};
pub use tokens::{TokenError, PublishTokens};

use answer::{Body, HttpError, refuse};
use connection_limit::ConnectionLimit;
use limits::{ClientKey, Limiter, neighbourhood};
use stall_timeout::{StallTimeout, Timed};
use tokens::Known;

/// How often it is looked whether the checkpoint must be signed again.
const RENEWALS: Duration = Duration::from_secs(600);
/// Files that nobody has named for so long are removed.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// What the system keeps of an answer that is not taken yet, in bytes.
const SEND_BUFFER: u32 = 128 << 10;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
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
    Read(#[from] FolderReadError),
    /// The folder cannot be changed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The tokens cannot be read.
    #[error(transparent)]
    PublishTokens(#[from] TokenError),
}

/// What a server needs.
pub struct RegistryService {
    folder: RegistryFolder,
    root: SecretKey,
    /// For how many seconds a checkpoint counts.
    lifetime: u64,
    tokens: PublishTokens,
    limiter: Limiter,
    log: RequestLog,
    /// Each change reads a whole component into memory.
    changes: Arc<Semaphore>,
    /// Releases on their way in, by token.
    releases: Arc<ConnectionLimit<String>>,
    limits: ServerLimits,
}

/// A server on its port.
pub struct RegistryServer {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<RegistryService>,
}

impl RegistryServer {
    /// Opens a registry's folder, puts right what a crash left, and takes the address.
    ///
    /// # Errors
    /// If the folder is no registry of this root key, or the address cannot be taken.
    pub async fn start(
        folder: &Path,
        root: SecretKey,
        lifetime: u64,
        address: SocketAddr,
        limits: ServerLimits,
        log: RequestLog,
    ) -> Result<Self, ServeError> {
        let limits = limits.within_handles();
        let folder = RegistryFolder::open(folder)?;
        let tokens = PublishTokens::below(folder.path());
        tokens.check()?;
        let service = RegistryService {
            folder,
            root,
            lifetime,
            tokens,
            limiter: Limiter::new(limits),
            log,
            changes: Arc::new(Semaphore::new(limits.changes_at_once)),
            releases: ConnectionLimit::new(limits.releases_per_token),
            limits,
        };
        service.folder.state(Some(&service.root.public()))?;
        service.folder.sweep(FORGOTTEN, service.authority())?;
        service.renew_if_due()?;
        let failed = |source| ServeError::Listen { address, source };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
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
        let limits = service.limits;
        let room = Arc::new(Semaphore::new(limits.connections));
        let most = if limits.behind_proxy { limits.connections } else { limits.connections_per_address };
        let crowd = ConnectionLimit::new(most);
        let mut tasks = JoinSet::new();
        tasks.spawn(renewals(Arc::clone(&service)));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            while tasks.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => match crowd.enter(neighbourhood(peer.ip())) {
                    Some(place) => {
                        let service = Arc::clone(&service);
                        tasks.spawn(async move {
                            service.attend(stream, peer.ip()).await;
                            drop((permit, place));
                        });
                    }
                    None => turn_away(stream),
                },
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Takes an address. What this machine keeps for a client that does not take it is bounded, and told in small steps: a
/// larger buffer would hide for minutes whether anything moves.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As is usual: a server that is started again gets its port back.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Closes a connection beyond the most of its address. What it is told goes as far as it goes: nobody is waited for.
fn turn_away(stream: TcpStream) {
    let words = "your address has too many connections; close some\n";
    let answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 10\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{words}",
        words.len()
    );
    let _ = stream.into_std().and_then(|mut stream| std::io::Write::write(&mut stream, answer.as_bytes()));
}

impl RegistryService {
    /// Answers the requests of one connection, one after the other.
    async fn attend(self: Arc<Self>, stream: TcpStream, peer: IpAddr) {
        let answer = service_fn(|request| {
            let service = Arc::clone(&self);
            async move { Ok::<_, Infallible>(service.answer(request, peer).await) }
        });
        let stream = Timed::new(stream, self.pace());
        let mut connection = http1::Builder::new();
        connection.timer(TokioTimer::new()).header_read_timeout(self.limits.head).max_buf_size(64 << 10);
        // A client that goes away has done harm to itself alone.
        let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
    }

    /// The patience with one client.
    fn pace(&self) -> StallTimeout {
        StallTimeout::new(self.limits.patience, self.limits.slowest)
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
        let peer = if self.limits.behind_proxy { forwarded_for(request.headers()).unwrap_or(peer) } else { peer };
        let mut line = RequestLogEntry::begin(&request, peer);
        let answered = Arc::clone(&self).answer_to(request, peer, &mut line).await;
        let response = answered.unwrap_or_else(|refusal| refuse(&refusal, &mut line));
        line.end(&response);
        (self.log)(&line);
        response
    }

    async fn answer_to(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
        line: &mut RequestLogEntry,
    ) -> Result<Response<Body>, HttpError> {
        let shown = Shown::by(&request, &self.tokens)?;
        let asker = match &shown {
            Shown::Known(known) => ClientKey::Token(known.number.clone()),
            Shown::Nothing | Shown::Wrong => ClientKey::Stranger(neighbourhood(peer)),
        };
        if !self.limiter.may_ask(asker) {
            return Err(HttpError::too_many("you ask too often; wait a moment"));
        }
        if *request.method() != Method::PUT {
            return self.file(&request).await;
        }
        match shown {
            Shown::Known(known) => self.change(request, known, line).await,
            Shown::Wrong if !self.limiter.may_be_wrong(peer) => {
                Err(HttpError::too_many("too many wrong tokens; wait some minutes"))
            }
            Shown::Wrong | Shown::Nothing => {
                let words = "show a token of this registry: `authorization: Bearer …`; its maintainer makes one";
                Err(HttpError::new(StatusCode::UNAUTHORIZED, words))
            }
        }
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

/// What a request shows of who asks.
enum Shown {
    Nothing,
    Wrong,
    Known(Known),
}

impl Shown {
    fn by<B>(request: &Request<B>, tokens: &PublishTokens) -> Result<Self, HttpError> {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(token) = header.and_then(|header| header.strip_prefix("Bearer ")) else { return Ok(Self::Nothing) };
        let known = tokens.find(token.trim()).map_err(|error| HttpError::fault(&error))?;
        Ok(known.map_or(Self::Wrong, Self::Known))
    }
}

/// Whom the proxy has before it: the last entry of the last header is its own; those before it are what the client says.
fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let said = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    let last = said.rsplit(',').next()?.trim();
    last.parse().ok().or_else(|| Some(last.parse::<SocketAddr>().ok()?.ip()))
}

async fn renewals(service: Arc<RegistryService>) {
    loop {
        tokio::time::sleep(RENEWALS).await;
        let due = Arc::clone(&service);
        let renewed = tokio::task::spawn_blocking(move || due.renew_if_due()).await;
        if let Ok(Err(error)) = renewed {
            (service.log)(&RequestLogEntry::trouble(format!("the checkpoint is not renewed: {error}")));
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_the_last_header_is_the_proxys() {
        let address = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            forwarded_for(&headers).map(|address| address.to_string())
        };
        assert_eq!(address(&["10.0.0.1"]).as_deref(), Some("10.0.0.1"));
        assert_eq!(address(&["1.2.3.4, 5.6.7.8 , 10.0.0.2"]).as_deref(), Some("10.0.0.2"));
        assert_eq!(address(&["1.2.3.4", "10.0.0.3:4711"]).as_deref(), Some("10.0.0.3"));
        assert_eq!(address(&["2001:db8::1"]).as_deref(), Some("2001:db8::1"));
        assert_eq!(address(&["[2001:db8::1]:80"]).as_deref(), Some("2001:db8::1"));
        for nobody in [&[][..], &["unknown"], &["1.2.3.4,"]] {
            assert_eq!(address(nobody), None, "{nobody:?}");
        }
    }
}
