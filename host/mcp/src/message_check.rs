//! Messages of a server that are answers but cannot be read. Without the check they would be passed over like other
//! output, and the request would wait for its whole time.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use rmcp::model::ServerJsonRpcMessage;
use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};

/// Why an answer of a session cannot be read, once there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageFault(Arc<Mutex<Option<String>>>);

impl MessageFault {
    /// The reason.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, reason: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

/// A reader that fails at the end of a line with an unreadable answer.
pub(crate) struct CheckedReader<R> {
    reader: R,
    /// The line so far.
    line: Vec<u8>,
    fault: MessageFault,
}

impl<R> CheckedReader<R> {
    pub(crate) fn new(reader: R, fault: MessageFault) -> Self {
        Self { reader, line: Vec::new(), fault }
    }

    /// Checks the lines that end in these bytes.
    fn check(&mut self, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if !part.ends_with(b"\n") {
                continue;
            }
            if let Some(reason) = unreadable(&self.line) {
                self.fault.set(reason.clone());
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            self.line.clear();
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for CheckedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.reader).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(self.check(&buffer.filled()[before..])),
            other => other,
        }
    }
}

/// Why a message is an answer that cannot be read; `None` for answers that can, other messages and other output.
pub(crate) fn unreadable(line: &[u8]) -> Option<String> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if !line.starts_with(b"{") || serde_json::from_slice::<ServerJsonRpcMessage>(line).is_ok_and(|_| !has_text_id(line))
    {
        return None;
    }
    match serde_json::from_slice::<Value>(line) {
        Ok(message) => is_answer(&message).then(|| fault(&message)),
        Err(error) => {
            let text = String::from_utf8_lossy(line);
            let has = |key: &str| text.contains(&format!("\"{key}\""));
            let is_answer = has("id") && (has("result") || has("error"));
            is_answer.then(|| not_json(line, &error))
        }
    }
}

/// Whether the id is a text: those of this client's requests are numbers.
fn has_text_id(line: &[u8]) -> bool {
    let has = |message: Value| is_answer(&message) && message.get("id").is_some_and(Value::is_string);
    serde_json::from_slice(line).is_ok_and(has)
}

fn is_answer(message: &Value) -> bool {
    let has = |key: &str| message.get(key).is_some();
    !has("method") && (has("result") || has("error")) && (has("id") || has("jsonrpc"))
}

/// What is wrong with an answer.
fn fault(message: &Value) -> String {
    let error = message.get("error");
    let code = error.and_then(|error| error.get("code"));
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        "it lacks `\"jsonrpc\": \"2.0\"`".to_owned()
    } else if !message.get("id").is_some_and(Value::is_i64) {
        "its `id` is not that of the request, which is a number".to_owned()
    } else if error.is_some() && !code.is_some_and(Value::is_i64) {
        "its `error.code` is not an integer".to_owned()
    } else {
        "it is not an answer of JSON-RPC 2.0".to_owned()
    }
}

/// What is wrong with bytes that are not JSON.
fn not_json(line: &[u8], error: &serde_json::Error) -> String {
    let Ok(text) = std::str::from_utf8(line) else { return "it is not UTF-8".to_owned() };
    let rest = text.get(error.column().saturating_sub(1)..).unwrap_or_default();
    let why = error.to_string();
    match ["NaN", "Infinity"].iter().find(|name| rest.starts_with(**name)) {
        Some(name) => format!("it is not JSON, which has no `{name}`"),
        None if why.contains("surrogate") || why.contains("end of hex escape") => {
            "it is not JSON: a text has half of a surrogate pair".to_owned()
        }
        None => format!("it is not JSON: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_answers_have_a_reason() {
        for (line, reason) in [
            (&br#"{"id":1,"result":{"content":[]}}"#[..], "it lacks `\"jsonrpc\": \"2.0\"`"),
            (br#"{"jsonrpc":"1.0","id":1,"result":{}}"#, "it lacks `\"jsonrpc\": \"2.0\"`"),
            (br#"{"jsonrpc":"2.0","id":1,"error":{"code":"E1","message":"x"}}"#, "its `error.code` is not an integer"),
            (br#"{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}"#, "its `error.code` is not an integer"),
            (br#"{"jsonrpc":"2.0","id":1,"error":"x"}"#, "its `error.code` is not an integer"),
            (br#"{"jsonrpc":"2.0","id":"1","result":{"content":[]}}"#, "its `id` is not that of the request"),
            (br#"{"jsonrpc":"2.0","result":{"content":[]}}"#, "its `id` is not that of the request"),
            (br#"{"jsonrpc":"2.0","id":1.5,"result":{"content":[]}}"#, "its `id` is not that of the request"),
            (br#"{"jsonrpc":"2.0","id":1,"result":{"v":NaN}}"#, "it is not JSON, which has no `NaN`"),
            (br#"{"jsonrpc":"2.0","id":1,"result":{"v":Infinity}}"#, "it is not JSON, which has no `Infinity`"),
            (
                br#"{"jsonrpc":"2.0","id":1,"result":{"v":"\ud83d"}}"#,
                "it is not JSON: a text has half of a surrogate pair",
            ),
            (br#"{"jsonrpc":"2.0","id":1,"result":{"v":"#, "it is not JSON: EOF while parsing"),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"v\":\"caf\xe9\"}}", "it is not UTF-8"),
        ] {
            let found = unreadable(line).unwrap_or_default();
            assert!(found.starts_with(reason), "{}: {found}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn other_lines_are_passed_on() {
        for line in [
            &br#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#[..],
            br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x"}}"#,
            b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\r\n",
            br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#,
            br#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#,
            br#"{"jsonrpc": 1}"#,
            br#"{"level":"info","error":"none"}"#,
            b"{ not json",
            b"Listening on stdio",
            b"\x00\xff",
            b"[]",
            b"",
        ] {
            assert_eq!(unreadable(line), None, "{}", String::from_utf8_lossy(line));
        }
    }
}
