//! What the workers of a gateway get: the environment and the tools. Rewards, the policy and the clients stay here.

use std::collections::BTreeSet;
use std::path::Path;

use gymkhana_config::{EnvironmentSection, RunFile};
use gymkhana_orchestration::plugins::pin;
use gymkhana_registry::{Kind, LockEntry};
use gymkhana_store::RunFolder;

use super::records::Contents;
use super::run_file;
use crate::error::{Classify, CliError, CliResult};

/// Rejects plugins of which workers would hold none, and sections that belong to the start of an episode.
///
/// # Errors
/// If no plugin is an environment or a tool, or there is such a section.
pub(super) fn check(file: &RunFile, contents: &Contents<'_>) -> CliResult<()> {
    for (is_set, section) in [(file.context != Default::default(), "[context]"), (file.probe.is_some(), "[probe]")] {
        if is_set {
            let message = format!("--workers excludes {section}, because a harness decides about its conversation");
            return Err(CliError::user(message).with_hint("remove the section"));
        }
    }
    if contents.lock.entries().iter().any(is_played) {
        return Ok(());
    }
    let message = "workers hold environments and tools, and no plugin is one";
    Err(CliError::user(message).with_hint("remove --workers, or name an environment or a tool with --plugins"))
}

/// Writes the folder that workers fetch.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, file: &RunFile, contents: &Contents<'_>) -> CliResult<()> {
    let played = contents.lock.entries().iter().filter(|entry| is_played(entry));
    let names: BTreeSet<&str> = played.map(|entry| entry.name.name()).collect();
    let own = contents.files.iter().filter(|file| names.contains(&*file.name));
    let (files, lock) = pin(own.map(|file| (file.origin.clone(), file.bytes.clone())).collect())?;
    let file = run_of_workers(file, &names)?;
    let folder = RunFolder::create(path, &file.resolved().internal()?)?;
    for file in &files {
        folder.add_plugin(&file.bytes)?;
    }
    contents.assets.store_of(&file, &folder)?;
    Ok(folder.write_lock(&lock)?)
}

/// Whether workers play with a plugin.
fn is_played(entry: &LockEntry) -> bool {
    entry.kinds.iter().any(|kind| matches!(kind, Kind::Environment | Kind::Tool))
}

/// The part of the run file that episodes depend on without their rewards.
fn run_of_workers(file: &RunFile, plugins: &BTreeSet<&str>) -> CliResult<RunFile> {
    let mut own = run_file::without_training()?;
    own.environment = EnvironmentSection {
        options: file.environment.options.clone(),
        wrap: file.environment.wrap.clone(),
        ..EnvironmentSection::default()
    };
    own.seats.clone_from(&file.seats);
    own.tools.clone_from(&file.tools);
    own.plugins.clone_from(&file.plugins);
    own.plugins.retain(|name, _| plugins.contains(&**name));
    own.models.clone_from(&file.models);
    own.models.retain(|name, _| own.plugins.values().any(|plugin| plugin.model.as_ref() == Some(name)));
    own.sandbox.clone_from(&file.sandbox);
    own.limits.episode_mib = file.limits.episode_mib;
    own.check().user_error()?;
    Ok(own)
}
