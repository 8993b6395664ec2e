//! Comparison of the shape of answers with recorded ones.

use serde_json::Value;

/// Checks that two values have the same keys with values of the same types; a list's last element represents the rest.
pub fn same_shape(found: &Value, recorded: &Value, place: &str) {
    match (found, recorded) {
        // Replies have several kinds of endings with different keys.
        (Value::Object(found), Value::Object(recorded)) if found.get("type") != recorded.get("type") => {}
        (Value::Object(found), Value::Object(recorded)) => {
            let free = recorded
                .keys()
                .chain(found.keys())
                .any(|key| key.starts_with("token_id:") || key.parse::<u32>().is_ok());
            for key in recorded.keys().chain(found.keys()).filter(|_| !free) {
                let (Some(found), Some(recorded)) = (found.get(key), recorded.get(key)) else {
                    panic!("only one of them has {place}/{key}");
                };
                same_shape(found, recorded, &format!("{place}/{key}"));
            }
        }
        (Value::Array(found), Value::Array(recorded)) => {
            if let (Some(found), Some(recorded)) = (found.last(), recorded.last()) {
                same_shape(found, recorded, &format!("{place}[]"));
            }
        }
        (Value::Null, _) | (_, Value::Null) => {}
        _ => assert_eq!(
            std::mem::discriminant(found),
            std::mem::discriminant(recorded),
            "{place}: {found} is of another kind than {recorded}"
        ),
    }
}
