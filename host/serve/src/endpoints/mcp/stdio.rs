//! The protocol on standard input and output: the program that starts the server is its only client.

use std::sync::Arc;

use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{StdioReader, StdioWriter, stdio_pipes};
use rmcp::{ServerHandler, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};

use super::agents::Agents;
use super::arguments::OpenArguments;
use super::handles::Handles;
use super::lines::Lines;
use super::plain::Plain;
use crate::error::{ErrorKind, ServeError};
use crate::session::SessionTable;
use gymkhana_http::Client;

/// The tools that the client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisibleTools {
    /// Those of one episode, which begins with the server.
    Plain,
    /// `open`, `act` and `close`.
    Handles,
}

/// Standard input and output. Must be called in a runtime of tokio.
#[must_use]
pub fn standard_streams() -> (StdioReader, StdioWriter) {
    stdio_pipes()
}

/// Serves one client until its input ends or `stop` is ready. Lines that are not JSON, or longer than `max_line` bytes, are
/// answered with an error.
///
/// # Errors
/// If the episode does not begin, or the client does not speak the protocol.
pub async fn serve<R, W>(
    sessions: &SessionTable,
    shape: VisibleTools,
    (input, output): (R, W),
    max_line: usize,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let agents = Arc::new(Agents::new(sessions));
    let ((input, output), lines) = Lines::connect(input, output, max_line);
    let transport = AsyncRwTransport::new_server(input, output);
    let served = match shape {
        VisibleTools::Handles => talk(Handles::new(agents, Client::anyone()), transport, stop).await,
        VisibleTools::Plain => {
            let entered = agents.enter(&Client::anyone(), OpenArguments::default()).await?;
            talk(Plain::new(entered.agent), transport, stop).await
        }
    };
    lines.end().await;
    served
}

fn no_client(why: &str) -> ServeError {
    let message = format!("the client cannot be served: {why}\nhint: start the server from a client of MCP");
    ServeError::agent(ErrorKind::BadInput, message)
}

async fn talk<R, W>(
    server: impl ServerHandler,
    transport: AsyncRwTransport<rmcp::RoleServer, R, W>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let mut stop = std::pin::pin!(stop);
    let started = tokio::select! {
        started = serve_server(server, transport) => started,
        () = &mut stop => return Ok(()),
    };
    let running = match started {
        Ok(running) => running,
        // The input ended.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            return Err(no_client("its first message is not the request `initialize`"));
        }
        Err(error) => return Err(no_client(&error.to_string())),
    };
    let ends = running.cancellation_token();
    let mut ended = std::pin::pin!(running.waiting());
    let joined = tokio::select! {
        joined = &mut ended => joined,
        () = &mut stop => {
            ends.cancel();
            ended.await
        }
    };
    joined.map(|_| ()).map_err(|_| ServeError::host(ErrorKind::Failed, "the server of MCP panicked"))
}
