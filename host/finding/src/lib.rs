//! Results of checks, such as those of `host doctor`: name, status, text and hint.

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::borrow::Cow;
use std::fmt::Display;

use serde::Serialize;

/// Status of a finding, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    /// Nothing to do.
    Ok,
    /// Something works less well, or not at all, and the rest works.
    Warn,
    /// The checked thing does not work.
    Fail,
}

impl FindingStatus {
    /// The word of reports and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Result of a check.
///
/// ```
/// use gymkhana_finding::{Finding, FindingStatus};
///
/// let finding = Finding::warn("disk", "2 GiB free\nhint: delete old runs");
/// assert_eq!((finding.status, finding.hint.as_deref()), (FindingStatus::Warn, Some("delete old runs")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub check: Cow<'static, str>,
    /// Status.
    pub status: FindingStatus,
    /// Observation in one line.
    pub text: String,
    /// Usual range of an observed figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    /// A finding without a hint.
    #[must_use]
    pub fn ok(check: impl Into<Cow<'static, str>>, text: impl Display) -> Self {
        Self::new(check, FindingStatus::Ok, &text.to_string())
    }

    /// A warning. A line `hint: …` of the message becomes the hint.
    #[must_use]
    pub fn warn(check: impl Into<Cow<'static, str>>, message: impl Display) -> Self {
        Self::new(check, FindingStatus::Warn, &message.to_string())
    }

    /// A failure. A line `hint: …` of the message becomes the hint.
    #[must_use]
    pub fn fail(check: impl Into<Cow<'static, str>>, message: impl Display) -> Self {
        Self::new(check, FindingStatus::Fail, &message.to_string())
    }

    fn new(check: impl Into<Cow<'static, str>>, status: FindingStatus, message: &str) -> Self {
        let (text, hint) = match message.split_once("\nhint: ") {
            Some((text, hint)) => (text, Some(one_line(hint))),
            None => (message, None),
        };
        Self { check: check.into(), status, text: one_line(text), range: None, hint }
    }

    /// The finding with the usual range of its figure.
    #[must_use]
    pub fn with_range(self, range: impl Display) -> Self {
        Self { range: Some(one_line(&range.to_string())), ..self }
    }

    /// The finding in a line, and its hint in a second one.
    #[must_use]
    pub fn lines(&self) -> String {
        self.lines_with(8)
    }

    /// As [`lines`](Self::lines), with the name of the check in a column of `width` characters.
    #[must_use]
    pub fn lines_with(&self, width: usize) -> String {
        let line = format!("{:<4}  {:<width$}  {}", self.status.word(), self.check, self.observed());
        self.hint.iter().fold(line, |line, hint| format!("{line}\n{:indent$}hint: {hint}", "", indent = width + 8))
    }

    /// The observation, and the usual range.
    #[must_use]
    pub fn observed(&self) -> String {
        self.range.iter().fold(self.text.clone(), |text, range| format!("{text} (usual: {range})"))
    }
}

/// A message and its causes in one line.
fn one_line(text: &str) -> String {
    text.replace("\n  because: ", ": ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_split_into_a_line_and_its_hint() {
        let finding = Finding::fail("disk", "`x` cannot be read\n  because: no\n permission\nhint: run `chmod`");
        assert_eq!(finding.text, "`x` cannot be read: no permission");
        assert_eq!(
            finding.lines(),
            "fail  disk      `x` cannot be read: no permission\n                hint: run `chmod`"
        );
        assert_eq!(Finding::ok("registry", "`a`").lines(), "ok    registry  `a`");
    }

    #[test]
    fn a_range_follows_the_figure() {
        let finding = Finding::warn("cut", "50 %\nhint: raise it").with_range("at most 25 %");
        assert_eq!(finding.lines_with(4), "warn  cut   50 % (usual: at most 25 %)\n            hint: raise it");
        let json = serde_json::to_string(&finding).unwrap();
        let expected = r#"{"check":"cut","status":"warn","text":"50 %","range":"at most 25 %","hint":"raise it"}"#;
        assert_eq!(json, expected);
        assert!(!serde_json::to_string(&Finding::ok("a", "b")).unwrap().contains("range"));
    }
}
