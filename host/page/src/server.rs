//! The listener of the page.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use gymkhana_http::{ConnectionLimits, HandleShare, HostNames, HttpServer, Listener, RequestPace, StallBudget};

use crate::access::{Access, AccessToken};
use crate::error::PageError;
use crate::replayer::Replayer;
use crate::routes::paced;
use crate::state::WorkPace;

/// Limits of the page's connections: a browser opens six, one of them for live updates.
const LIMITS: ConnectionLimits = ConnectionLimits {
    all: 128,
    per_network: 96,
    head_time: Duration::from_secs(10),
    head_bytes: 32 << 10,
    stall: StallBudget::new(Duration::from_secs(30), 4096),
    // A reader needs some at a time; a flood of strangers takes little of a run's time.
    pace: RequestPace::All(Duration::from_millis(2)),
};

/// A bound address for a page whose runs may not exist yet.
pub struct PageAddress {
    listener: Listener,
    access: Access,
    pace: WorkPace,
}

impl PageAddress {
    /// Binds the address. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// If the address cannot be bound, or others can reach it and there is no token.
    pub fn bind(address: SocketAddr, token: Option<AccessToken>) -> Result<Self, PageError> {
        // Refused before the port is taken.
        Access::new(address, token.clone())?;
        let listener = Listener::bind(address)?;
        let access = Access::new(listener.address(), token)?;
        Ok(Self { listener, access, pace: WorkPace::Full })
    }

    /// The same for a page in the process of a run: it leaves the processor to the run.
    #[must_use]
    pub fn beside_run(mut self) -> Self {
        self.pace = WorkPace::BesideRun;
        self
    }

    /// Bound address; a requested port 0 is replaced by the assigned port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Opens the runs. With a replayer, their episodes can be replayed from this machine.
    ///
    /// # Errors
    /// If a run cannot be opened, or there is a replayer and other machines can reach the address.
    pub fn open(self, runs: &[PathBuf], replayer: Option<Replayer>) -> Result<Page, PageError> {
        let address = self.address();
        if replayer.is_some() && !address.ip().is_loopback() {
            return Err(PageError::ReplayFromElsewhere(address));
        }
        let server =
            HttpServer::new(paced(runs, self.access, replayer, self.pace)?, HostNames::at(address, false, &[]));
        Ok(Page { listener: self.listener, server })
    }
}

/// The page of some runs, bound to an address.
pub struct Page {
    listener: Listener,
    server: HttpServer,
}

impl Page {
    /// Serves until `stop` is ready. Live updates end then as well. Beside a run, the page uses a small share of the
    /// process's file handles.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let limits = LIMITS.within(HandleShare::Eighth, 1);
        tokio::select! {
            () = self.listener.serve(self.server, limits, std::future::pending()) => {}
            () = stop => {}
        }
    }
}
