//! The lines between a client and the protocol's library, which drops a line that is not JSON without an answer.

use std::sync::Arc;

use serde::de::IgnoredAny;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Bytes that may wait between the client and the library in each direction.
const BUFFER: usize = 1 << 16;

/// Code of JSON-RPC for a line that is not JSON.
const PARSE_ERROR: i32 = -32700;

/// Tasks that connect the streams of a client with those of the library.
pub(super) struct Lines {
    reading: JoinHandle<()>,
    writing: JoinHandle<()>,
}

/// Input and output of the library.
pub(super) type LibraryStreams = (DuplexStream, DuplexStream);

impl Lines {
    /// Connects the streams of a client. Lines that are not JSON, or longer than `max_line` bytes, are answered with an error.
    pub fn connect<R, W>(input: R, output: W, max_line: usize) -> (LibraryStreams, Self)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (to_library, library_input) = duplex(BUFFER);
        let (library_output, from_library) = duplex(BUFFER);
        let output = Arc::new(Mutex::new(output));
        let reading = tokio::spawn(read(BufReader::new(input), to_library, Arc::clone(&output), max_line));
        let writing = tokio::spawn(write(BufReader::new(from_library), output));
        ((library_input, library_output), Self { reading, writing })
    }

    /// Waits until the client has what the library wrote. The library has closed its streams.
    pub async fn end(self) {
        self.reading.abort();
        // A panic of the task has been printed by its own hook.
        let _ = self.writing.await;
    }
}

/// Passes the lines of the client on until its input ends.
async fn read<R, W>(mut client: BufReader<R>, mut library: DuplexStream, output: Arc<Mutex<W>>, max_line: usize)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = max_line as u64 + 1;
        let Ok(length) = (&mut client).take(most).read_until(b'\n', &mut line).await else { return };
        if length == 0 {
            return;
        }
        if length > max_line && line.last() != Some(&b'\n') {
            let why = format!("the line is longer than {max_line} bytes");
            if !skip_line(&mut client).await || !answer(&output, &why).await {
                return;
            }
            continue;
        }
        let passed = match serde_json::from_slice::<IgnoredAny>(&line) {
            _ if line.iter().all(u8::is_ascii_whitespace) => true,
            Ok(_) => library.write_all(&line).await.is_ok(),
            Err(error) => answer(&output, &format!("the line is not JSON: {error}")).await,
        };
        if !passed {
            return;
        }
    }
}

/// Reads to the end of a line. Returns whether there may be more.
async fn skip_line<R: AsyncRead + Unpin>(client: &mut BufReader<R>) -> bool {
    loop {
        let Ok(bytes) = client.fill_buf().await else { return false };
        if bytes.is_empty() {
            return false;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(bytes.len(), |end| end + 1);
        client.consume(length);
        if end.is_some() {
            return true;
        }
    }
}

/// Answers a line with an error of the protocol. Returns whether the client takes it.
async fn answer<W: AsyncWrite + Unpin>(output: &Mutex<W>, why: &str) -> bool {
    let error = serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": { "code": PARSE_ERROR, "message": why } });
    send(output, format!("{error}\n").as_bytes()).await
}

async fn send<W: AsyncWrite + Unpin>(output: &Mutex<W>, line: &[u8]) -> bool {
    let mut output = output.lock().await;
    output.write_all(line).await.is_ok() && output.flush().await.is_ok()
}

/// Passes the lines of the library on until it closes its output.
async fn write<W: AsyncWrite + Unpin>(mut library: BufReader<DuplexStream>, output: Arc<Mutex<W>>) {
    let mut line = Vec::new();
    while library.read_until(b'\n', &mut line).await.is_ok_and(|length| length > 0) {
        if !send(&output, &line).await {
            return;
        }
        line.clear();
    }
}
