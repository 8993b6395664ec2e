//! The first-party plugins: their folders, and what a component cannot say about itself, from `shelf.toml` beside its
//! sources.
//!
//! The file gives the forms of assets and of set-up data, the arguments without which the plugin cannot be opened, and an
//! example. The local registry and the generated page of the plugins read it.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use toml_edit::{DocumentMut, Item, TableLike};

use crate::workspace::Workspace;

/// Name of the file beside a plugin's sources.
const NOTES: &str = "shelf.toml";
/// Files of which each plugin's folder has one.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "pyproject.toml"];

/// What a plugin is in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Environment,
    Tool,
    Reward,
    Wrapper,
}

impl Part {
    /// All parts, in the order of the page.
    pub const ALL: [Self; 4] = [Self::Environment, Self::Tool, Self::Reward, Self::Wrapper];

    /// Name of its folder in `plugins/`.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Environment => "environments",
            Self::Tool => "tools",
            Self::Reward => "rewards",
            Self::Wrapper => "wrappers",
        }
    }
}

/// A first-party plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstParty {
    pub part: Part,
    /// Name of the plugin, of its component and of its folder.
    pub name: String,
    /// Folder, relative to the repository.
    pub folder: PathBuf,
    /// Whether its component is not built by cargo.
    pub is_foreign: bool,
    pub notes: Notes,
}

/// Texts by name, in the order of the file.
pub type Texts = Vec<(String, String)>;

/// Content of `shelf.toml`; every key may be absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Notes {
    /// Form of the set-up data of a tool's session.
    pub setup: Option<String>,
    /// Forms of assets, by their names or patterns.
    pub assets: Texts,
    pub needs: Needs,
    pub example: Option<Example>,
}

/// Arguments without which the plugin cannot be opened or scores nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Needs {
    pub options: Texts,
    /// Files in the repository, by the asset's name.
    pub assets: Texts,
    /// Environment inside of a wrapper, or whose episodes a reward scores.
    pub environment: Option<String>,
}

/// An episode or a session that shows the plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Example {
    /// Environment of a reward or a wrapper, instead of the needed one.
    pub environment: Option<String>,
    /// Tools and rewards beside the environment.
    pub with: Vec<String>,
    /// Options of the environment or the tool.
    pub options: Texts,
    /// Contents of assets of the environment or the tool, by name.
    pub assets: Texts,
    /// Set-up data of the tool's session.
    pub setup: Option<String>,
    /// Lines that are typed; without them the oracle plays.
    pub lines: Vec<String>,
    /// Run file, for a plugin that no file in `examples/` uses, or a wrapper whose options the example sets.
    pub run: Option<String>,
}

/// All first-party plugins by part and name.
///
/// # Errors
/// If a `shelf.toml` is wrong.
pub fn all(workspace: &Workspace) -> anyhow::Result<Vec<FirstParty>> {
    let mut found = Vec::new();
    for part in Part::ALL {
        let place = Path::new("plugins").join(part.folder());
        for file in workspace.files(&[&place.display().to_string()])? {
            let Some(manifest) = MANIFESTS.into_iter().find(|name| file.ends_with(name)) else { continue };
            let Some(folder) = file.parent().filter(|folder| folder.parent() == Some(&place)) else { continue };
            let name = folder.file_name().context("a plugin's folder has a name")?.to_string_lossy().into_owned();
            let notes = Notes::of(&workspace.root.join(folder))?;
            let is_foreign = manifest != MANIFESTS[0];
            found.push(FirstParty { part, name, folder: folder.to_owned(), is_foreign, notes });
        }
    }
    Ok(found)
}

impl Notes {
    /// Notes of the plugin in this folder; empty without a file.
    ///
    /// # Errors
    /// If the file cannot be read, or holds something else.
    pub fn of(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(NOTES);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Self::parse(&text).with_context(|| format!("`{}` is wrong", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let file: DocumentMut = text.parse()?;
        let mut section = Section::new("the file", file.as_table());
        let mut notes = Self { setup: section.text("setup")?, assets: section.texts("assets")?, ..Self::default() };
        if let Some(mut needs) = section.section("needs")? {
            notes.needs = Needs {
                options: needs.texts("options")?,
                assets: needs.texts("assets")?,
                environment: needs.text("environment")?,
            };
            needs.end()?;
        }
        if let Some(mut example) = section.section("example")? {
            notes.example = Some(Example {
                environment: example.text("environment")?,
                with: example.list("with")?,
                options: example.texts("options")?,
                assets: example.texts("assets")?,
                setup: example.text("setup")?,
                lines: example.list("lines")?,
                run: example.text("run")?,
            });
            example.end()?;
        }
        section.end()?;
        Ok(notes)
    }
}

/// A table whose keys are read one by one; one that is left is unknown.
struct Section<'a> {
    name: String,
    table: &'a dyn TableLike,
    read: Vec<&'static str>,
}

impl<'a> Section<'a> {
    fn new(name: impl Display, table: &'a dyn TableLike) -> Self {
        Self { name: name.to_string(), table, read: Vec::new() }
    }

