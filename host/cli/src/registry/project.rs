//! `gymkhana.toml`: plugins of a project and consent to their capabilities.
//!
//! Commands change single lines and preserve the rest, including comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_registry::{
    Capability, LOCK_FILE, Lock, LockEntry, PluginName, Requirement, RequirementName, write_atomically,
};
use gymkhana_registry_client::{PROJECT_FILE, TrustedOwners, project_folder};
use semver::VersionReq;
use serde::Deserialize;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use super::project_lock::ProjectLock;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;

/// Error for an unreadable working directory.
const NO_FOLDER: &str = "the working directory cannot be read\nhint: change into an existing one";

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
    plugins: BTreeMap<PluginName, Entry>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a plugin needs a version requirement such as \"^1\", or a table such as { version = \"^1\", allow = [\"http\"] }"
)]
enum Entry {
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
fn find() -> CliResult<Option<PathBuf>> {
    let here = std::env::current_dir().user_context(NO_FOLDER)?;
    let folder = project_folder(&here);
    if let Some(folder) = &folder {
        check_owner(&folder.join(PROJECT_FILE))?;
    }
    Ok(folder)
}

/// Rejects a project's file of another user.
fn check_owner(file: &Path) -> CliResult<()> {
    TrustedOwners::of_process().check(file).user_context(format!("cannot use `{}`", file.display()))
}

/// The lock of a project, or of a folder without a project, if there is one.
pub fn project_lock_in(folder: &Path) -> CliResult<Option<Lock>> {
    let path = folder.join(LOCK_FILE);
    if path.is_file() {
        check_owner(&path)?;
    }
    super::lock_in(folder)
}

/// Folder of the project, or the working directory without a project.
pub fn root_or_here() -> CliResult<PathBuf> {
    match find()? {
        Some(folder) => Ok(folder),
        None => std::env::current_dir().user_context(NO_FOLDER),
    }
}

impl Project {
    /// The project of the working directory, if there is one.
    pub fn open() -> CliResult<Option<Self>> {
        let Some(folder) = find()? else { return Ok(None) };
        Self::read(folder.join(PROJECT_FILE)).map(Some)
    }

    /// The project of the working directory.
    ///
    /// # Errors
    /// If there is no project.
    pub fn existing() -> CliResult<Self> {
        let missing =
            || CliError::user(format!("no {PROJECT_FILE} here or above\nhint: create one with `host add PLUGIN`"));
        Self::open()?.ok_or_else(missing)
    }

    /// The project of the working directory, with exclusive access to its files.
    ///
    /// # Errors
    /// If there is no project.
    pub fn existing_for_change(printer: &Printer) -> CliResult<(ProjectLock, Self)> {
        let folder = Self::existing()?.folder().to_owned();
        let lock = ProjectLock::acquire(&folder, printer)?;
        // Another command may have changed it before the lock was acquired.
        Ok((lock, Self::read(folder.join(PROJECT_FILE))?))
    }

    /// The project of the working directory, or an empty one.
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
        let unusable = || format!("project file `{}` cannot be used\nhint: correct it", path.display());
        let text = fs::read_to_string(&path).user_context(unusable())?;
        let document = text.parse::<DocumentMut>().user_context(unusable())?;
        let File { plugins } = toml::from_str(&text).user_context(unusable())?;
        let requirement = |name: PluginName, entry: Entry| {
            let (versions, allow) = match entry {
                Entry::Versions(versions) => (versions, BTreeSet::new()),
                Entry::Table(EntryTable { version, allow }) => (version, allow),
            };
            let wrong = || {
                let path = path.display();
                format!(
                    "`{versions}` of `{name}` in `{path}` is not a version requirement\nhint: write for example `^1`"
                )
            };
            let versions = versions.parse().user_context(wrong())?;
            Ok((name, ProjectDependency { versions, allow }))
        };
        let plugins =
            plugins.into_iter().map(|(name, entry)| requirement(name, entry)).collect::<CliResult<BTreeMap<_, _>>>()?;
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
    pub fn named(&self, name: &str) -> CliResult<PluginName> {
        let is_it = |known: &&PluginName| known.to_string() == name || known.name() == name;
        let mut known = self.plugins.keys().filter(is_it);
        match (known.next(), known.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(one), Some(other)) => Err(CliError::user(format!(
                "`{name}` is ambiguous in `{}`: it may be `{one}` or `{other}`\nhint: write it with its namespace",
                self.path.display()
            ))),
            (None, _) => Err(CliError::user(format!(
                "`{}` has no plugin `{name}`\nhint: its plugins are {}",
                self.path.display(),
                if self.plugins.is_empty() { "none".to_owned() } else { listed(self.plugins.keys()) }
            ))),
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
    pub fn write(&self, lock: &Lock) -> CliResult<()> {
        let full = || format!("project file `{}` cannot be written\nhint: free space", self.path.display());
        write_atomically(&self.path, self.document.to_string().as_bytes()).user_context(full())?;
        self.write_lock(lock)
    }

    /// Writes the lock.
    pub fn write_lock(&self, lock: &Lock) -> CliResult<()> {
        lock.write(&self.folder().join(LOCK_FILE)).user_error()
    }

    /// The lock, if there is one.
    pub fn lock(&self) -> CliResult<Option<Lock>> {
        project_lock_in(self.folder())
    }

    /// Folder of the project.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Rejects a version that requests capabilities without consent.
    pub fn check_consent(&self, pinned: &LockEntry) -> CliResult<()> {
        let agreed = self.plugins.get(&pinned.name).map(|requirement| &requirement.allow);
        let open = gymkhana_registry::without_consent(&pinned.capabilities, agreed.into_iter().flatten());
        if open.is_empty() { Ok(()) } else { Err(wants_consent(pinned, &open)) }
    }
}

/// Error for missing consent, with a hint for giving it.
pub fn wants_consent(pinned: &LockEntry, open: &[Capability]) -> CliError {
    let allow: Vec<String> = open.iter().map(|capability| format!("--allow {capability}")).collect();
    CliError::user(format!(
        "`{}` {} requests {} without consent\nhint: allow it with `host add {}@{} {}`, or use another version",
        pinned.name,
        pinned.version,
        listed(open.iter()),
        pinned.name,
        pinned.version,
        allow.join(" ")
    ))
}

/// A list of names.
pub fn listed(items: impl Iterator<Item = impl std::fmt::Display>) -> String {
    items.map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
