//! Display of an error together with its causes.

use std::error::Error;
use std::fmt;

/// Displays an error and its causes: the messages joined by `: `, then the hints, one `hint: …` line each.
///
/// Each error's own text has the form `message` or `message\nhint: …`. A cause whose message the preceding text already
/// contains is skipped.
#[derive(Debug, Clone, Copy)]
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut message = String::new();
        let mut hints: Vec<String> = Vec::new();
        let mut next = Some(self.0);
        while let Some(error) = next {
            next = error.source();
            let text = error.to_string();
            let (own, rest) = text.split_once("\nhint: ").unwrap_or((&text, ""));
            if !message.contains(own) {
                let separator = if message.is_empty() { "" } else { ": " };
                message = format!("{message}{separator}{}", own.trim_end());
            }
            hints.extend(rest.split("\nhint: ").filter(|hint| !hint.is_empty()).map(str::to_owned));
        }
        f.write_str(&message)?;
        hints.dedup();
        hints.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read `a`\nhint: check permissions")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("the file is empty\nhint: write it again")]
    struct Inner(#[source] std::io::Error);

    #[test]
    fn messages_come_before_hints() {
        let error = Outer(Inner(std::io::Error::other("cut off")));
        let text = "cannot read `a`: the file is empty: cut off\nhint: check permissions\nhint: write it again";
        assert_eq!(ErrorChain(&error).to_string(), text);
    }

    #[test]
    fn repeated_messages_are_shown_once() {
        let error = std::io::Error::other(std::io::Error::other("cut off"));
        assert_eq!(ErrorChain(&error).to_string(), "cut off");
    }
}
