//! Run files of the repository, and which of them use a plugin.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context as _;
use toml_edit::{DocumentMut, Item};

use crate::workspace::Workspace;

/// Folders with run files, as patterns of git: examples of plugins before those of workflows.
const FOLDERS: [&str; 2] = ["examples/runs/*.toml", "examples/workflows/*.toml"];
/// Most run files that the page names for a plugin.
const MOST: usize = 3;

/// A run file and the names of its plugins.
pub struct RunFile {
    path: String,
    plugins: BTreeSet<String>,
}

/// Reads all example run files.
pub fn read(workspace: &Workspace) -> anyhow::Result<Vec<RunFile>> {
    let mut found = Vec::new();
    for pattern in FOLDERS {
        for file in workspace.files(&[pattern])? {
            let path = file.display().to_string();
            let text =
                fs::read_to_string(workspace.root.join(&file)).with_context(|| format!("cannot read `{path}`"))?;
            let parsed: DocumentMut = text.parse().with_context(|| format!("`{path}` is not TOML"))?;
            found.push(RunFile { path, plugins: plugins(&parsed) });
        }
    }
    Ok(found)
}

/// Paths of the first run files that use a plugin.
pub fn naming(runs: &[RunFile], plugin: &str) -> Vec<String> {
    let naming = runs.iter().filter(|run| run.plugins.contains(plugin));
    naming.take(MOST).map(|run| run.path.clone()).collect()
}

/// Names below `[plugins]`.
pub fn plugins(file: &DocumentMut) -> BTreeSet<String> {
    let sections = file.get("plugins").and_then(Item::as_table_like);
    sections.into_iter().flat_map(|table| table.iter().map(|(name, _)| name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_found_in_the_run_files_that_name_it() {
        let run =
            |path: &str, text: &str| RunFile { path: path.to_owned(), plugins: plugins(&text.parse().expect("TOML")) };
        let runs = [
            run("a", "[plugins]\none = \"^0.1\"\n[plugins.two]\nuse = \"^0.1\""),
            run("b", "seed = 1"),
            run("c", "plugins.two.use = \"off\""),
            run("d", "plugins.two.use = \"^0.1\""),
            run("e", "plugins.two.use = \"^0.1\""),
        ];
        assert_eq!(naming(&runs, "one"), ["a"]);
        assert_eq!(naming(&runs, "two"), ["a", "c", "d"]);
        assert_eq!(naming(&runs, "three"), Vec::<String>::new());
    }
}
