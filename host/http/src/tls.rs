//! TLS of a listener, by rustls with ring.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A certificate or a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not PEM of its kind.
    #[error("{what} `{path}` cannot be read: {why}\nhint: name a PEM file in [listen.tls]")]
    File {
        /// Certificate or key.
        what: &'static str,
        /// Path.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// Certificate and key do not fit.
    #[error("the certificate of listen.tls cannot be used: {0}\nhint: name the key that belongs to it")]
    Certificate(#[from] rustls::Error),
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Reads a certificate chain, the server's own first, and its key.
    ///
    /// # Errors
    /// If a file cannot be read, or they do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let file = |what, path: &Path, why: String| TlsError::File { what, path: path.to_owned(), why };
        let wrong = |error: rustls::pki_types::pem::Error| file("certificate", certificate, error.to_string());
        let chain = CertificateDer::pem_file_iter(certificate).map_err(wrong)?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| file("key", key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> std::io::Result<TlsStream<S>> {
        self.0.accept(stream).await
    }
}
