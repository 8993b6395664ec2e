//! `gymkhana.toml`: the plugins that a project uses, and what its people agreed to.
//!
//! Commands change single lines of it and leave everything else, comments too, as it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_registry::{Capability, LOCK_FILE, Lock, LockEntry, PluginName, Wanted, WantedName, write_atomically};
use semver::VersionReq;
use serde::Deserialize;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use crate::error::{Classify, CliError, CliResult};

/// The project's file.
pub const PROJECT_FILE: &str = "gymkhana.toml";

/// A project.
#[derive(Debug)]
pub struct Project {
    path: PathBuf,
    document: DocumentMut,
    plugins: BTreeMap<PluginName, Wish>,
}

/// A plugin that a project uses.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Which versions.
    pub versions: VersionReq,
    /// What its people agreed to.
    pub allow: BTreeSet<Capability>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    plugins: BTreeMap<PluginName, Written>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Versions(VersionReq),
    Whole(Whole),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: VersionReq,
    #[serde(default)]
    allow: BTreeSet<Capability>,
}

/// The folder of the nearest project file, from here upwards.
fn find() -> CliResult<Option<PathBuf>> {
    let here = std::env::current_dir().user_context("this folder cannot be read; change into one that is there")?;
    Ok(here.ancestors().find(|folder| folder.join(PROJECT_FILE).is_file()).map(Path::to_owned))
}

/// The project's folder, or this one if there is no project.
pub fn root_or_here() -> CliResult<PathBuf> {
    match find()? {
        Some(folder) => Ok(folder),
        None => std::env::current_dir().user_context("this folder cannot be read; change into one that is there"),
    }
}

impl Project {
    /// The project here, if there is one.
    pub fn open() -> CliResult<Option<Self>> {
        let Some(folder) = find()? else { return Ok(None) };
        Self::read(folder.join(PROJECT_FILE)).map(Some)
    }

    /// The project here; an empty one is begun where there is none.
    pub fn open_or_begin() -> CliResult<Self> {
        match Self::open()? {
            Some(project) => Ok(project),
            None => {
                let path = root_or_here()?.join(PROJECT_FILE);
                Ok(Self { path, document: DocumentMut::new(), plugins: BTreeMap::new() })
            }
        }
    }

    fn read(path: PathBuf) -> CliResult<Self> {
        let told = || format!("project file `{}` cannot be used; correct it", path.display());
        let text = fs::read_to_string(&path).user_context(told())?;
        let document = text.parse::<DocumentMut>().user_context(told())?;
        let File { plugins } = toml::from_str(&text).user_context(told())?;
        let meant = |written| match written {
            Written::Versions(versions) => Wish { versions, allow: BTreeSet::new() },
            Written::Whole(Whole { version, allow }) => Wish { versions: version, allow },
        };
        let plugins = plugins.into_iter().map(|(name, written)| (name, meant(written))).collect();
        Ok(Self { path, document, plugins })
    }

    /// What the project uses.
    pub fn plugins(&self) -> &BTreeMap<PluginName, Wish> {
        &self.plugins
    }

    /// The same, as it is asked for.
    pub fn wanted(&self) -> Vec<Wanted> {
        let one = |(name, wish): (&PluginName, &Wish)| Wanted {
            name: WantedName::Full(name.clone()),
            versions: wish.versions.clone(),
        };
        self.plugins.iter().map(one).collect()
    }

    /// The plugin of a name, or of a short one.
    pub fn named(&self, name: &str) -> CliResult<PluginName> {
        let is_it = |known: &&PluginName| known.to_string() == name || known.name() == name;
        let mut known = self.plugins.keys().filter(is_it);
        match (known.next(), known.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(one), Some(other)) => Err(CliError::user(format!(
                "`{name}` may be `{one}` or `{other}` in `{}`; write it with its namespace",
                self.path.display()
            ))),
            (None, _) => Err(CliError::user(format!(
                "`{}` uses no plugin `{name}`; it uses {}",
                self.path.display(),
                if self.plugins.is_empty() { "none".to_owned() } else { listed(self.plugins.keys()) }
            ))),
        }
    }

    /// Uses a plugin from now on.
    pub fn put(&mut self, name: &PluginName, wish: Wish) {
        let versions = Value::from(wish.versions.to_string());
        let value = if wish.allow.is_empty() {
            versions
        } else {
            let allow: Array = wish.allow.iter().map(ToString::to_string).collect();
            Value::InlineTable(InlineTable::from_iter([("version", versions), ("allow", Value::Array(allow))]))
        };
        let plugins = self.document.entry("plugins").or_insert_with(|| Item::Table(Table::new()));
        if let Some(table) = plugins.as_table_like_mut() {
            table.insert(&name.to_string(), Item::Value(value));
        }
        self.plugins.insert(name.clone(), wish);
    }

    /// Uses a plugin no more.
    pub fn take(&mut self, name: &PluginName) {
        if let Some(table) = self.document.get_mut("plugins").and_then(Item::as_table_like_mut) {
            table.remove(&name.to_string());
        }
        self.plugins.remove(name);
    }

    /// Writes the project file, and the lock beside it.
    pub fn write(&self, lock: &Lock) -> CliResult<()> {
        let told = || format!("project file `{}` cannot be written; free space there", self.path.display());
        write_atomically(&self.path, self.document.to_string().as_bytes()).user_context(told())?;
        self.write_lock(lock)
    }

    /// Writes the lock.
    pub fn write_lock(&self, lock: &Lock) -> CliResult<()> {
        lock.write(&self.folder().join(LOCK_FILE)).user_error()
    }

    /// The lock, if there is one.
    pub fn lock(&self) -> CliResult<Option<Lock>> {
        super::lock_in(self.folder())
    }

    /// The project's folder.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Refuses what a version asks for and nobody here agreed to.
    pub fn check_consent(&self, pinned: &LockEntry) -> CliResult<()> {
        let agreed = self.plugins.get(&pinned.name).map(|wish| &wish.allow);
        let open = gymkhana_registry::without_consent(&pinned.capabilities, agreed.into_iter().flatten());
        if open.is_empty() { Ok(()) } else { Err(wants_consent(pinned, &open)) }
    }
}

/// What a version asks for, and how to agree.
pub fn wants_consent(pinned: &LockEntry, open: &[Capability]) -> CliError {
    let allow: Vec<String> = open.iter().map(|capability| format!("--allow {capability}")).collect();
    CliError::user(format!(
        "`{}` {} asks for {}, which nobody here has agreed to; agree with `host add {}@{} {}`, or stay with another version",
        pinned.name,
        pinned.version,
        listed(open.iter()),
        pinned.name,
        pinned.version,
        allow.join(" ")
    ))
}

/// Names in words.
pub fn listed(items: impl Iterator<Item = impl std::fmt::Display>) -> String {
    items.map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
