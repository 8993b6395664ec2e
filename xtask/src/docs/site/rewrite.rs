//! Links of a page for the site: to the places of other pages, and as plain text where the site has no such page.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use pulldown_cmark::{Event, Options, Parser, Tag};

use super::Files;
use crate::checks::links::{is_absolute, resolve};

/// The text of the page `file` of the repository with its relative links changed for the site.
///
/// A link to a source file or folder becomes its label, followed by the path unless the label names it.
///
/// # Errors
/// If an image is not among the files, or a relative link is not written as `[label](path)`.
pub fn links(text: &str, file: &Path, files: &Files) -> anyhow::Result<String> {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = &event else { continue };
        if is_absolute(dest_url) || dest_url.starts_with('#') {
            continue;
        }
        let is_image = matches!(event, Event::Start(Tag::Image { .. }));
        let edit = edit(&text[range.clone()], dest_url, is_image, file, files);
        edits.push((range, edit.with_context(|| format!("`{}`", file.display()))?));
    }
    let mut rewritten = text.to_owned();
    for (range, edit) in edits.into_iter().rev() {
        rewritten.replace_range(range, &edit);
    }
    Ok(rewritten)
}

/// The replacement of one link, `source`, to `destination`.
fn edit(source: &str, destination: &str, is_image: bool, file: &Path, files: &Files) -> anyhow::Result<String> {
    let (path, fragment) = destination.split_at(destination.find('#').unwrap_or(destination.len()));
    let target = resolve(file, path).with_context(|| format!("link `{destination}` leaves the repository"))?;
    let inline = format!("]({destination})");
    let Some(label) = source.strip_suffix(&inline) else {
        bail!("link `{source}` cannot be changed for the site\nhint: write it as [label](path)");
    };
    match files.get(&target).or_else(|| files.get(&target.join("README.md"))) {
        Some(place) => {
            let here = files.get(file).context("the page is not in the site")?;
            Ok(format!("{label}]({}{fragment})", relative(here, place).display()))
        }
        None if is_image => bail!("image `{destination}` is not in the site\nhint: add its folder to FILES"),
        None => {
            let label = label.trim_start_matches('[');
            let target = target.display().to_string();
            Ok(if label.contains(&target) { label.to_owned() } else { format!("{label} (`{target}`)") })
        }
    }
}

/// Path from the page `from` to the file `to`.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let folder: Vec<Component<'_>> = from.parent().map(|folder| folder.components().collect()).unwrap_or_default();
    let to: Vec<Component<'_>> = to.components().collect();
    let shared = folder.iter().zip(&to).take_while(|(left, right)| left == right).count();
    let up = folder[shared..].iter().map(|_| Component::ParentDir);
    up.chain(to[shared..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        [
            ("docs/index.md", "index.md"),
            ("docs/how-to/a.md", "how-to/a.md"),
            ("docs/how-to/python/b.md", "how-to/python/b.md"),
            ("docs/reference/schema.json", "reference/schema.json"),
            ("studies/README.md", "studies/index.md"),
            ("studies/plots/p.svg", "studies/plots/p.svg"),
            ("ARCHITECTURE.md", "repository/architecture.md"),
        ]
        .map(|(file, place)| (file.into(), place.into()))
        .into()
    }

    fn rewritten(text: &str, file: &str) -> String {
        links(text, Path::new(file), &files()).expect("links that can be changed")
    }

    #[test]
    fn links_lead_to_the_places_of_pages() {
        for (file, link, expected) in [
            ("docs/how-to/a.md", "[up](../index.md#x)", "[up](../index.md#x)"),
            ("docs/how-to/a.md", "[b](python/b.md)", "[b](python/b.md)"),
            ("docs/how-to/python/b.md", "[`s`](../../reference/schema.json)", "[`s`](../../reference/schema.json)"),
            ("docs/how-to/a.md", "[out](../../ARCHITECTURE.md)", "[out](../repository/architecture.md)"),
            ("docs/index.md", "[studies](../studies)", "[studies](studies/index.md)"),
            ("ARCHITECTURE.md", "[a](docs/how-to/a.md)", "[a](../how-to/a.md)"),
            ("studies/README.md", "![p](plots/p.svg)", "![p](plots/p.svg)"),
            ("docs/index.md", "[web](https://x.org) [here](#y) `[c](d)`", "[web](https://x.org) [here](#y) `[c](d)`"),
        ] {
            assert_eq!(rewritten(link, file), expected);
        }
    }

    #[test]
    fn links_to_sources_become_text() {
        let text = "All [presets](../../presets), the [`wit/tool.wit`](../../wit/tool.wit)\nand [b](python/b.md).\n";
        assert_eq!(rewritten(text, "docs/how-to/a.md"), "All presets, the `wit/tool.wit`\nand [b](python/b.md).\n");
        assert_eq!(rewritten("[examples](../examples/runs)", "docs/index.md"), "examples (`examples/runs`)");
    }

    #[test]
    fn links_that_cannot_be_changed_are_errors() {
        for (text, part) in [
            ("![p](plots/none.svg)", "image `plots/none.svg` is not in the site"),
            ("[a][b]\n\n[b]: ../ARCHITECTURE.md", "write it as [label](path)"),
            ("[far](../../far.md)", "leaves the repository"),
        ] {
            let error = format!("{:#}", links(text, Path::new("studies/README.md"), &files()).expect_err(part));
            assert!(error.contains(part) && error.contains("`studies/README.md`"), "{error}");
        }
    }
}
