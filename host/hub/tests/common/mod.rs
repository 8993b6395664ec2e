//! Real servers on loopback that say what a test wants and write down what they hear.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a server does with a request.
#[derive(Clone)]
pub enum Says {
    /// Sends these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Sends these bytes again and again.
    Endless(Vec<u8>),
    /// Reads and never answers.
    Nothing,
    /// Sends the request back as the body.
    Echo,
}

/// A server that gives these answers in turn, the last one for ever.
pub struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

/// A whole response.
pub fn response(status: &str, headers: &str, body: &str) -> Says {
    Says::Bytes(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

impl Server {
    pub async fn start(answers: Vec<Says>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let server = Self { port, heard: Arc::clone(&heard) };
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let says = answers[number.min(answers.len() - 1)].clone();
                tokio::spawn(serve(stream, says, Arc::clone(&heard)));
            }
        });
        server
    }

    /// A server that decides what to say by the request.
    pub async fn deciding(decide: impl Fn(&str) -> Says + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let server = Self { port, heard: Arc::clone(&heard) };
        let decide = Arc::new(decide);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (decide, heard) = (Arc::clone(&decide), Arc::clone(&heard));
                tokio::spawn(async move {
                    let request = read_request(&mut stream).await;
                    let says = decide(&request);
                    heard.lock().expect("no test panics here").push(request.clone());
                    say(stream, says, &request).await;
                });
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The requests so far, each whole.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("no test panics here").clone()
    }
}

async fn serve(mut stream: TcpStream, says: Says, heard: Arc<Mutex<Vec<String>>>) {
    let request = read_request(&mut stream).await;
    heard.lock().expect("no test panics here").push(request.clone());
    say(stream, says, &request).await;
}

async fn say(mut stream: TcpStream, says: Says, request: &str) {
    let sent = match says {
        Says::Bytes(bytes) => stream.write_all(&bytes).await,
        Says::Echo => {
            let head = format!("HTTP/1.1 200 OK\r\nx-seen: {}\r\n", request.replace("\r\n", " | "));
            stream.write_all(format!("{head}content-length: {}\r\n\r\n{request}", request.len()).as_bytes()).await
        }
        Says::Endless(bytes) => loop {
            if let Err(gone) = stream.write_all(&bytes).await {
                break Err(gone);
            }
        },
        Says::Nothing => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(())
        }
    };
    // A client that has heard enough goes away.
    drop(sent);
    let _ = stream.shutdown().await;
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
