//! The listener of the page.

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::Router;
use tokio::net::TcpListener;

use crate::access::{Access, Token};
use crate::error::PageError;
use crate::routes::router;

/// The page, bound to an address.
pub struct Page {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

impl Page {
    /// Opens runs and binds the address.
    ///
    /// # Errors
    /// If a run cannot be opened, the address cannot be bound, or others can reach it and there is no token.
    pub async fn bind(runs: &[PathBuf], address: SocketAddr, token: Option<Token>) -> Result<Self, PageError> {
        // Refused before the port is taken.
        Access::new(address, token.clone())?;
        let failed = |source| PageError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let router = router(runs, Access::new(address, token)?)?;
        Ok(Self { listener, address, router })
    }

    /// Bound address; a requested port 0 is replaced by the assigned port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready. Live updates end then as well.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), PageError> {
        tokio::select! {
            served = axum::serve(self.listener, self.router) => Ok(served?),
            () = stop => Ok(()),
        }
    }
}
