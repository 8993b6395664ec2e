//! Requests and answers about the places of a server's sessions: a signed header, and three parts that are in the message
//! or, if they are larger than a message, an object of the files bucket.

use bytes::Bytes;
use gymkhana_registry::Digest;
use gymkhana_serve::remote::PlaceId;
use serde::{Deserialize, Serialize};

use crate::bus::{Bus, Names};
use crate::objects::{self, GetError, PutError};
use crate::signature::{SignatureRefusal, Signer, WorkerKeys};
use crate::signed::{SignedMessage, decode_signed, encode_signed};

/// Largest parts of a message, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Header of a request or an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageHeader {
    /// Id of the worker.
    pub worker: String,
    pub place: PlaceId,
    /// Number of the request at its place.
    pub number: u64,
    /// Sizes of the parts.
    pub parts: [u64; 3],
    /// Digest of the parts, joined.
    pub digest: Digest,
    /// Whether the parts are an object.
    pub in_object: bool,
}

impl MessageHeader {
    /// Size of the parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(*part))
    }

    fn object_name(&self, direction: MessageDirection) -> String {
        let Self { worker, place, number, .. } = self;
        let word = match direction {
            MessageDirection::ToWorker => "request",
            MessageDirection::ToServer => "answer",
        };
        format!("{word}-{worker}-{place}-{number}")
    }
}

/// Direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageDirection {
    ToWorker,
    ToServer,
}

/// Reason why a message is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodecError {
    /// Its sender made it wrong.
    #[error("{0}")]
    Refused(String),
    /// It was damaged, or another program sent it.
    #[error("{0}")]
    Damaged(String),
    /// The bus is unreachable, or does not have its parts.
    #[error("{0}")]
    Unreachable(String),
}

impl From<SignatureRefusal> for CodecError {
    fn from(refusal: SignatureRefusal) -> Self {
        Self::Damaged(refusal.to_string())
    }
}

/// Parts of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts(pub [Bytes; 3]);

impl Parts {
    fn joined(&self) -> Bytes {
        self.0.concat().into()
    }

    /// Splits joined parts of these sizes.
    pub fn split(bytes: Vec<u8>, sizes: [u64; 3]) -> Option<Self> {
        let mut rest = Bytes::from(bytes);
        let mut parts = [const { Bytes::new() }; 3];
        for (part, size) in parts.iter_mut().zip(sizes) {
            let size = usize::try_from(size).ok().filter(|size| *size <= rest.len())?;
            *part = rest.split_to(size);
        }
        rest.is_empty().then_some(Self(parts))
    }
}

/// The end of the bus at which messages are written and read.
#[derive(Clone)]
pub(crate) struct MessageCodec {
    pub bus: Bus,
    pub names: Names,
    /// Signs what is written here.
    pub signer: Signer,
}

impl MessageCodec {
    /// The message with these parts; their object is stored first, if they need one.
    ///
    /// # Errors
    /// If the bus does not take the object.
    pub async fn pack(
        &self,
        direction: MessageDirection,
        (worker, place, number): (&str, PlaceId, u64),
        parts: &Parts,
    ) -> Result<Bytes, PutError> {
        let joined = parts.joined();
        let header = MessageHeader {
            worker: worker.to_owned(),
            place,
            number,
            parts: parts.0.each_ref().map(|part| part.len() as u64),
            digest: Digest::of(&joined),
            in_object: joined.len() > self.bus.most_bytes(),
        };
        let inline: &[u8] = if header.in_object {
            let name = header.object_name(direction);
            objects::put(&self.bus, &self.names.files_bucket(), &name, joined).await?;
            &[]
        } else {
            &joined
        };
        let message = encode_signed(&self.names.places(worker), &header, inline, &self.signer);
        message.map_err(|error| PutError::Refused(error.to_string()))
    }

    /// Header and body of a message, which came from or to this worker and is signed by one of the keys.
    ///
    /// # Errors
    /// If it is malformed, another worker's, too large, or not signed by one of the keys.
    pub fn header<'a>(
        &self,
        message: &'a [u8],
        worker: &str,
        keys: &WorkerKeys,
    ) -> Result<(MessageHeader, &'a [u8]), CodecError> {
        let malformed = || CodecError::Damaged("it is malformed".to_owned());
        let signed = decode_signed::<MessageHeader>(message).ok_or_else(malformed)?;
        signed.key(keys, &self.names.places(worker))?;
        let SignedMessage { header, body, .. } = signed;
        if header.worker != worker {
            return Err(CodecError::Refused("it sent a message of another worker".to_owned()));
        }
        if header.bytes() > MAX_BYTES {
            return Err(CodecError::Refused(format!("it sent a message of more than {MAX_BYTES} bytes")));
        }
        Ok((header, body))
    }

    /// Parts of a message with this header. Their object is removed.
    ///
    /// # Errors
    /// If they are not there, or not those of the header.
    pub async fn parts(
        &self,
        direction: MessageDirection,
        header: &MessageHeader,
        inline: &[u8],
    ) -> Result<Parts, CodecError> {
        let bytes = if header.in_object { self.fetch(direction, header).await? } else { inline.to_vec() };
        if Digest::of(&bytes) != header.digest {
            // The message is what its sender signed; others may write to the bucket.
            let why = "it sent a message that is not the one of its digest".to_owned();
            return Err(if header.in_object { CodecError::Damaged(why) } else { CodecError::Refused(why) });
        }
        let wrong = || CodecError::Refused("it sent a message of another size than it says".to_owned());
        Parts::split(bytes, header.parts).ok_or_else(wrong)
    }

    async fn fetch(&self, direction: MessageDirection, header: &MessageHeader) -> Result<Vec<u8>, CodecError> {
        let unreachable = |error: &dyn std::fmt::Display| CodecError::Unreachable(error.to_string());
        let store = self.bus.jetstream.get_object_store(self.names.files_bucket()).await;
        let store = store.map_err(|error| unreachable(&error))?;
        let name = header.object_name(direction);
        let bytes = objects::get(&store, &name, header.bytes()).await.map_err(|error: GetError| unreachable(&error))?;
        // What stays there ends with the server.
        let _ = store.delete(&name).await;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_split_where_they_were_joined() {
        let parts = Parts([Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")]);
        let joined = parts.joined().to_vec();
        assert_eq!(Parts::split(joined.clone(), [2, 0, 1]), Some(parts));
        for sizes in [[2, 0, 2], [2, 0, 0], [u64::MAX, 0, 1], [4, 0, 0]] {
            assert_eq!(Parts::split(joined.clone(), sizes), None, "{sizes:?}");
        }
    }

    #[test]
    fn sizes_do_not_overflow() {
        let header = MessageHeader {
            worker: "w".to_owned(),
            place: PlaceId(1),
            number: 0,
            parts: [u64::MAX; 3],
            digest: Digest::of(b""),
            in_object: true,
        };
        assert_eq!(header.bytes(), u64::MAX);
    }
}
