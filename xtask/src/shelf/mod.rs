//! `shelf`: the reference page of all first-party plugins, from what their components answer and from one example each.
//!
//! It uses what `cargo xtask setup` and `cargo xtask plugins` have built.

mod example;
mod host;
mod page;
mod runs;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::first_party::{self, FirstParty};
use crate::step::{UserError, step};
use crate::workspace::Workspace;
use example::Shown;
use host::Host;

/// The page, relative to the repository.
pub const PAGE: &str = "docs/reference/plugins.md";

/// Everything that the page says about one plugin.
struct Entry {
    plugin: FirstParty,
    /// Answers of `host plugin inspect --json`.
    inspected: Value,
    example: Option<Shown>,
    /// Run files of the repository that name the plugin.
    runs: Vec<String>,
}

/// Writes the page, or with `check` fails if it differs from the plugins.
pub fn run(workspace: &Workspace, check: bool) -> anyhow::Result<()> {
    step("plugins page", || {
        let text = page::text(&entries(workspace)?)?;
        let path = workspace.root.join(PAGE);
        if !check {
            return fs::write(&path, text).with_context(|| format!("cannot write `{PAGE}`"));
        }
        compare(&path, &text)
    })
}

fn compare(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    bail!("`{PAGE}` is stale: it differs from the plugins\nhint: run `cargo xtask shelf`")
}

fn entries(workspace: &Workspace) -> anyhow::Result<Vec<Entry>> {
    let plugins = first_party::all(workspace)?;
    if let Some(missing) = plugins.iter().find(|plugin| !workspace.component(&plugin.name).exists()) {
        let message = format!(
            "plugin `{}` is not built\nhint: run `cargo xtask setup`, and `cargo xtask plugins` for those in Python",
            missing.name
        );
        return Err(UserError(message).into());
    }
    let runs = runs::read(workspace)?;
    let host = Host::new(workspace)?;
    let entry = |plugin: &FirstParty| -> anyhow::Result<Entry> {
        let cannot = || format!("cannot describe `{}`", plugin.name);
        Ok(Entry {
            inspected: host.inspect(plugin, &plugins).with_context(cannot)?,
            example: example::show(&host, plugin, &plugins).with_context(cannot)?,
            runs: runs::naming(&runs, &plugin.name),
            plugin: plugin.clone(),
        })
    };
    plugins.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_differs_is_stale() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plugins.md");
        let error = compare(&path, "a").expect_err("it is missing").to_string();
        assert!(error.ends_with("is stale: it differs from the plugins\nhint: run `cargo xtask shelf`"), "{error}");
        fs::write(&path, "a").expect("written");
        compare(&path, "a").expect("equal");
        compare(&path, "b").expect_err("it differs");
    }
}
