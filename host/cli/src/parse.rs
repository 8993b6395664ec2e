//! Parsers of arguments that several commands take.

use std::net::SocketAddr;

/// Parses an address to listen on.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:9464".to_owned())
}

/// Parses a variable of a chat template: a value in JSON, or a text.
pub fn switch(text: &str) -> Result<(String, serde_json::Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as enable_thinking=false")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::String(value.to_owned()));
    Ok((name.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_switch_is_a_name_with_json_or_a_text() {
        for (text, name, value) in [
            ("enable_thinking=false", "enable_thinking", json!(false)),
            ("reasoning_effort=low", "reasoning_effort", json!("low")),
            ("date=1=2", "date", json!("1=2")),
            ("list=[1]", "list", json!([1])),
        ] {
            assert_eq!(switch(text), Ok((name.to_owned(), value)), "{text}");
        }
        assert!(switch("enable_thinking").is_err());
    }
}
