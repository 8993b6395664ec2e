//! The site: mdBook over `docs/`, the studies and the guides of the repository, with a table of contents made from the
//! folders and the pages' titles, and the API documentation beside it.

mod api;
mod built;
mod rewrite;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

pub use api::Api;

use crate::step::execute;
use crate::tools::{Tool, ensure_tool};
use crate::workspace::Workspace;

/// Built without its web server, which would double the build time.
const MDBOOK: Tool =
    Tool { name: "mdbook", version: "0.5.4", arguments: &["--no-default-features", "--features", "search"] };

/// Files of the site, as patterns of git. Folders below `studies` hold plots and their data.
const FILES: [&str; 3] = ["docs/*", "studies/*.md", "studies/plots/*.svg"];

/// Further pages: path in the repository and in the site.
const REPOSITORY: [(&str, &str); 8] = [
    ("README.md", "repository/index.md"),
    ("ARCHITECTURE.md", "repository/architecture.md"),
    ("AGENTS.md", "repository/agents.md"),
    ("CONTRIBUTING.md", "repository/contributing.md"),
    ("CHANGELOG.md", "repository/changelog.md"),
    ("SECURITY.md", "repository/security.md"),
    ("CODE_OF_CONDUCT.md", "repository/code-of-conduct.md"),
    ("benches/README.md", "repository/benches.md"),
];

/// Parts of the site in their order: folder and title. A page directly in the site's folder precedes all parts.
const PARTS: [(&str, &str); 8] = [
    ("tutorial", "Tutorials"),
    ("how-to", "How-to guides"),
    ("how-to/python", "Python libraries"),
    ("reference", "Reference"),
    ("explanation", "Explanation"),
    ("explanation/decisions", "Decisions"),
    ("studies", "Studies"),
    ("repository", "Repository"),
];

/// Settings of mdBook. The theme follows the system's colour scheme until a reader chooses one. The page for printing would
/// hold each page a second time, with other links, and runnable code asks a server.
const BOOK: &str = r#"[book]
title = "Gymkhana"
language = "en"
src = "src"

[build]
create-missing = false

[output.html]
input-404 = ""
default-theme = "light"
preferred-dark-theme = "navy"
additional-css = ["site.css"]

[output.html.fold]
enable = true

[output.html.playground]
runnable = false

[output.html.print]
enable = false
"#;

/// Styles on top of mdBook's: narrow screens, and contrasts.
const STYLES: &str = include_str!("site.css");

/// Paths of the site's files, by their paths in the repository.
type Files = BTreeMap<PathBuf, PathBuf>;

/// Builds the site in `out` and checks its links.
pub fn build(workspace: &Workspace, api: &Api<'_>, out: &Path) -> anyhow::Result<()> {
    let mdbook = ensure_tool(&workspace.root, &MDBOOK)?;
    let book = workspace.target.join("book");
    for folder in [&book, out] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
        }
    }
    let files = files(workspace)?;
    let mut pages = Vec::new();
    for (from, to) in &files {
        let (source, copy) = (workspace.root.join(from), book.join("src").join(to));
        copy.parent().map_or(Ok(()), fs::create_dir_all)?;
        if is_page(to) {
            let text = fs::read_to_string(&source).with_context(|| format!("cannot read `{}`", source.display()))?;
            fs::write(&copy, rewrite::links(&text, from, &files)?)?;
            pages.push((to.clone(), title(&text)));
        } else {
            fs::copy(&source, &copy).with_context(|| format!("cannot copy `{}`", source.display()))?;
        }
    }
    let (place, text) = api.page();
    fs::write(book.join("src").join(&place), &text)?;
    pages.push((place, title(&text)));
    fs::write(book.join("book.toml"), BOOK)?;
    fs::write(book.join("site.css"), STYLES)?;
    fs::write(book.join("src").join("SUMMARY.md"), summary(pages)?)?;
    execute(Command::new(mdbook).arg("build").arg(&book).arg("--dest-dir").arg(out))?;
    api.copy(out)?;
    built::check(out, Path::new(api::FOLDER))
}

fn files(workspace: &Workspace) -> anyhow::Result<Files> {
    let listed = workspace.files(&FILES)?.into_iter().map(|file| {
        let place = place(&file);
        (file, place)
    });
    let repository = REPOSITORY.map(|(file, place)| (PathBuf::from(file), PathBuf::from(place)));
    Ok(listed.chain(repository).collect())
}

/// Path in the site of a file of `FILES`.
fn place(file: &Path) -> PathBuf {
    let inside = file.strip_prefix("docs").unwrap_or(file);
    if inside.ends_with("README.md") { inside.with_file_name("index.md") } else { inside.to_owned() }
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

/// The first heading of a page.
fn title(text: &str) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("Untitled").trim().to_owned()
}

/// mdBook's table of contents for pages with their titles. In each folder, `index.md` comes first.
///
/// # Errors
/// If a page is in a folder that no part has: mdBook would leave it out without a word.
fn summary(mut pages: Vec<(PathBuf, String)>) -> anyhow::Result<String> {
    pages.sort_by_key(|(path, _)| (!path.ends_with("index.md"), path.clone()));
    let folder_of = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
    let is_part = |folder: &Path| folder == Path::new("") || PARTS.iter().any(|(part, _)| folder == Path::new(part));
    if let Some((stray, _)) = pages.iter().find(|(path, _)| !is_part(&folder_of(path))) {
        bail!("page `{}` is in no part of the site\nhint: add its folder to PARTS", stray.display());
    }
    let lines = |folder: &str| -> String {
        let inside = pages.iter().filter(|(path, _)| folder_of(path) == Path::new(folder));
        inside.map(|(path, title)| format!("- [{title}]({})\n", path.display())).collect()
    };
    let mut summary = "# Summary\n\n".to_owned() + &lines("");
    for (folder, title) in PARTS {
        let lines = lines(folder);
        if !lines.is_empty() {
            summary.push_str(&format!("\n# {title}\n\n{lines}"));
        }
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> (PathBuf, String) {
        (PathBuf::from(path), title(text))
    }

    #[test]
    fn the_summary_has_a_part_for_each_folder() {
        let pages = vec![
            page("explanation/decisions/001-a.md", "# 1. A\n"),
            page("explanation/decisions/index.md", "# All\n"),
            page("how-to/b.md", "text\n# B\n# C\n"),
            page("how-to/python/d.md", "# D\n"),
            page("index.md", "none"),
        ];
        assert_eq!(
            summary(pages).expect("every page has a part"),
            "# Summary\n\n- [Untitled](index.md)\n\n# How-to guides\n\n- [B](how-to/b.md)\n\n# Python libraries\n\n\
             - [D](how-to/python/d.md)\n\n# Decisions\n\n- [All](explanation/decisions/index.md)\n\
             - [1. A](explanation/decisions/001-a.md)\n"
        );
    }

    #[test]
    fn a_page_outside_of_every_part_is_an_error() {
        let error = summary(vec![page("index.md", "# A"), page("how-to/rust/x.md", "# B")]).expect_err("no such part");
        assert!(error.to_string().contains("`how-to/rust/x.md`"), "{error}");
    }

    #[test]
    fn pages_of_the_repository_have_their_place() {
        for (file, expected) in [
            ("docs/index.md", "index.md"),
            ("docs/explanation/decisions/README.md", "explanation/decisions/index.md"),
            ("studies/README.md", "studies/index.md"),
            ("studies/plots/toy.svg", "studies/plots/toy.svg"),
        ] {
            assert_eq!(place(Path::new(file)), Path::new(expected));
        }
    }
}