    fn item(&mut self, key: &'static str) -> Option<&'a Item> {
        self.read.push(key);
        self.table.get(key)
    }

    fn text(&mut self, key: &'static str) -> anyhow::Result<Option<String>> {
        self.item(key).map(|item| text(key, item)).transpose()
    }

    fn texts(&mut self, key: &'static str) -> anyhow::Result<Texts> {
        let Some(item) = self.item(key) else { return Ok(Texts::new()) };
        let table = item.as_table_like().with_context(|| format!("`{key}` is not a table"))?;
        table.iter().map(|(name, item)| Ok((name.to_owned(), text(name, item)?))).collect()
    }

    fn list(&mut self, key: &'static str) -> anyhow::Result<Vec<String>> {
        let Some(item) = self.item(key) else { return Ok(Vec::new()) };
        let list = item.as_array().with_context(|| format!("`{key}` is not a list"))?;
        let texts = list.iter().map(|value| value.as_str().map(ToOwned::to_owned));
        texts.collect::<Option<_>>().with_context(|| format!("`{key}` holds something other than texts"))
    }

    fn section(&mut self, key: &'static str) -> anyhow::Result<Option<Self>> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let table = item.as_table_like().with_context(|| format!("`{key}` is not a table"))?;
        Ok(Some(Self::new(format_args!("`{key}`"), table)))
    }

    fn end(&self) -> anyhow::Result<()> {
        let unknown = self.table.iter().map(|(key, _)| key).find(|key| !self.read.contains(key));
        if let Some(key) = unknown {
            bail!("{} has the unknown key `{key}`\nhint: use one of {}", self.name, self.read.join(", "));
        }
        Ok(())
    }
}

fn text(key: &str, item: &Item) -> anyhow::Result<String> {
    item.as_str().map(ToOwned::to_owned).with_context(|| format!("`{key}` is not a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_by_key() {
        let text = "setup = \"a script\"\n[assets]\n\"*.jsonl\" = \"lines\"\nothers = \"texts\"\n[needs]\n\
                    options = { checklist = \"\"\"a\nb\"\"\" }\nassets = { rows = \"examples/a.jsonl\" }\n\
                    environment = \"one\"\n[example]\nwith = [\"two\", \"three\"]\nlines = [\"call f {}\"]\n";
        let own = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let expected = Notes {
            setup: Some("a script".to_owned()),
            assets: vec![own("*.jsonl", "lines"), own("others", "texts")],
            needs: Needs {
                options: vec![own("checklist", "a\nb")],
                assets: vec![own("rows", "examples/a.jsonl")],
                environment: Some("one".to_owned()),
            },
            example: Some(Example {
                with: vec!["two".to_owned(), "three".to_owned()],
                lines: vec!["call f {}".to_owned()],
                ..Example::default()
            }),
        };
        assert_eq!(Notes::parse(text).expect("notes"), expected);
        assert_eq!(Notes::parse("").expect("an empty file"), Notes::default());
    }

    #[test]
    fn wrong_notes_are_refused_by_key() {
        for (text, part) in [
            ("form = 1", "the file has the unknown key `form`\nhint: use one of setup, assets, needs, example"),
            ("[example]\nwiht = []", "`example` has the unknown key `wiht`"),
            ("setup = 1", "`setup` is not a text"),
            ("assets = []", "`assets` is not a table"),
            ("[assets]\na = 1", "`a` is not a text"),
            ("example = { lines = [1] }", "`lines` holds something other than texts"),
            ("needs = \"all\"", "`needs` is not a table"),
        ] {
            let error = format!("{:#}", Notes::parse(text).expect_err(part));
            assert!(error.contains(part), "{error}");
        }
    }
}
