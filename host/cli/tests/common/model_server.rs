//! A server of chat completions for plugins that answers as a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

const COMPLETION: &str = r#"{"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1}}"#;

/// An answer.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// The completion `yes`.
    Yes,
    /// The same after this time.
    Late(Duration),
    /// A status line without its version, and a body.
    Status(&'static str, &'static str),
    /// The end of the connection.
    Close,
}

/// Starts the server, which ends with the process, and returns its address. `answer` reads the body of a request.
pub fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || serve(&stream, &*answer));
        }
    });
    address
}

/// Answers the requests of a connection until it ends.
fn serve(stream: &TcpStream, answer: &dyn Fn(&str) -> Answer) {
    let mut reader = BufReader::new(stream);
    while let Some(body) = request(&mut reader) {
        let written = match answer(&body) {
            Answer::Yes => write(stream, "200 OK", COMPLETION),
            Answer::Late(time) => {
                std::thread::sleep(time);
                write(stream, "200 OK", COMPLETION)
            }
            Answer::Status(status, body) => write(stream, status, body),
            Answer::Close => return,
        };
        if written.is_err() {
            return;
        }
    }
}

fn write(mut stream: &TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The body of the next request; `None` at the end of the connection.
fn request(reader: &mut impl BufRead) -> Option<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(found) = line.strip_prefix("content-length:") {
            length = found.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}
