//! Plugins by name: resolved with the project's lock, checked for consent, downloaded, and pinned.

use std::path::{Path, PathBuf};

use gymkhana_registry::{LOCK_FILE, Lock, LockEntry, PluginFile, Requirement, without_consent};

use super::{Project, ProjectError, ProjectLock, project_lock_in, root_or_here};
use crate::{RegistryClient, Unpinned};

/// What pins the versions of plugins, and whether new pins are written.
#[derive(Debug, Clone, PartialEq)]
pub enum Pins {
    /// The lock of the project, or of the working directory; new pins are added to it.
    Added,
    /// The same lock, which stays as it is.
    Kept,
    /// The same lock, which must pin every plugin.
    Required,
    /// The lock of a run, which must pin every plugin.
    OfRun(Lock),
}

/// Resolver of plugin names in the project of the working directory.
#[derive(Debug)]
pub struct PluginResolver {
    client: RegistryClient,
    project: Option<Project>,
    /// Folder of the project, or the working directory without one.
    folder: PathBuf,
}

impl PluginResolver {
    /// The resolver of the working directory. Offline, it uses downloaded plugins alone.
    ///
    /// # Errors
    /// If the project or the configuration of registries cannot be used.
    pub fn here(offline: bool) -> Result<Self, ProjectError> {
        let folder = root_or_here()?;
        Ok(Self { client: RegistryClient::of_user(&folder, offline)?, project: Project::open()?, folder })
    }

    /// The registries.
    #[must_use]
    pub fn client(&self) -> &RegistryClient {
        &self.client
    }

    /// Resolves and downloads plugins. A project's consent to capabilities is required; outside of projects a lock agrees
    /// to those of its version. `notify` gets each new pin.
    ///
    /// # Errors
    /// If a plugin cannot be resolved or downloaded, or requests capabilities without consent.
    pub async fn fetch(
        &self,
        wanted: &[Requirement],
        pins: &Pins,
        notify: &dyn Fn(&str),
    ) -> Result<Vec<PluginFile>, ProjectError> {
        let lock = match pins {
            Pins::OfRun(lock) => Some(lock.clone()),
            Pins::Added | Pins::Kept | Pins::Required => project_lock_in(&self.folder)?,
        };
        let unpinned = match pins {
            Pins::OfRun(_) | Pins::Required => Unpinned::Reject,
            Pins::Added | Pins::Kept => Unpinned::Resolve,
        };
        let pinned = self.client.resolve(wanted, lock.as_ref(), unpinned).await?;
        pinned.iter().try_for_each(|entry| self.agreed(entry, lock.as_ref()))?;
        let files = self.client.components(&pinned).await?;
        if *pins == Pins::Added {
            let kept: Vec<LockEntry> = pinned.iter().filter(|entry| self.requires(entry)).cloned().collect();
            add_pins(&self.folder, lock.as_ref(), &kept, notify)?;
        }
        Ok(files)
    }

    /// Whether the lock pins a plugin: that of a project pins what the project requires.
    fn requires(&self, entry: &LockEntry) -> bool {
        let Some(project) = &self.project else { return true };
        project.plugins().get(&entry.name).is_some_and(|required| required.versions.matches(&entry.version))
    }

    /// Checks consent to a plugin's capabilities: by the project, or outside of it by the locked version. Without either,
    /// the plugin gets only what a run grants.
    fn agreed(&self, entry: &LockEntry, lock: Option<&Lock>) -> Result<(), ProjectError> {
        let of_project = self.project.as_ref().filter(|project| project.plugins().contains_key(&entry.name));
        if let Some(project) = of_project {
            return project.check_consent(entry);
        }
        let Some(before) = lock.and_then(|lock| lock.get(&entry.name)) else { return Ok(()) };
        let open = without_consent(&entry.capabilities, &before.capabilities);
        if open.is_empty() { Ok(()) } else { Err(ProjectError::no_consent(entry, open)) }
    }
}

/// Adds pins to the lock in `folder`, which was `lock` when the plugins were resolved.
fn add_pins(
    folder: &Path,
    lock: Option<&Lock>,
    pinned: &[LockEntry],
    notify: &dyn Fn(&str),
) -> Result<(), ProjectError> {
    let before = lock.map(Lock::entries).unwrap_or_default();
    if pinned.iter().all(|entry| before.contains(entry)) {
        return Ok(());
    }
    let _lock = ProjectLock::acquire(folder, notify)?;
    // Another command may have added pins since.
    let current = project_lock_in(folder)?;
    let before = current.as_ref().map(Lock::entries).unwrap_or_default();
    for entry in pinned.iter().filter(|entry| !before.contains(entry)) {
        notify(&format!("locked {} {} in {LOCK_FILE}", entry.name, entry.version));
    }
    let others = before.iter().filter(|old| pinned.iter().all(|new| new.name != old.name)).cloned();
    let lock = Lock::new(others.chain(pinned.iter().cloned()).collect())?;
    Ok(lock.write(&folder.join(LOCK_FILE))?)
}
