//! `release VERSION`: sets the version in all manifests and dates the changelog's section.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use semver::Version;
use toml_edit::{DocumentMut, Item, value};

use crate::step::{UserError, cargo, execute, output_of, step};
use crate::workspace::Workspace;

const UNRELEASED: &str = "## [Unreleased]";

/// Files with the version.
const MANIFEST: &str = "Cargo.toml";
const PYTHON: &str = "sdk/python/pyproject.toml";
const JS: [&str; 2] = ["sdk/js/package.json", "sdk/js/package-lock.json"];
const CHANGELOG: &str = "CHANGELOG.md";

/// Writes the version and the changelog; with `dry_run`, prints the names of the files only.
pub fn run(workspace: &Workspace, version: &Version, dry_run: bool) -> anyhow::Result<()> {
    step(&format!("release {version}"), || {
        let mut git = Command::new("git");
        let changes = output_of(git.args(["status", "--porcelain"]).current_dir(&workspace.root));
        let changes = changes.context("`git status` failed")?;
        if !changes.is_empty() && !dry_run {
            let message = format!("cannot release {version}: the working tree has changes\nhint: commit or stash them");
            return Err(UserError(message).into());
        }
        let today = output_of(Command::new("date").args(["-u", "+%Y-%m-%d"])).context("`date` failed")?;
        for (file, text) in changed(workspace, version, &today)? {
            eprintln!("    {}", file.display());
            if !dry_run {
                let path = workspace.root.join(&file);
                std::fs::write(&path, text).with_context(|| format!("cannot write `{}`", file.display()))?;
            }
        }
        if dry_run {
            return Ok(());
        }
        execute(cargo().args(["update", "--workspace", "--offline"]).current_dir(&workspace.root))?;
        eprintln!("    next: review, commit as `release: {version}`, tag `v{version}` (docs/how-to/release.md)");
        Ok(())
    })
}

/// All files that change, with their new text.
fn changed(workspace: &Workspace, version: &Version, today: &str) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let edited = |file: &str, edit: &dyn Fn(&str) -> anyhow::Result<String>| {
        let text =
            std::fs::read_to_string(workspace.root.join(file)).with_context(|| format!("cannot read `{file}`"))?;
        let text = edit(&text).with_context(|| format!("cannot change `{file}`"))?;
        anyhow::Ok((PathBuf::from(file), text))
    };
    let mut files = vec![
        edited(MANIFEST, &|text| in_workspace(text, version))?,
        edited(PYTHON, &|text| in_pyproject(text, version))?,
        edited(CHANGELOG, &|text| in_changelog(text, version, today))?,
    ];
    for file in JS {
        files.push(edited(file, &|text| in_package_json(text, version))?);
    }
    Ok(files)
}

/// Sets the version of all crates, and that of the requirements of published crates on each other.
fn in_workspace(text: &str, version: &Version) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse()?;
    let package = document["workspace"]["package"].as_table_like_mut().context("no [workspace.package]")?;
    check_newer(package.get("version"), version)?;
    set(package.get_mut("version"), version)?;
    let dependencies = document["workspace"]["dependencies"].as_table_like_mut().context("no dependencies")?;
    for (_, dependency) in dependencies.iter_mut() {
        let Some(dependency) = dependency.as_table_like_mut().filter(|table| table.contains_key("path")) else {
            continue;
        };
        if dependency.contains_key("version") {
            set(dependency.get_mut("version"), version)?;
        }
    }
    Ok(document.to_string())
}

fn in_pyproject(text: &str, version: &Version) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse()?;
    set(document["project"].get_mut("version"), version)?;
    Ok(document.to_string())
}

fn check_newer(old: Option<&Item>, version: &Version) -> anyhow::Result<()> {
    let old = Version::parse(old.and_then(Item::as_str).context("no version")?)?;
    if *version <= old {
        let message = format!("cannot release {version}: the current version is {old}\nhint: pass a newer version");
        return Err(UserError(message).into());
    }
    Ok(())
}

fn set(item: Option<&mut Item>, version: &Version) -> anyhow::Result<()> {
    let item = item.context("no key `version`")?;
    // Keeps the comment after the value.
    let decor = item.as_value().map(|value| value.decor().clone());
    *item = value(version.to_string());
    if let (Some(new), Some(decor)) = (item.as_value_mut(), decor) {
        *new.decor_mut() = decor;
    }
    Ok(())
}

/// Sets the version at the top, and in a lock that of the root package.
fn in_package_json(text: &str, version: &Version) -> anyhow::Result<String> {
    let json: serde_json::Value = serde_json::from_str(text)?;
    let old = json["version"].as_str().context("no key `version`")?;
    let root = json["packages"][""]["version"].as_str();
    anyhow::ensure!(root.is_none_or(|root| root == old), "the root package has another version");
    // Replaces in the text, so that its form stays.
    let wanted = format!("\"version\": \"{old}\"");
    let count = 1 + usize::from(root.is_some());
    Ok(text.replacen(&wanted, &format!("\"version\": \"{version}\""), count))
}

/// Moves the section of unreleased changes under the version and opens a new one.
fn in_changelog(text: &str, version: &Version, today: &str) -> anyhow::Result<String> {
    let (before, after) = text.split_once(UNRELEASED).with_context(|| format!("no section `{UNRELEASED}`"))?;
    let section = after.split("\n## ").next().unwrap_or_default();
    if section.trim().is_empty() {
        bail!("the section `{UNRELEASED}` is empty");
    }
    Ok(format!("{before}{UNRELEASED}\n\n## [{version}] - {today}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Version {
        Version::new(0, 2, 0)
    }

    #[test]
    fn manifests_change_in_the_version_only() {
        let manifest = "[workspace.package]\nversion = \"0.1.0\"  # all crates\n\n[workspace.dependencies]\n\
                        a = { path = \"a\", version = \"0.1.0\" }\nb = { path = \"b\" }\nserde = { version = \"1\" }\n";
        let changed = in_workspace(manifest, &version()).unwrap();
        assert_eq!(changed, manifest.replace("0.1.0", "0.2.0"));
        assert!(in_workspace(&changed, &version()).unwrap_err().is::<UserError>(), "not newer");
        let pyproject = "[project]\nname = \"x\"\nversion = \"0.1.0\"\n\n[tool.x]\nversion = \"0.1.0\"\n";
        assert_eq!(in_pyproject(pyproject, &version()).unwrap(), pyproject.replacen("0.1.0", "0.2.0", 1));
        let package = "{\n  \"version\": \"0.1.0\",\n  \"dependencies\": { \"version\": \"0.1.0\" }\n}\n";
        assert_eq!(in_package_json(package, &version()).unwrap(), package.replacen("0.1.0", "0.2.0", 1));
        let lock = "{\n  \"version\": \"0.1.0\",\n  \"packages\": { \"\": { \"version\": \"0.1.0\" } }\n}\n";
        assert_eq!(in_package_json(lock, &version()).unwrap(), lock.replace("0.1.0", "0.2.0"));
    }

    #[test]
    fn the_changelogs_section_is_dated() {
        let text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- x\n\n## [0.1.0] - 2025-01-01\n\n- y\n";
        let wanted = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- x\n\n## [0.1.0] - 2025-01-01\n\n- y\n";
        assert_eq!(in_changelog(text, &version(), "2026-01-02").unwrap(), wanted);
        assert!(in_changelog(wanted, &version(), "2026-01-02").is_err(), "an empty section");
        assert!(in_changelog("# Changelog\n", &version(), "2026-01-02").is_err());
    }
}
