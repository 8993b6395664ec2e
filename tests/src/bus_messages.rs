//! Messages of the bus between trainer, server and workers, written beside the protocol's own code in `host/workers`.

use gymkhana_registry::Digest;
use nkeys::KeyPair;
use serde_json::Value;

/// A key of a program on the bus, with the signatures of its protocol.
pub struct Key(KeyPair);

impl Key {
    /// A new key.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each key is another one")]
    pub fn new() -> Self {
        Self(KeyPair::new_user())
    }

    /// A signed message to this subject.
    ///
    /// # Panics
    /// If the key cannot sign.
    #[must_use]
    pub fn message(&self, subject: &str, header: &str, body: &[u8]) -> Vec<u8> {
        let digest = Digest::of(body).to_string();
        let signed = format!("gymkhana message 2\n{subject}\n{header}\n{digest}");
        let signature = self.0.sign(signed.as_bytes()).unwrap_or_else(|error| panic!("the key cannot sign: {error}"));
        let key = self.0.public_key();
        let (length, key) = ((header.len() as u32).to_le_bytes(), [&[key.len() as u8], key.as_bytes()].concat());
        [&length[..], header.as_bytes(), &key, &signature, body].concat()
    }
}

/// The body of a reply to this question, which the owner of the description signed.
///
/// # Panics
/// If the owner did not sign it, or the description has no key.
#[must_use]
pub fn read_reply(description: &Value, question: &[u8], reply: &[u8]) -> Vec<u8> {
    let key = description["key"].as_str().and_then(|key| KeyPair::from_public_key(key).ok());
    let key = key.unwrap_or_else(|| panic!("the description has no public key"));
    let (signature, body) = owner_parts(reply);
    let signed = format!("gymkhana statement 1\n{}\n{}", Digest::of(question), Digest::of(body));
    key.verify(signed.as_bytes(), signature).unwrap_or_else(|error| panic!("not the owner's reply: {error}"));
    body.to_vec()
}

/// The parts of a message of a trainer or server: signature and body.
///
/// # Panics
/// If it is shorter than a signature.
#[must_use]
pub fn owner_parts(message: &[u8]) -> (&[u8], &[u8]) {
    message.split_at(64)
}

/// The parts of a signed message of a worker: header and body.
///
/// # Panics
/// If it is shorter than it says.
#[must_use]
pub fn parts(message: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = message.split_first_chunk().unwrap_or_else(|| panic!("a message without a length"));
    let (header, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
    (header, &rest[1 + usize::from(rest[0]) + 64..])
}
