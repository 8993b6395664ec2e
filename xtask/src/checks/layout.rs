//! Sizes of files and folders: source files of at most 500 lines, at most 14 Rust files flat in a source folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::report;
use crate::step::step;
use crate::workspace::Workspace;

/// Folders whose files are checked, with the file types, as patterns of git.
const FILES: [&str; 8] =
    ["host/*.rs", "registry/*.rs", "sdk/*.rs", "sdk/*.py", "sdk/*.mjs", "xtask/*.rs", "benches/*.rs", "studies/*.rs"];

/// Most lines of a file.
const LINES: usize = 500;
/// Most Rust files flat in a folder.
const FLAT: usize = 14;

/// Fails on files and folders that are too large.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("layout", || {
        let mut sizes = Vec::new();
        for file in workspace.files(&FILES)? {
            let text = std::fs::read_to_string(workspace.root.join(&file))
                .with_context(|| format!("cannot read `{}`", file.display()))?;
            sizes.push((file, text.lines().count()));
        }
        report(&check(&sizes), "layout", "split the file by idea, or group modules into folders")
    })
}

/// Findings for files with their numbers of lines.
fn check(sizes: &[(PathBuf, usize)]) -> Vec<String> {
    let long = sizes.iter().filter(|(_, lines)| *lines > LINES);
    let mut findings: Vec<String> =
        long.map(|(file, lines)| format!("{}: {lines} lines, at most {LINES}", file.display())).collect();
    let mut folders: BTreeMap<&Path, usize> = BTreeMap::new();
    for (file, _) in sizes {
        // Cargo wants integration tests flat, each a program of its own.
        let is_source = file.components().any(|part| part.as_os_str() == "src");
        if is_source && file.extension().is_some_and(|extension| extension == "rs") {
            *folders.entry(file.parent().unwrap_or(Path::new(""))).or_default() += 1;
        }
    }
    let full = folders.into_iter().filter(|(_, files)| *files > FLAT);
    findings
        .extend(full.map(|(folder, files)| format!("{}: {files} Rust files flat, at most {FLAT}", folder.display())));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_and_folders_are_named() {
        let flat =
            |folder: &str| (0..15).map(|file| (PathBuf::from(format!("{folder}/{file}.rs")), 1)).collect::<Vec<_>>();
        assert_eq!(check(&flat("host/cli/src/run")), ["host/cli/src/run: 15 Rust files flat, at most 14"]);
        assert_eq!(check(&flat("host/cli/tests")), Vec::<String>::new());
        assert_eq!(check(&flat("host/cli/src")[..14]), Vec::<String>::new());
        let sizes = [("sdk/a.py".into(), 501), ("sdk/b.py".into(), 500)];
        assert_eq!(check(&sizes), ["sdk/a.py: 501 lines, at most 500"]);
    }
}
