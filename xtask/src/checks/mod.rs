//! Checks of the repository that compile nothing but xtask, and the check of all dependencies.

pub mod arrows;
pub mod cycles;
pub mod deny;
pub mod features;
pub mod identifiers;
pub mod layout;
pub mod links;
pub mod locks;
pub mod manifests;
pub mod prose;
pub mod source;
pub mod type_names;
pub mod words;

use anyhow::bail;

/// Prints the findings of a check and fails if there are any.
pub fn report(findings: &[String], what: &str, hint: &str) -> anyhow::Result<()> {
    for finding in findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{what}: {} finding(s), listed above\nhint: {hint}", findings.len());
    }
    Ok(())
}
