//! `gymkhana.toml`: plugins of a project and consent to their capabilities.
//!
//! Commands change single lines and preserve the rest, including comments.

mod error;
mod lock;
mod resolver;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_registry::{
    Capability, LOCK_FILE, Lock, LockEntry, PluginName, Requirement, RequirementName, write_atomically,
};
use semver::VersionReq;
use serde::Deserialize;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use crate::{PROJECT_FILE, TrustedOwners, project_folder};

pub use error::ProjectError;
pub use lock::ProjectLock;
pub use resolver::{Pins, PluginResolver};

/// A project.
#[derive(Debug)]
pub struct Project {
    path: PathBuf,
    document: DocumentMut,
    plugins: BTreeMap<PluginName, ProjectDependency>,
}

/// A plugin requirement of a project.
#[derive(Debug, Clone)]
pub struct ProjectDependency {
    /// Accepted versions.
    pub versions: VersionReq,
    /// Capabilities with consent.
    pub allow: BTreeSet<Capability>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    plugins: BTreeMap<PluginName, DependencyEntry>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a plugin needs a version requirement such as \"^1\", or a table such as { version = \"^1\", allow = [\"http\"] }"
)]
enum DependencyEntry {
    Versions(String),
    Table(EntryTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryTable {
    version: String,
    #[serde(default)]
    allow: BTreeSet<Capability>,
}

/// Folder of the nearest project file, from the working directory upwards. Above the working directory can be folders of
/// other users, whose project files are refused.
fn find() -> Result<Option<PathBuf>, ProjectError> {
    let here = std::env::current_dir().map_err(ProjectError::WorkingFolder)?;
    let folder = project_folder(&here);
    if let Some(folder) = &folder {
        check_owner(&folder.join(PROJECT_FILE))?;
    }
    Ok(folder)
}

/// Rejects a project's file of another user.
fn check_owner(file: &Path) -> Result<(), ProjectError> {
    let checked = TrustedOwners::of_process().check(file);
    checked.map_err(|source| ProjectError::Owner { path: file.to_owned(), source })
}

/// The lock of a project, or of a folder without a project, if there is one.
pub fn project_lock_in(folder: &Path) -> Result<Option<Lock>, ProjectError> {
    let path = folder.join(LOCK_FILE);
    if path.is_file() {
        check_owner(&path)?;
    }
    lock_in(folder)
}

/// The lock of a folder, if there is one.
///
/// # Errors
/// If it cannot be read.
pub fn lock_in(folder: &Path) -> Result<Option<Lock>, ProjectError> {
    let path = folder.join(LOCK_FILE);
    Ok(if path.is_file() { Some(Lock::read(&path)?) } else { None })
}

/// Folder of the project, or the working directory without a project.
pub fn root_or_here() -> Result<PathBuf, ProjectError> {
    match find()? {
        Some(folder) => Ok(folder),
        None => std::env::current_dir().map_err(ProjectError::WorkingFolder),
    }
}

impl Project {
    /// The project of the working directory, if there is one.
    pub fn open() -> Result<Option<Self>, ProjectError> {
        let Some(folder) = find()? else { return Ok(None) };
        Self::read(folder.join(PROJECT_FILE)).map(Some)
    }

    /// The project of the working directory.
    ///
    /// # Errors
    /// If there is no project.
    pub fn existing() -> Result<Self, ProjectError> {
        Self::open()?.ok_or(ProjectError::None)
    }

    /// The project of the working directory, with exclusive access to its files.
    ///
    /// # Errors
    /// If there is no project.
    pub fn existing_for_change(notify: &dyn Fn(&str)) -> Result<(ProjectLock, Self), ProjectError> {
        let folder = Self::existing()?.folder().to_owned();
        let lock = ProjectLock::acquire(&folder, notify)?;
        // Another command may have changed it before the lock was acquired.
        Ok((lock, Self::read(folder.join(PROJECT_FILE))?))
    }

    /// The project of the working directory, or an empty one.
    pub fn open_or_begin() -> Result<Self, ProjectError> {
        match Self::open()? {
            Some(project) => Ok(project),
            None => {
                let path = root_or_here()?.join(PROJECT_FILE);
                Ok(Self { path, document: DocumentMut::new(), plugins: BTreeMap::new() })
            }
        }
    }

    fn read(path: PathBuf) -> Result<Self, ProjectError> {
        let unusable = |source: Box<dyn Error + Send + Sync>| ProjectError::Unusable { path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(|error| unusable(error.into()))?;
        let document = text.parse::<DocumentMut>().map_err(|error| unusable(error.into()))?;
        let File { plugins } = toml::from_str(&text).map_err(|error| unusable(error.into()))?;
        let requirement = |name: PluginName, entry: DependencyEntry| {
            let (versions, allow) = match entry {
                DependencyEntry::Versions(versions) => (versions, BTreeSet::new()),
                DependencyEntry::Table(EntryTable { version, allow }) => (version, allow),
            };
            match versions.parse() {
                Ok(versions) => Ok((name, ProjectDependency { versions, allow })),
                Err(source) => {
                    Err(ProjectError::Versions { versions, name: Box::new(name), path: path.clone(), source })
                }
            }
        };
        let plugins = plugins
            .into_iter()
            .map(|(name, entry)| requirement(name, entry))
            .collect::<Result<BTreeMap<_, _>, ProjectError>>()?;
        Ok(Self { path, document, plugins })
    }

    /// Requirements of the project.
    pub fn plugins(&self) -> &BTreeMap<PluginName, ProjectDependency> {
        &self.plugins
    }

    /// Requirements of the project, for the registry client.
    pub fn wanted(&self) -> Vec<Requirement> {
        let one = |(name, requirement): (&PluginName, &ProjectDependency)| Requirement {
            name: RequirementName::Full(name.clone()),
            versions: requirement.versions.clone(),
        };
        self.plugins.iter().map(one).collect()
    }

    /// Full name of a plugin of the project, given in full or short.
    pub fn named(&self, name: &str) -> Result<PluginName, ProjectError> {
        let is_it = |known: &&PluginName| known.to_string() == name || known.name() == name;
        let mut known = self.plugins.keys().filter(is_it);
        match (known.next(), known.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(one), Some(other)) => Err(ProjectError::Ambiguous {
                name: name.to_owned(),
                path: self.path.clone(),
                candidates: Box::new([one.clone(), other.clone()]),
            }),
            (None, _) => Err(ProjectError::Unknown {
                name: name.to_owned(),
                path: self.path.clone(),
                known: self.plugins.keys().cloned().collect(),
            }),
        }
    }

    /// Adds or replaces a requirement.
    pub fn put(&mut self, name: &PluginName, requirement: ProjectDependency) {
        let versions = Value::from(requirement.versions.to_string());
        let value = if requirement.allow.is_empty() {
            versions
        } else {
            let allow: Array = requirement.allow.iter().map(ToString::to_string).collect();
            Value::InlineTable(InlineTable::from_iter([("version", versions), ("allow", Value::Array(allow))]))
        };
        let plugins = self.document.entry("plugins").or_insert_with(|| Item::Table(Table::new()));
        if let Some(table) = plugins.as_table_like_mut() {
            table.insert(&name.to_string(), Item::Value(value));
        }
        self.plugins.insert(name.clone(), requirement);
    }

    /// Removes a requirement.
    pub fn take(&mut self, name: &PluginName) {
        if let Some(table) = self.document.get_mut("plugins").and_then(Item::as_table_like_mut) {
            table.remove(&name.to_string());
        }
        self.plugins.remove(name);
    }

    /// Writes the project file and the lock.
    pub fn write(&self, lock: &Lock) -> Result<(), ProjectError> {
        let full = |source| ProjectError::Write { path: self.path.clone(), source };
        write_atomically(&self.path, self.document.to_string().as_bytes()).map_err(full)?;
        self.write_lock(lock)
    }

    /// Writes the lock.
    pub fn write_lock(&self, lock: &Lock) -> Result<(), ProjectError> {
        Ok(lock.write(&self.folder().join(LOCK_FILE))?)
    }

    /// The lock, if there is one.
    pub fn lock(&self) -> Result<Option<Lock>, ProjectError> {
        project_lock_in(self.folder())
    }

    /// Folder of the project.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Rejects a version that requests capabilities without consent.
    pub fn check_consent(&self, pinned: &LockEntry) -> Result<(), ProjectError> {
        let agreed = self.plugins.get(&pinned.name).map(|requirement| &requirement.allow);
        let open = gymkhana_registry::without_consent(&pinned.capabilities, agreed.into_iter().flatten());
        if open.is_empty() { Ok(()) } else { Err(ProjectError::no_consent(pinned, open)) }
    }
}
