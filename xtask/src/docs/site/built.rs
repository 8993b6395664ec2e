//! Links of the built site: each relative link of its HTML must lead to a file, and each fragment to an element. Links of
//! generated API documentation are those of its program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::checks::links::{is_absolute, resolve};
use crate::checks::report;

/// Fails on broken relative links in the HTML files of a folder, except in its folder `api`.
pub fn check(folder: &Path, api: &Path) -> anyhow::Result<()> {
    let mut files = BTreeMap::new();
    read(folder, Path::new(""), &mut files)?;
    let pages = files.values().flatten().count();
    anyhow::ensure!(pages > 0, "the site has no pages");
    report(&broken(&files, api), "links of the site", "correct the link in the page's Markdown file")
}

/// Files of the site by path; the elements of those that are HTML.
type Site = BTreeMap<PathBuf, Option<Html>>;

fn read(root: &Path, below: &Path, site: &mut Site) -> anyhow::Result<()> {
    let folder = root.join(below);
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read `{}`", folder.display()))? {
        let entry = entry?;
        let name = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            read(root, &name, site)?;
        } else if name.extension().is_some_and(|extension| extension == "html") {
            site.insert(name, Some(Html::parse(&fs::read_to_string(entry.path())?)));
        } else {
            site.insert(name, None);
        }
    }
    Ok(())
}

/// Names and links of an HTML file.
#[derive(Debug, PartialEq, Default)]
struct Html {
    ids: BTreeSet<String>,
    links: BTreeSet<String>,
}

impl Html {
    /// Reads the attributes `id`, `href` and `src` of all tags outside of comments and scripts.
    fn parse(text: &str) -> Self {
        let mut html = Self::default();
        let mut rest = text;
        while let Some((_, tag)) = rest.split_once('<') {
            rest = if tag.starts_with("!--") { past(tag, "-->") } else { html.read_tag(tag) };
            if tag.starts_with("script") {
                rest = past(rest, "</script>");
            }
        }
        html
    }

    /// Reads a tag that begins after its `<`, and returns the text after the tag.
    fn read_tag<'a>(&mut self, tag: &'a str) -> &'a str {
        let mut rest = tag.trim_start_matches(|sign: char| !sign.is_whitespace() && sign != '>');
        loop {
            rest = rest.trim_start();
            let end = rest.find(|sign: char| sign == '=' || sign == '>' || sign.is_whitespace());
            let Some(end) = end else { return "" };
            let name = &rest[..end];
            rest = &rest[end..];
            if let Some(after) = rest.strip_prefix('>') {
                return after;
            }
            let Some(value) = rest.strip_prefix('=') else { continue };
            let quote = value.chars().next().filter(|sign| matches!(sign, '"' | '\''));
            let (value, after) = match quote {
                Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                None => value.split_at(value.find(|sign: char| sign == '>' || sign.is_whitespace()).unwrap_or(0)),
            };
            let value = value.replace("&amp;", "&");
            if name == "id" {
                self.ids.insert(value);
            } else if matches!(name, "href" | "src") {
                self.links.insert(value);
            }
            rest = after;
        }
    }
}

/// The text after the next `end`.
fn past<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, after)| after)
}

fn broken(site: &Site, api: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    let own = site.iter().filter(|(file, _)| !file.starts_with(api));
    for (file, html) in own.filter_map(|(file, html)| Some((file, html.as_ref()?))) {
        for link in html.links.iter().filter(|link| !is_absolute(link) && !link.starts_with("data:")) {
            let (path, fragment) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let target = if path.is_empty() { Some(file.clone()) } else { resolve(file, path) };
            let problem = match target.and_then(|target| site.get(&target)) {
                None => "no such file",
                Some(Some(page)) if !fragment.is_empty() && !page.ids.contains(fragment) => "no such element",
                Some(_) => continue,
            };
            findings.push(format!("{}: `{link}`: {problem}", file.display()));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_from_tags_only() {
        let text = "<!-- <a href=\"no\"> --><script>let a = '<a href=\"no\">';</script><script src=x.js></script>\
                    <h1 class=\"a > b\" id=\"top\">1 &lt;2 href=\"no\"</h1><a disabled href='b.html?x&amp;y#z'>b</a>";
        let expected =
            Html { ids: ["top".to_owned()].into(), links: ["x.js".to_owned(), "b.html?x&y#z".to_owned()].into() };
        assert_eq!(Html::parse(text), expected);
    }

    #[test]
    fn broken_links_are_named_with_their_page() {
        let page = |text: &str| Some(Html::parse(text));
        let site: Site = [
            ("index.html", page("<a href=\"a/b.html#t\"></a><a href=\"a/b.html#u\"></a><img src=\"a/p.svg\">")),
            ("a/b.html", page("<p id=t><a href=\"../index.html\"></a><a href=\"c.html\"></a><a href=\"#\"></a>")),
            ("a/p.svg", None),
            ("api/x.html", page("<a href=\"none.html\"></a>")),
        ]
        .map(|(file, html)| (PathBuf::from(file), html))
        .into();
        assert_eq!(
            broken(&site, Path::new("api")),
            ["a/b.html: `c.html`: no such file", "index.html: `a/b.html#u`: no such element"]
        );
    }
}
