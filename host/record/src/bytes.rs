//! Bytes in JSON: written as base64 (RFC 4648, section 4), read also as the lists of numbers of schema 6 and older.

use std::fmt;

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes bytes as base64 text.
///
/// # Errors
/// If the serializer fails.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(bytes, &STANDARD))
}

/// Reads base64 text or a list of numbers.
///
/// # Errors
/// If the text is not base64, or a number is not a byte.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_any(BytesVisitor)
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64 text or a list of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        STANDARD.decode(text).map_err(|error| E::custom(format!("invalid base64: {error}")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

/// Lists of names with bytes.
pub(crate) mod named {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    struct Borrowed<'a>(&'a str, #[serde(serialize_with = "super::serialize")] &'a [u8]);

    #[derive(Deserialize)]
    struct Owned(String, #[serde(deserialize_with = "super::deserialize")] Vec<u8>);

    pub(crate) fn serialize<S: Serializer>(list: &[(String, Vec<u8>)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|(name, bytes)| Borrowed(name, bytes)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Vec<u8>)>, D::Error> {
        let list = Vec::<Owned>::deserialize(deserializer)?;
        Ok(list.into_iter().map(|Owned(name, bytes)| (name, bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Media, Opening, Value};

    /// Test vectors of RFC 4648, section 10.
    #[test]
    fn bytes_are_base64_text() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            let media = Media { mime: "image/png".to_owned(), bytes: bytes.as_bytes().to_vec() };
            let written = json!({ "mime": "image/png", "bytes": text });
            assert_eq!(serde_json::to_value(&media).expect("JSON"), written);
            assert_eq!(serde_json::from_value::<Media>(written).expect("JSON"), media);
        }
        assert_eq!(serde_json::to_value(Value::Bytes(vec![0, 255])).expect("JSON"), json!({ "bytes": "AP8=" }));
    }

    #[test]
    fn lists_of_numbers_of_older_schemas_are_read() {
        let media: Media = serde_json::from_value(json!({ "mime": "a/b", "bytes": [0, 127, 255] })).expect("JSON");
        assert_eq!(media.bytes, [0, 127, 255]);
        let opening = json!({ "functions": [], "setup": [["shelf", [1, 2]], ["desk", "AwQ="]], "observations": [] });
        let opening: Opening = serde_json::from_value(opening).expect("JSON");
        assert_eq!(opening.setup, [("shelf".to_owned(), vec![1, 2]), ("desk".to_owned(), vec![3, 4])]);
    }

    #[test]
    fn other_texts_and_numbers_are_refused() {
        for wrong in [json!("Zg"), json!("Z g=="), json!([256]), json!([-1]), json!(7), json!(null)] {
            let media = json!({ "mime": "a/b", "bytes": wrong });
            assert!(serde_json::from_value::<Media>(media.clone()).is_err(), "{media}");
        }
    }
}
