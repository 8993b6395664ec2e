//! What the workers of a gateway get: the environment and the tools. Rewards, the policy and the clients stay here.

use std::collections::BTreeSet;
use std::path::Path;

use gymkhana_config::{EnvironmentSection, EpisodeRules, LimitsSection, RunFile};
use gymkhana_orchestration::plugins::pin;
use gymkhana_registry::{Kind, LockEntry};
use gymkhana_store::RunFolder;

use super::records::FolderContents;
use crate::error::{Classify, CliError, CliResult};

/// Rejects plugins of which workers would hold none, and sections that belong to the start of an episode.
///
/// # Errors
/// If no plugin is an environment or a tool, or there is such a section.
pub(super) fn check(file: &RunFile, contents: &FolderContents<'_>) -> CliResult<()> {
    for (is_set, section) in
        [(file.rules.context != Default::default(), "[context]"), (file.probe.is_some(), "[probe]")]
    {
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
pub(super) fn write(path: &Path, file: &RunFile, contents: &FolderContents<'_>) -> CliResult<()> {
    let played = contents.lock.entries().iter().filter(|entry| is_played(entry));
    let names: BTreeSet<&str> = played.map(|entry| entry.name.name()).collect();
    let own = contents.files.iter().filter(|file| names.contains(file.name()));
    let (files, lock) = pin(own.cloned().collect())?;
    let rules = rules_of_workers(&file.rules, &names);
    let folder = RunFolder::create(path, &RunFile::from(rules.clone()).resolved().internal()?)?;
    for file in &files {
        folder.add_plugin(&file.bytes)?;
    }
    contents.assets.store_of(&rules, &folder)?;
    Ok(folder.write_lock(&lock)?)
}

/// Whether workers play with a plugin.
fn is_played(entry: &LockEntry) -> bool {
    entry.kinds.iter().any(|kind| matches!(kind, Kind::Environment | Kind::Tool))
}

/// The rules that episodes depend on without their rewards.
fn rules_of_workers(rules: &EpisodeRules, plugins: &BTreeSet<&str>) -> EpisodeRules {
    let environment = EnvironmentSection {
        options: rules.environment.options.clone(),
        wrap: rules.environment.wrap.clone(),
        ..EnvironmentSection::default()
    };
    let limits = LimitsSection { episode_mib: rules.limits.episode_mib, ..LimitsSection::default() };
    let mut own = EpisodeRules {
        environment,
        limits,
        seats: rules.seats.clone(),
        plugins: rules.plugins.clone(),
        models: rules.models.clone(),
        sandbox: rules.sandbox.clone(),
        ..EpisodeRules::default()
    };
    own.retain_plugins(|name| plugins.contains(name));
    own
}
