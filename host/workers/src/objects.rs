//! Objects of the bus: writes that leave nothing behind when they fail, and reads that end when the bus is silent.
//!
//! The client's own write leaves the chunks of a failed object in the bucket, where they keep a full disk full.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::object_store::{ObjectInfo, ObjectOptions, ObjectStore};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE;
use bytes::Bytes;
use gymkhana_registry::Digest;
use gymkhana_waits::{Counterpart, within};
use tokio::io::AsyncReadExt;

use crate::bus::Bus;

/// Largest chunk of an object, in bytes.
const CHUNK: usize = 128 << 10;
/// Longest time without bytes of an object, in either direction.
const IDLE: Duration = Duration::from_secs(15);
/// Bytes that one read of an object takes at most.
const READ: usize = 256 << 10;

/// Reason why an object was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PutError {
    /// The bus answered with an error, as a full one does.
    #[error("{0}")]
    Refused(String),
    /// The bus did not answer, or has lost the bucket.
    #[error("{0}")]
    Unreachable(String),
}

/// Reason why an object was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    /// The bus does not have it.
    #[error("the bus does not have it: {0}")]
    Missing(String),
    /// The bus stopped sending.
    #[error("the bus sent nothing of it for {} s", IDLE.as_secs())]
    Silent,
    /// The bus sent other bytes, or the connection ended.
    #[error("it cannot be read: {0}")]
    Broken(String),
}

/// Stores an object, or nothing. Replaces an object of this name.
///
/// # Errors
/// If the bus does not take all of it.
pub(crate) async fn put(bus: &Bus, bucket: &str, name: &str, bytes: Bytes) -> Result<(), PutError> {
    // An object that is written again has the same chunks.
    let id = Digest::of(name.as_bytes()).to_string();
    let chunks = format!("$O.{bucket}.C.{id}");
    purge(bus, bucket, &chunks).await;
    let written = write(bus, bucket, name, &id, &chunks, bytes).await;
    if written.is_err() {
        purge(bus, bucket, &chunks).await;
    }
    written
}

async fn purge(bus: &Bus, bucket: &str, chunks: &str) {
    let Ok(stream) = bus.jetstream.get_stream_no_info(format!("OBJ_{bucket}")).await else { return };
    if let Err(error) = stream.purge().filter(chunks).await {
        tracing::debug!("the chunks {chunks} were not removed: {error}");
    }
}

async fn write(bus: &Bus, bucket: &str, name: &str, id: &str, chunks: &str, mut bytes: Bytes) -> Result<(), PutError> {
    let (size, chunk) = (bytes.len(), CHUNK.min(bus.most_bytes()).max(1));
    while !bytes.is_empty() {
        let part = bytes.split_to(chunk.min(bytes.len()));
        publish(bus, chunks.to_owned(), HeaderMap::new(), part).await?;
    }
    let info = ObjectInfo {
        name: name.to_owned(),
        description: None,
        metadata: HashMap::new(),
        headers: None,
        options: Some(ObjectOptions { link: None, max_chunk_size: Some(chunk) }),
        bucket: bucket.to_owned(),
        nuid: id.to_owned(),
        size,
        chunks: size.div_ceil(chunk),
        modified: None,
        // Readers compare the digest that a message names.
        digest: None,
        deleted: false,
    };
    let info = serde_json::to_vec(&info).map_err(|error| PutError::Refused(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Rollup", "sub");
    publish(bus, format!("$O.{bucket}.M.{}", BASE64_URL_SAFE.encode(name)), headers, info.into()).await
}

async fn publish(bus: &Bus, subject: String, headers: HeaderMap, bytes: Bytes) -> Result<(), PutError> {
    let confirmed = async {
        let sent = bus.jetstream.publish_with_headers(subject, headers, bytes).await?;
        sent.await.map(drop)
    };
    let confirmed = within(Counterpart::Bus, IDLE, confirmed).await;
    confirmed.map_err(|silent| PutError::Unreachable(silent.to_string()))?.map_err(|error| match error.kind() {
        PublishErrorKind::Other | PublishErrorKind::MaxPayloadExceeded => PutError::Refused(error.to_string()),
        _ => PutError::Unreachable(error.to_string()),
    })
}

/// Reads an object of at most `most` bytes. One byte more than that shows that the object is another one.
///
/// # Errors
/// If the bus does not have it, or is silent for 15 s.
pub(crate) async fn get(store: &ObjectStore, name: &str, most: u64) -> Result<Vec<u8>, GetError> {
    let object = within(Counterpart::Bus, IDLE, store.get(name)).await.map_err(|_| GetError::Silent)?;
    let object = object.map_err(|error| GetError::Missing(error.to_string()))?;
    let mut object = object.take(most.saturating_add(1));
    let mut bytes = Vec::new();
    loop {
        bytes.reserve(READ);
        let read = within(Counterpart::Bus, IDLE, object.read_buf(&mut bytes)).await;
        match read.map_err(|_| GetError::Silent)? {
            Ok(0) => return Ok(bytes),
            Ok(_) => {}
            Err(error) => return Err(GetError::Broken(error.to_string())),
        }
    }
}
