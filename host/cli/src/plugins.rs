//! From plugin files to the set of plugins that a run plays with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gymkhana_registry::{Kind, Lock, LockEntry, read_manifest, read_plugin_file};
use gymkhana_rollout::{Bound, BoundReward, PluginSet};
use gymkhana_sandbox::{Grants, Plugin, Sandbox, SandboxConfig};
use gymkhana_store::RunReader;

use crate::error::{Blame, CliError, CliResult};
use crate::options::named_values;
use crate::runfile::{RunFile, nearest};

/// A plugin's file: where it came from and its bytes.
pub struct PluginFile {
    /// Names it in messages.
    pub origin: String,
    /// The component.
    pub bytes: Vec<u8>,
}

/// Reads plugin files and pins them. Nothing is compiled yet.
pub fn read_files(paths: &[PathBuf]) -> CliResult<(Vec<PluginFile>, Lock)> {
    let (mut files, mut entries) = (Vec::new(), Vec::new());
    for path in paths {
        let origin = path.display().to_string();
        let bytes = read_plugin_file(path).users()?;
        entries.push(entry(&origin, &bytes)?);
        files.push(PluginFile { origin, bytes });
    }
    let lock = Lock::new(entries).users()?;
    Ok((files, lock))
}

fn entry(origin: &str, bytes: &[u8]) -> CliResult<LockEntry> {
    let wrong = |cause: String| CliError::mistake(format!("plugin file `{origin}` cannot be used: {cause}"));
    let manifest = read_manifest(bytes).map_err(|error| wrong(error.to_string()))?;
    manifest.check_contract().map_err(|error| wrong(error.to_string()))?;
    Ok(LockEntry::new(&manifest, gymkhana_registry::Digest::of(bytes)))
}

/// The plugins that a run's folder holds.
pub fn recorded_files(run: &RunReader) -> CliResult<Vec<PluginFile>> {
    let lock = run.lock()?;
    lock.entries()
        .iter()
        .map(|entry| Ok(PluginFile { origin: entry.name.to_string(), bytes: run.plugin(&entry.digest)? }))
        .collect()
}

/// A sandbox with the run file's limits.
pub fn sandbox(file: &RunFile) -> CliResult<Sandbox> {
    let config = SandboxConfig {
        limits: (&file.sandbox).into(),
        max_instances: file.sandbox.instances,
        ..SandboxConfig::default()
    };
    Sandbox::new(&config).ours()
}

/// Compiles the plugins and puts them together as the run file says.
pub async fn assemble(file: &RunFile, sandbox: &Sandbox, files: &[PluginFile]) -> CliResult<PluginSet> {
    let mut sorted: BTreeMap<Kind, Vec<Plugin>> = BTreeMap::new();
    for PluginFile { origin, bytes } in files {
        let plugin = Plugin::from_bytes(sandbox, origin, bytes, &Grants::default()).users()?;
        for kind in &plugin.manifest().kinds {
            sorted.entry(*kind).or_default().push(plugin.clone());
        }
    }
    let mut take = |kind| sorted.remove(&kind).unwrap_or_default();
    let (environments, tools, rewards) = (take(Kind::Environment), take(Kind::Tool), take(Kind::Reward));
    sections_have_plugins("tools", file.tools.keys(), &tools)?;
    sections_have_plugins("rewards", file.rewards.keys(), &rewards)?;
    let environment = bind(only_environment(environments)?, &file.environment.options)?;
    let tools = tools.into_iter().map(|plugin| {
        let options = file.tools.get(plugin.name()).map(|section| section.options.clone()).unwrap_or_default();
        bind(plugin, &options)
    });
    let rewards = rewards.into_iter().map(|plugin| {
        let section = file.rewards.get(plugin.name()).cloned().unwrap_or_default();
        Ok(BoundReward { bound: bind(plugin, &section.options)?, weight: section.weight })
    });
    let (tools, rewards) = (tools.collect::<CliResult<_>>()?, rewards.collect::<CliResult<_>>()?);
    PluginSet::assemble(environment, tools, rewards).await.users()
}

fn bind(plugin: Plugin, options: &crate::runfile::Options) -> CliResult<Bound> {
    let options = named_values(plugin.name(), options)?;
    Ok(Bound { plugin, options })
}

fn only_environment(mut environments: Vec<Plugin>) -> CliResult<Plugin> {
    match (environments.pop(), environments.pop()) {
        (Some(environment), None) => Ok(environment),
        (Some(one), Some(other)) => Err(CliError::mistake(format!(
            "plugins `{}` and `{}` are both environments; a run has exactly one",
            other.name(),
            one.name()
        ))),
        (None, _) => Err(CliError::mistake(
            "no plugin of the set is an environment; add one to --plugins, such as word-problems.wasm",
        )),
    }
}

/// A section of the run file that no plugin answers to would be a setting that nothing uses.
fn sections_have_plugins<'a>(
    section: &str,
    names: impl Iterator<Item = &'a String>,
    plugins: &[Plugin],
) -> CliResult<()> {
    let known: Vec<&str> = plugins.iter().map(Plugin::name).collect();
    for name in names.filter(|name| !known.contains(&name.as_str())) {
        let given = if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) };
        let near = nearest(name, known.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
        return Err(CliError::mistake(format!(
            "the run file has [{section}.{name}], but --plugins gives no such plugin; its {section} are {given}{}",
            near.unwrap_or_default()
        )));
    }
    Ok(())
}
