//! Signed messages with a header and a body: results of groups, policy calls, heartbeats, and requests and answers about
//! sessions.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::signature::{MessageSignature, SignatureRefusal, Signer, WorkerKeys};

/// Longest header, in bytes.
pub(crate) const MAX_HEADER_BYTES: usize = 64 << 10;

/// A message to this subject: the length of its header (u32, little-endian), the header, the length of the public key (u8; 0
/// without a signature), the key, the signature, the body.
pub(crate) fn encode_signed(
    subject: &str,
    header: &impl Serialize,
    body: &[u8],
    signer: &Signer,
) -> Result<Bytes, serde_json::Error> {
    let header = serde_json::to_vec(header)?;
    let signature = signer.sign(subject, &header, body);
    let mut message = Vec::with_capacity(4 + header.len() + 1 + 128 + body.len());
    message.extend((header.len() as u32).to_le_bytes());
    message.extend(header);
    match signature.and_then(|signature| Some((u8::try_from(signature.key.len()).ok()?, signature))) {
        None => message.push(0),
        Some((length, MessageSignature { key, bytes })) => {
            message.push(length);
            message.extend(key.as_bytes());
            message.extend(bytes);
        }
    }
    message.extend(body);
    Ok(message.into())
}

/// A message as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SignedMessage<'a, H> {
    pub header: H,
    /// The header as it was sent.
    pub text: &'a [u8],
    pub signature: Option<MessageSignature>,
    pub body: &'a [u8],
}

impl<H> SignedMessage<'_, H> {
    /// The key that signed the message for this subject.
    ///
    /// # Errors
    /// If the keys do not take it.
    pub fn key(&self, keys: &WorkerKeys, subject: &str) -> Result<&str, SignatureRefusal> {
        keys.check(subject, (self.text, self.body), self.signature.as_ref())
    }
}

/// Parts of a message. A header of more than [`MAX_HEADER_BYTES`] is not parsed.
pub(crate) fn decode_signed<H: DeserializeOwned>(message: &[u8]) -> Option<SignedMessage<'_, H>> {
    let (length, rest) = message.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let (text, rest) = rest.split_at_checked(length).filter(|_| length <= MAX_HEADER_BYTES)?;
    let (length, rest) = rest.split_first()?;
    let (signature, body) = match length {
        0 => (None, rest),
        length => {
            let (key, rest) = rest.split_at_checked(usize::from(*length))?;
            let (bytes, body) = rest.split_first_chunk()?;
            (Some(MessageSignature { key: std::str::from_utf8(key).ok()?.to_owned(), bytes: *bytes }), body)
        }
    };
    Some(SignedMessage { header: serde_json::from_slice(text).ok()?, text, signature, body })
}

#[cfg(test)]
mod tests {
    use gymkhana_registry::Digest;

    use super::*;
    use crate::description::Versions;
    use crate::messages::{JobEnd, ResultHeader};

    #[test]
    fn messages_are_split_where_they_were_joined() {
        let header = ResultHeader {
            worker: "w".to_owned(),
            versions: Versions::own(),
            lock: Digest::of(b"lock"),
            job: 7,
            delivery: 2,
            end: JobEnd::Fault("why".to_owned()),
            failed_forks: (1, "why".to_owned()),
            records: Digest::of(b"records"),
            object: None,
        };
        let (signer, keys) = (Signer::temporary(), WorkerKeys::default());
        let message = encode_signed("results", &header, b"records", &signer).unwrap();
        let offered = decode_signed::<ResultHeader>(&message).unwrap();
        assert_eq!((&offered.header, offered.body), (&header, &b"records"[..]));
        assert_eq!(offered.text, serde_json::to_vec(&header).unwrap());
        assert_eq!(offered.key(&keys, "results"), Ok(&signer.public_key()[..]));
        assert_eq!(offered.key(&keys, "policy"), Err(SignatureRefusal::Wrong));
        for cut in [0, 3, 10, offered.text.len() + 4] {
            assert_eq!(decode_signed::<ResultHeader>(&message[..cut]), None, "{cut}");
        }
        for place in 0..message.len() {
            let mut flipped = message.to_vec();
            flipped[place] ^= 1;
            let found = decode_signed::<ResultHeader>(&flipped);
            assert!(found.is_none_or(|found| found.key(&keys, "results").is_err()), "byte {place}");
        }
        let long = ResultHeader { end: JobEnd::Failed("why".repeat(MAX_HEADER_BYTES / 3)), ..header };
        let message = encode_signed("results", &long, b"records", &signer).unwrap();
        assert_eq!(decode_signed::<ResultHeader>(&message), None, "a long header");
    }
}
