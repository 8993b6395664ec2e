//! Waits for sessions from threads that run plugins, with a deadline.
//!
//! Sessions live on threads of their own, because a plugin's thread may block and its runtime may have no timers.

use std::io;
use std::sync::LazyLock;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use gymkhana_waits::{Counterpart, Silent, receive, within};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::McpError;

/// Number of threads for the input and output of all sessions.
const THREADS: usize = 2;
/// Time beyond the deadline after which a thread that cannot keep it is given up.
const GRACE: Duration = Duration::from_secs(5);

static SESSIONS: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(THREADS).thread_name("mcp-session").enable_all().build()
});

/// The runtime of all sessions.
pub(crate) fn sessions() -> Result<&'static Handle, McpError> {
    match &*SESSIONS {
        Ok(runtime) => Ok(runtime.handle()),
        Err(error) => Err(McpError::Threads(io::Error::new(error.kind(), error.to_string()))),
    }
}

/// Runs a future on the threads of sessions and blocks until it ends. After the deadline the future is dropped, and the inner
/// error is that of a silent server.
pub(crate) fn wait<T: Send + 'static>(
    deadline: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<Result<T, Silent>, McpError> {
    let (sender, receiver) = sync_channel(1);
    let task = sessions()?.spawn(async move {
        let result = within(Counterpart::McpServer, deadline, future).await;
        // The receiver is gone if this came after the grace time.
        let _ = sender.send(result);
    });
    let received = receive(Counterpart::McpServer, deadline.saturating_add(GRACE), &receiver);
    received.map_or_else(
        |_| {
            task.abort();
            Ok(Err(Silent { counterpart: Counterpart::McpServer, named: String::new(), waited: deadline }))
        },
        Ok,
    )
}
