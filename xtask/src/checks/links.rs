//! Links of the documentation: relative links must lead to a file, and fragments to a heading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::report;
use crate::step::step;
use crate::workspace::Workspace;

/// Fails on broken relative links in Markdown files.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("links", || {
        let mut pages = BTreeMap::new();
        for file in workspace.files(&["*.md"])? {
            let text = std::fs::read_to_string(workspace.root.join(&file))
                .with_context(|| format!("cannot read `{}`", file.display()))?;
            pages.insert(file, Page::parse(&text));
        }
        let exists = |path: &Path| workspace.root.join(path).exists();
        report(&check(&pages, exists), "links", "correct the path or the fragment")
    })
}

/// Headings and links of a file.
struct Page {
    anchors: BTreeSet<String>,
    /// Line, from 1, and destination.
    links: Vec<(usize, String)>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self { anchors: BTreeSet::new(), links: Vec::new() };
        let mut heading: Option<String> = None;
        let mut used: BTreeMap<String, u32> = BTreeMap::new();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = slug(&heading.take().unwrap_or_default());
                    let times = used.entry(anchor.clone()).or_default();
                    page.anchors.insert(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
                    *times += 1;
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((text[..range.start].matches('\n').count() + 1, dest_url.into_string()));
                }
                _ => {}
            }
        }
        page
    }
}

/// The anchor that GitHub and mdBook give a heading.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn check(pages: &BTreeMap<PathBuf, Page>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    for (file, page) in pages {
        let relative = page.links.iter().filter(|(_, link)| !is_absolute(link));
        for (line, link) in relative {
            let (path, fragment) = link.split_once('#').map_or((&**link, None), |(path, name)| (path, Some(name)));
            let target = if path.is_empty() { Some(file.clone()) } else { resolve(file, path) };
            let place = format!("{}:{line}", file.display());
            match target {
                Some(target) if exists(&target) => {
                    let has = |name: &str| pages.get(&target).is_none_or(|page| page.anchors.contains(name));
                    if fragment.is_some_and(|name| !has(name)) {
                        findings.push(format!("{place}: `{link}`: no such heading"));
                    }
                }
                _ => findings.push(format!("{place}: `{link}`: no such file")),
            }
        }
    }
    findings
}

/// Whether a link names a scheme, such as `https:`.
pub fn is_absolute(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

/// The target's path from the root, unless it leaves the repository.
pub fn resolve(file: &Path, link: &str) -> Option<PathBuf> {
    let mut path = file.parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_named_with_their_line() {
        let pages: BTreeMap<PathBuf, Page> = [
            ("README.md", "# Top\n\n[a](docs/a.md) [b](docs/a.md#two-words) [c](https://x.org/y)\n\n[d](none.md)\n"),
            (
                "docs/a.md",
                "## Two `words`!\n\n[up](../README.md#top) [self](#two-words) [bad](#three)\n![i](../i.svg)\n",
            ),
            ("docs/b.md", "[out](../../x) `[code](none)`\n# Same\n# Same\n[second](#same-1)\n"),
        ]
        .map(|(file, text)| (file.into(), Page::parse(text)))
        .into();
        let exists = |path: &Path| pages.contains_key(path) || path == Path::new("i.svg");
        assert_eq!(
            check(&pages, exists),
            [
                "README.md:5: `none.md`: no such file",
                "docs/a.md:3: `#three`: no such heading",
                "docs/b.md:1: `../../x`: no such file",
            ]
        );
    }
}
