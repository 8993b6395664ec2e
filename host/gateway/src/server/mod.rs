//! The listening server: one for all episodes, on threads of its own.
//!
//! Connections are served with hyper directly, because `axum::serve` has no header timeout and no buffer limit.

mod activity;
mod endpoint;
mod handler;
mod mcp;
mod sessions;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use gymkhana_record::Function;
use hyper::body::Incoming as Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::control::{self, Control};
use crate::program::{AgentProgram, Launch, RunningProgram};
pub use activity::Activity;
pub(crate) use handler::{json as json_response, read_body};
pub use sessions::OpenSession;
use sessions::Sessions;

/// Threads of the server.
const THREADS: usize = 2;
/// Connections that are served at once; others wait in the accept queue.
const MAX_CONNECTIONS: usize = 8192;
/// Time for the head of a request, and for an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Limit of a connection's read buffer in bytes, and thereby of a request head.
const MAX_HEAD: usize = 64 << 10;
/// Delay after a failed accept, such as for lack of file handles.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address cannot be bound.
    #[error(
        "the gateway cannot listen on {address}: {source}\nhint: choose an address of this machine and a free port"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
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
    sessions: Arc<Sessions>,
}

impl Gateway {
    /// Starts a gateway on an address; port 0 chooses a free port.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn start(address: SocketAddr) -> Result<Self, GatewayError> {
        Self::bind(address, None, None)
    }

    /// Starts a gateway at which harnesses open sessions. `url` is its address as they see it, by default the bound one.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn start_with(address: SocketAddr, url: Option<String>, control: Arc<Control>) -> Result<Self, GatewayError> {
        Self::bind(address, url, Some(control))
    }

    fn bind(address: SocketAddr, url: Option<String>, control: Option<Arc<Control>>) -> Result<Self, GatewayError> {
        let failed = |source| GatewayError::Listen { address, source };
        let listener = StdListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("gateway").enable_all();
        let runtime = builder.build().map_err(GatewayError::Threads)?;
        let handle = runtime.handle().clone();
        let listener = {
            let _entered = handle.enter();
            TcpListener::from_std(listener).map_err(failed)?
        };
        let sessions = Arc::new(Sessions::new(&url.unwrap_or_else(|| format!("http://{bound}"))));
        let mut router = handler::router(Arc::clone(&sessions));
        if let Some(control) = control {
            router = router.merge(control::router(control));
        }
        handle.spawn(serve(listener, router));
        Ok(Self { runtime: Some(runtime), handle, address: bound, sessions })
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
        RunningProgram::start(&self.handle, program, launch)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: TcpListener, router: Router) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve_connection(stream, router).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let route = service_fn(move |request: Request<Body>| router.clone().oneshot(request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    // The client has disconnected, or sent no HTTP.
    let _ = builder.serve_connection(TokioIo::new(stream), route).await;
}
