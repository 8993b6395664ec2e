//! The listening server: opens the registry folder, and serves the routes until it is dropped.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_http::{HostNames, HttpServer, ListenError, Listener, Permits};
use gymkhana_registry::{FolderError, FolderReadError, RegistryFolder, SecretKey};
use tokio::sync::Semaphore;

use crate::files::page_cache::PageCache;
use crate::limits::ServerLimits;
use crate::publish_tokens::{PublishTokens, TokenFileError};
use crate::rate_limit::RateLimiter;
use crate::request_log::RequestLog;
use crate::routes::router;
use crate::service::RegistryService;

/// Age of temporary files of crashed processes that are deleted at the start.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    /// The address cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The folder is not a registry of this root key.
    #[error(transparent)]
    Read(#[from] FolderReadError),
    /// The folder cannot be changed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The tokens cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
}

/// A server bound to an address.
pub struct RegistryServer {
    listener: Listener,
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
    ) -> Result<Self, ServerStartError> {
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
            uploads: Permits::new(limits.max_uploads_per_token),
            limits,
            pages: PageCache::default(),
        };
        service.folder.state(Some(&service.root.public()))?;
        service.folder.clean_up(STALE_AFTER, service.authority())?;
        service.renew_if_due()?;
        let listener = Listener::bind(address)?;
        Ok(Self { listener, service: Arc::new(service) })
    }

    /// Bound address; a requested port 0 is replaced by the assigned port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves requests until the future is dropped. The server has every name: its files are public, and changes need a
    /// token.
    pub async fn serve(self) {
        let Self { listener, service } = self;
        let server = HttpServer::new(router(Arc::clone(&service)), HostNames::Any);
        let limits = service.limits.connections();
        tokio::select! {
            () = listener.serve(server, limits, std::future::pending()) => {}
            () = service.renew_regularly() => {}
        }
    }
}
