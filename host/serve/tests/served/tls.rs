//! TLS: a client that trusts the certificate is served, others and plain HTTP are not.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::common::{Served, head, serve};

/// A certificate of `localhost` for these tests, and its key.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

async fn serve_tls() -> Served {
    let tls = format!("tls = {{ certificate = \"{FOLDER}/certificate.pem\", key = \"{FOLDER}/key.pem\" }}");
    serve(&["calculator"], &format!("[listen]\nclient_seconds = 2\n{tls}\n")).await
}

async fn connect(served: &Served, trusts: bool, name: &'static str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    if trusts {
        let certificates = CertificateDer::pem_file_iter(Path::new(FOLDER).join("certificate.pem")).unwrap();
        certificates.for_each(|certificate| roots.add(certificate.unwrap()).unwrap());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(served.address).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name).unwrap(), stream).await
}

async fn ask(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> String {
    let _ = stream.write_all(head("GET", "/health", 0, "").as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_trusts_the_certificate_is_served() {
    let served = serve_tls().await;
    let mut stream = connect(&served, true, "localhost").await.unwrap();
    let answer = ask(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with(r#"{"status":"healthy"}"#), "{answer}");
    assert!(connect(&served, true, "gym.example").await.is_err(), "the certificate has another name");
    assert!(connect(&served, false, "localhost").await.is_err(), "nobody vouches for the certificate");
    let mut again = connect(&served, true, "127.0.0.1").await.unwrap();
    assert!(ask(&mut again).await.starts_with("HTTP/1.1 200 OK"));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_is_refused() {
    let served = serve_tls().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let answer = ask(&mut stream).await;
    assert!(!answer.contains("HTTP/1.1") && !answer.contains("healthy"), "{answer:?}");
    let mut trusted = connect(&served, true, "localhost").await.unwrap();
    assert!(ask(&mut trusted).await.contains("healthy"), "others are served");
    served.stop().await;
}
