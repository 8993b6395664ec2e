//! Result of a check, with a remedy.

use std::fmt::Display;

use serde::Serialize;

/// Grade of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingGrade {
    /// Nothing to do.
    Ok,
    /// Some commands do not work, or work less well.
    Warn,
    /// Most commands do not work.
    Fail,
}

/// Result of a check.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// Name of the check.
    pub check: &'static str,
    /// Grade.
    pub status: FindingGrade,
    /// Observation in one line.
    pub text: String,
    /// Remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl DoctorFinding {
    /// A finding without a remedy.
    pub fn ok(check: &'static str, text: impl Display) -> Self {
        Self::new(check, FindingGrade::Ok, &text.to_string())
    }

    /// A warning. A line `hint: …` of the message becomes the remedy.
    pub fn warn(check: &'static str, message: impl Display) -> Self {
        Self::new(check, FindingGrade::Warn, &message.to_string())
    }

    /// A failure. A line `hint: …` of the message becomes the remedy.
    pub fn fail(check: &'static str, message: impl Display) -> Self {
        Self::new(check, FindingGrade::Fail, &message.to_string())
    }

    fn new(check: &'static str, status: FindingGrade, message: &str) -> Self {
        let (text, hint) = match message.split_once("\nhint: ") {
            Some((text, hint)) => (text, Some(one_line(hint))),
            None => (message, None),
        };
        Self { check, status, text: one_line(text), hint }
    }

    /// The finding in a line, and its remedy in a second one.
    pub fn lines(&self) -> String {
        let status = match self.status {
            FindingGrade::Ok => "ok",
            FindingGrade::Warn => "warn",
            FindingGrade::Fail => "fail",
        };
        let line = format!("{status:<4}  {:<8}  {}", self.check, self.text);
        self.hint.iter().fold(line, |line, hint| format!("{line}\n{:16}hint: {hint}", ""))
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
    fn a_message_is_split_into_a_line_and_its_remedy() {
        let finding = DoctorFinding::fail("disk", "`x` cannot be read\n  because: no\n permission\nhint: run `chmod`");
        assert_eq!(finding.text, "`x` cannot be read: no permission");
        assert_eq!(
            finding.lines(),
            "fail  disk      `x` cannot be read: no permission\n                hint: run `chmod`"
        );
        assert_eq!(DoctorFinding::ok("registry", "`a`").lines(), "ok    registry  `a`");
    }
}
