//! Output of a program, read to its end and kept within a bound.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// Bounded bytes of a stream: its beginning, or its end. Clones share them.
#[derive(Clone)]
pub struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    most: usize,
    keeps_end: bool,
}

impl Captured {
    /// Keeps the first bytes, `most` at most.
    #[must_use]
    pub fn beginning(most: usize) -> Self {
        Self { bytes: Arc::default(), most, keeps_end: false }
    }

    /// Keeps the last bytes, `most` at most.
    #[must_use]
    pub fn end(most: usize) -> Self {
        Self { bytes: Arc::default(), most, keeps_end: true }
    }

    /// Reads to the end of the stream, so that the program never waits for a reader.
    pub fn read(&self, stream: Option<impl AsyncRead + Unpin + Send + 'static>) -> JoinHandle<()> {
        let captured = self.clone();
        tokio::spawn(async move {
            let Some(mut stream) = stream else { return };
            let mut buffer = vec![0; 8 << 10];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                captured.add(&buffer[..count]);
            }
        })
    }

    fn add(&self, more: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.keeps_end {
            bytes.extend_from_slice(more);
            let excess = bytes.len().saturating_sub(self.most);
            bytes.drain(..excess);
        } else {
            let room = self.most.saturating_sub(bytes.len()).min(more.len());
            bytes.extend_from_slice(&more[..room]);
        }
    }

    /// What was kept so far; it is empty afterwards.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
