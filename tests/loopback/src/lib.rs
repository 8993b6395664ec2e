//! HTTP servers on loopback for tests: they send prepared responses and record the requests they receive.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Response of a server to a request.
#[derive(Clone)]
pub enum Response {
    /// Sends these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Sends these bytes repeatedly without end.
    Endless(Vec<u8>),
    /// Reads the request and does not answer.
    Silence,
    /// Sends these bytes, and then single letters with pauses without end.
    Trickle(Vec<u8>, Duration),
    /// Sends the request back as the body, with its head in the header `x-seen`.
    Echo,
}

/// A server on a free port of 127.0.0.1.
pub struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

/// A complete response with a `content-length` header. `headers` ends each line with CRLF.
pub fn response(status: &str, headers: &str, body: &str) -> Response {
    Response::Bytes(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

impl Server {
    /// Starts a server that sends these responses in order and then repeats the last one.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(answers: Vec<Response>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let server = Self { port, requests: Arc::clone(&requests) };
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let response = answers[number.min(answers.len() - 1)].clone();
                tokio::spawn(serve(stream, response, Arc::clone(&requests)));
            }
        });
        server
    }

    /// Starts a server whose response depends on the request.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn responding(decide: impl Fn(&str) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let server = Self { port, requests: Arc::clone(&requests) };
        let decide = Arc::new(decide);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (decide, requests) = (Arc::clone(&decide), Arc::clone(&requests));
                tokio::spawn(async move {
                    let request = read_request(&mut stream).await;
                    let response = decide(&request);
                    requests.lock().expect("no test panics here").push(request.clone());
                    send(stream, response, &request).await;
                });
            }
        });
        server
    }

    /// URL of a path on this server.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Requests received so far, each complete.
    ///
    /// # Panics
    /// If a task of the server panicked.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no test panics here").clone()
    }
}

async fn serve(mut stream: TcpStream, response: Response, requests: Arc<Mutex<Vec<String>>>) {
    let request = read_request(&mut stream).await;
    requests.lock().expect("no test panics here").push(request.clone());
    send(stream, response, &request).await;
}

async fn send(mut stream: TcpStream, response: Response, request: &str) {
    let mut begun = false;
    let sent = match response {
        Response::Bytes(bytes) => stream.write_all(&bytes).await,
        Response::Echo => {
            let head = format!("HTTP/1.1 200 OK\r\nx-seen: {}\r\n", request.replace("\r\n", " | "));
            stream.write_all(format!("{head}content-length: {}\r\n\r\n{request}", request.len()).as_bytes()).await
        }
        Response::Endless(bytes) => loop {
            if let Err(gone) = stream.write_all(&bytes).await {
                break Err(gone);
            }
        },
        Response::Trickle(bytes, pause) => loop {
            let sent = stream.write_all(if begun { b"x" } else { &bytes }).await;
            begun = true;
            match sent {
                Ok(()) => tokio::time::sleep(pause).await,
                Err(gone) => break Err(gone),
            }
        },
        Response::Silence => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(())
        }
    };
    // A client may close the connection before the end.
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
