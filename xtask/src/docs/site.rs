//! The site: mdBook over `docs/`, with a table of contents made from the folders and the pages' titles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::step::execute;
use crate::tools::{Tool, ensure_tool};
use crate::workspace::Workspace;

/// Built without its web server, which would double the build time.
const MDBOOK: Tool =
    Tool { name: "mdbook", version: "0.5.4", arguments: &["--no-default-features", "--features", "search"] };

/// Parts of the site: folder below `docs/` and title, in order.
const PARTS: [(&str, &str); 5] = [
    ("tutorial", "Tutorials"),
    ("how-to", "How-to guides"),
    ("reference", "Reference"),
    ("explanation", "Explanation"),
    ("explanation/decisions", "Decisions"),
];

const BOOK: &str =
    "[book]\ntitle = \"Gymkhana\"\nlanguage = \"en\"\nsrc = \"src\"\n\n[build]\ncreate-missing = false\n";

/// Builds the site in `out`.
pub fn build(workspace: &Workspace, out: &Path) -> anyhow::Result<()> {
    let mdbook = ensure_tool(&workspace.root, &MDBOOK)?;
    let book = workspace.target.join("book");
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("cannot remove `{}`", book.display()))?;
    }
    let mut pages = Vec::new();
    for file in workspace.files(&["docs/*"])? {
        let name = file.strip_prefix("docs").unwrap_or(&file).to_owned();
        let (from, to) = (workspace.root.join(&file), book.join("src").join(&name));
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(&from, &to).with_context(|| format!("cannot copy `{}`", file.display()))?;
        if name.extension().is_some_and(|extension| extension == "md") {
            pages.push((name, title(&fs::read_to_string(&from)?)));
        }
    }
    fs::write(book.join("book.toml"), BOOK)?;
    fs::write(book.join("src").join("SUMMARY.md"), summary(&pages))?;
    execute(Command::new(mdbook).arg("build").arg(&book).arg("--dest-dir").arg(out))
}

/// The first heading of a page.
fn title(text: &str) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("Untitled").trim().to_owned()
}

/// mdBook's table of contents for pages with their titles.
fn summary(pages: &[(PathBuf, String)]) -> String {
    let mut summary = "# Summary\n\n".to_owned();
    let lines = |folder: &str| -> String {
        let inside = pages.iter().filter(|(path, _)| path.parent() == Some(Path::new(folder)));
        inside.map(|(path, title)| format!("- [{title}]({})\n", path.display())).collect()
    };
    summary.push_str(&lines(""));
    for (folder, title) in PARTS {
        let lines = lines(folder);
        if !lines.is_empty() {
            summary.push_str(&format!("\n# {title}\n\n{lines}"));
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_a_part_for_each_folder() {
        let page = |path: &str, text: &str| (PathBuf::from(path), title(text));
        let pages = [
            page("explanation/decisions/001-a.md", "# 1. A\n"),
            page("how-to/b.md", "text\n# B\n# C\n"),
            page("index.md", "none"),
        ];
        assert_eq!(
            summary(&pages),
            "# Summary\n\n- [Untitled](index.md)\n\n# How-to guides\n\n- [B](how-to/b.md)\n\n# Decisions\n\n\
             - [1. A](explanation/decisions/001-a.md)\n"
        );
    }
}
