//! The listener of the page.

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::Router;
use tokio::net::TcpListener;

use crate::access::{Access, Token};
use crate::error::PageError;
use crate::replayer::Replayer;
use crate::routes::router;

/// A bound address for a page whose runs may not exist yet.
pub struct Place {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
}

impl Place {
    /// Binds the address.
    ///
    /// # Errors
    /// If the address cannot be bound, or others can reach it and there is no token.
    pub async fn bind(address: SocketAddr, token: Option<Token>) -> Result<Self, PageError> {
        // Refused before the port is taken.
        Access::new(address, token.clone())?;
        let failed = |source| PageError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, access: Access::new(address, token)? })
    }

    /// Bound address; a requested port 0 is replaced by the assigned port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens the runs. With a replayer, their episodes can be replayed from this machine.
    ///
    /// # Errors
    /// If a run cannot be opened, or there is a replayer and other machines can reach the address.
    pub fn open(self, runs: &[PathBuf], replayer: Option<Replayer>) -> Result<Page, PageError> {
        if replayer.is_some() && !self.address.ip().is_loopback() {
            return Err(PageError::ReplayFromElsewhere(self.address));
        }
        Ok(Page { listener: self.listener, router: router(runs, self.access, replayer)? })
    }
}

/// The page of some runs, bound to an address.
pub struct Page {
    listener: TcpListener,
    router: Router,
}

impl Page {
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
