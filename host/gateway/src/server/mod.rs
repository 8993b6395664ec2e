//! The listening server: one for all episodes, on threads of its own.

mod activity;
mod endpoint;
mod handler;
mod mcp;
mod sessions;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_http::{
    ConnectionLimits, HandleShare, HostNames, HttpServer, ListenError, Listener, RequestPace, StallBudget,
};
use gymkhana_keeper::Keeper;
use gymkhana_record::Function;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::control::{self, Control};
use crate::program::{AgentProgram, Launch, RunningProgram};
pub use activity::Activity;
pub(crate) use handler::{json as json_response, read_body};
pub use sessions::OpenSession;
use sessions::OpenSessions;

/// Threads of the server.
const THREADS: usize = 2;
/// Limits of the connections. Programs of one machine may take three quarters.
const LIMITS: ConnectionLimits = ConnectionLimits {
    all: 8192,
    per_network: 6144,
    head_time: Duration::from_secs(75),
    head_bytes: 64 << 10,
    stall: StallBudget::new(Duration::from_secs(75), 4096),
    pace: RequestPace::Refused(Duration::from_millis(2)),
};

/// The server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The threads cannot be started.
    #[error("the gateway cannot start its threads: {0}")]
    Threads(#[source] io::Error),
}

/// A running gateway. Dropping it ends all connections.
pub struct Gateway {
    /// Taken on drop: a runtime must not be dropped in a task.
    runtime: Option<Runtime>,
    handle: Handle,
    address: SocketAddr,
    sessions: Arc<OpenSessions>,
    keeper: Mutex<Option<Arc<Keeper>>>,
}

impl Gateway {
    /// Starts a gateway on an address; port 0 chooses a free port.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn start(address: SocketAddr) -> Result<Self, GatewayError> {
        Self::bind(address, None, None, HandleShare::Quarter)
    }

    /// Starts a gateway at which harnesses open sessions. `url` is its address as they see it, by default the bound one.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn start_with(address: SocketAddr, url: Option<String>, control: Arc<Control>) -> Result<Self, GatewayError> {
        Self::bind(address, url, Some(control), HandleShare::Half)
    }

    fn bind(
        address: SocketAddr,
        url: Option<String>,
        control: Option<Arc<Control>>,
        share: HandleShare,
    ) -> Result<Self, GatewayError> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("gateway").enable_all();
        let runtime = builder.build().map_err(GatewayError::Threads)?;
        let handle = runtime.handle().clone();
        let listener = {
            let _entered = handle.enter();
            Listener::bind(address)?
        };
        let address = listener.address();
        // A proxy may pass its own name on.
        let hosts = if url.is_some() { HostNames::Any } else { HostNames::at(address, false, &[]) };
        let sessions = Arc::new(OpenSessions::new(&url.unwrap_or_else(|| format!("http://{address}"))));
        let mut router = handler::router(Arc::clone(&sessions));
        if let Some(control) = control {
            router = router.merge(control::router(control));
        }
        let limits = LIMITS.within(share, 1);
        handle
            .spawn(async move { listener.serve(HttpServer::new(router, hosts), limits, std::future::pending()).await });
        Ok(Self { runtime: Some(runtime), handle, address, sessions, keeper: Mutex::default() })
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address as programs see it.
    #[must_use]
    pub fn url(&self) -> &str {
        self.sessions.url()
    }

    /// Opens a session that answers for these models' names.
    #[must_use]
    pub fn open(&self, models: Vec<String>) -> OpenSession {
        self.sessions.open(models, None)
    }

    /// Opens a session that answers for these models' names, and offers these functions by MCP.
    #[must_use]
    pub fn open_with_tools(&self, models: Vec<String>, functions: Vec<Function>) -> OpenSession {
        self.sessions.open(models, Some(functions))
    }

    /// Starts an agent program.
    #[must_use]
    pub fn launch(&self, program: AgentProgram, launch: Launch) -> RunningProgram {
        match self.keeper() {
            Ok(keeper) => RunningProgram::start(&self.handle, keeper, program, launch),
            Err(error) => RunningProgram::failed(&self.handle, &program, error),
        }
    }

    /// The keeper of the programs, which starts with the first one.
    fn keeper(&self) -> io::Result<Arc<Keeper>> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        match &*keeper {
            Some(keeper) => Ok(Arc::clone(keeper)),
            None => Ok(Arc::clone(keeper.insert(Arc::new(Keeper::start()?)))),
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
