//! Plugins of a run: reading, pinning, compiling and binding.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_registry::{
    Capability, ContractError, ErrorChain, Kind, LOCK_FILE, Lock, LockEntry, PluginFile, PluginFileError, PluginName,
    read_manifest, read_plugin_file,
};
use gymkhana_rollout::{BoundPlugin, BoundReward, PluginSet, UnknownTool};
use gymkhana_sandbox::{Limits, Plugin, Sandbox, SandboxConfig};
use gymkhana_store::RunReader;

use crate::code_cache;
use crate::error::{Classify, RunError, RunResult};
use crate::grants::{self, AssetFiles, OutboundMode};
use crate::mcp;
use crate::options::named_values;
use crate::report::Reporter;
use gymkhana_config::{EpisodeRules, PluginSection, RunFile, SandboxSection, WrapperEntry};
use gymkhana_nearest::{did_you_mean, nearest};

/// Whether this host implements the contract of a plugin. A file without a sound manifest passes: loading it reports the
/// damage.
fn check_contract(file: &PluginFile) -> Result<(), ContractError> {
    read_manifest(&file.bytes).map_or(Ok(()), |manifest| manifest.check_contract())
}

/// Rejects recorded plugins of a contract that this host does not implement, with this hint.
///
/// # Errors
/// For the first such plugin.
pub fn check_contracts(files: &[PluginFile], hint: &str) -> RunResult<()> {
    let checked = files.iter().try_for_each(check_contract);
    checked.user_error().map_err(|error| error.with_hint(hint))
}

/// Reads a plugin file; its origin is its path.
///
/// # Errors
/// If it cannot be read, or does not hold a plugin for this host's contract.
pub fn read_file(path: &Path) -> RunResult<PluginFile> {
    let read = match read_plugin_file(path) {
        Err(PluginFileError::Missing(_)) if let Some(near) = near_file(path) => {
            let message = format!("cannot read plugin `{}`: the file does not exist", path.display());
            return Err(RunError::user(message).with_hint(format!("did you mean `{near}`?")));
        }
        read => read.user_error()?,
    };
    file_of(path.display().to_string(), read)
}

/// Reads a component that `[plugins.NAME]` names; its plugin must have this short name.
///
/// # Errors
/// As [`read_file`], or if the file holds another plugin.
pub fn read_file_of(name: &str, path: &Path) -> RunResult<PluginFile> {
    let file = read_file(path)?;
    if file.name() == name {
        return Ok(file);
    }
    let (path, found) = (path.display(), file.name());
    let message = format!("plugins.{name}.use is `{path}`, which holds plugin `{found}`");
    Err(RunError::user(message).with_hint(format!("write it below [plugins.{found}]")))
}

/// The component in the folder of a path whose name is most similar to that of the path.
fn near_file(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".wasm")?.to_owned())).collect();
    let near = nearest(path.file_stem()?.to_str()?, names.iter().map(String::as_str))?;
    Some(path.with_file_name(format!("{near}.wasm")).display().to_string())
}

/// Sorts plugins by name, and locks them. Prompts list functions and rewards are summed in this order, so a replay must
/// find them in the same order in the lock. Nothing is compiled.
///
/// # Errors
/// If two plugins share a name.
pub fn pin(mut files: Vec<PluginFile>) -> RunResult<(Vec<PluginFile>, Lock)> {
    files.sort_by(|one, other| one.entry.name.cmp(&other.entry.name));
    let entries = files.iter().map(|file| file.entry.clone()).collect();
    let lock = Lock::new(entries).user_error()?;
    short_names_differ(lock.entries().iter().map(|entry| &entry.name))?;
    Ok((files, lock))
}

/// Rejects plugins of other kinds than reward, except those that replace a recorded plugin of another contract.
pub fn only_rewards(lock: &Lock, recorded: &[PluginFile]) -> RunResult<()> {
    let replaces = |name: &str| recorded.iter().any(|file| file.name() == name && check_contract(file).is_err());
    let is_other =
        |entry: &&LockEntry| entry.kinds.iter().any(|kind| *kind != Kind::Reward) && !replaces(entry.name.name());
    let other = lock.entries().iter().find(is_other);
    other.map_or(Ok(()), |entry| {
        let message = format!("plugin `{}` is not a reward, but only rewards score recorded episodes", entry.name);
        Err(RunError::user(message).with_hint("name reward plugins only"))
    })
}

/// Rejects equal short names, because run files and records use the part behind the slash only.
pub fn short_names_differ<'a>(names: impl Iterator<Item = &'a PluginName>) -> RunResult<()> {
    let mut seen: BTreeMap<&str, &PluginName> = BTreeMap::new();
    for name in names {
        if let Some(other) = seen.insert(name.name(), name) {
            return Err(RunError::user(format!(
                "plugins `{other}` and `{name}` share the short name `{}` in run files and records\nhint: remove one of \
                 them",
                name.name()
            )));
        }
    }
    Ok(())
}

/// The file of a component, called `origin` in messages.
///
/// # Errors
/// If it does not hold a plugin for this host's contract.
pub fn file_of(origin: String, bytes: Vec<u8>) -> RunResult<PluginFile> {
    let wrong = |cause: &dyn std::error::Error| {
        RunError::user(format!("plugin file `{origin}` cannot be used: {}", ErrorChain(cause)))
    };
    let manifest = read_manifest(&bytes).map_err(|error| wrong(&error))?;
    manifest.check_contract().map_err(|error| wrong(&error))?;
    let entry = LockEntry::new(&manifest, gymkhana_registry::Digest::of(&bytes));
    Ok(PluginFile { origin, entry, bytes })
}

/// Plugins stored in a run's folder.
pub fn recorded_files(run: &RunReader) -> RunResult<Vec<PluginFile>> {
    let lock = run.lock()?;
    lock.entries()
        .iter()
        .map(|entry| {
            let bytes = run.plugin(&entry.digest)?;
            Ok(PluginFile { origin: entry.name.to_string(), entry: entry.clone(), bytes })
        })
        .collect()
}

/// Plugins stored in a run's folder with their pins, for a resumed run.
pub fn recorded(run: &RunReader) -> RunResult<(Vec<PluginFile>, Lock)> {
    let stored = recorded_files(run).and_then(|files| Ok((files, run.lock()?)));
    stored.map_err(|error| {
        error.with_hint(format!(
            "restore the file from a copy of the run, or pass the run's plugins with --plugins: `{}` names them",
            run.path().join(LOCK_FILE).display()
        ))
    })
}

/// A sandbox with the limits of a section `[sandbox]`.
pub fn sandbox(section: &SandboxSection, reporter: &Arc<dyn Reporter>) -> RunResult<Sandbox> {
    let config =
        SandboxConfig { limits: sandbox_limits(section), max_instances: section.instances, ..SandboxConfig::default() };
    let sandbox = code_cache::sandbox(config, |text| reporter.warn(text))?;
    let reporter = Arc::clone(reporter);
    Ok(sandbox.on_compile(move |plugin, bytes| reporter.compiling(plugin, bytes)))
}

/// Limits of plugin calls in a section `[sandbox]`.
fn sandbox_limits(section: &SandboxSection) -> Limits {
    Limits {
        budget: Duration::from_secs_f64(section.budget_seconds),
        episode_budget: Duration::from_secs_f64(section.episode_budget_seconds),
        fuel_per_call: section.fuel_per_call,
        fuel_per_episode: section.fuel_per_episode,
        wall: Duration::from_secs_f64(section.wall_seconds),
        memory_bytes: section.memory_mib << 20,
        result_bytes: section.result_mib << 20,
        log_bytes: section.log_kib << 10,
        ..Limits::default()
    }
}

/// Compiles the plugins with their grants and their sharing. `wrappers` are the plugins that may play an environment inside.
///
/// # Errors
/// If a plugin is refused, or a section `[plugins.NAME]` has no plugin.
pub fn load(
    rules: &EpisodeRules,
    wrappers: &BTreeSet<String>,
    sandbox: &Sandbox,
    files: &[PluginFile],
    assets: &AssetFiles,
    mode: OutboundMode,
) -> RunResult<Vec<Plugin>> {
    let mut plugins = Vec::new();
    for file in files {
        let (name, PluginFile { origin, bytes, .. }) = (file.name(), file);
        if let Some(server) = mcp::plugin(rules, name, bytes, mode)? {
            plugins.push(server);
            continue;
        }
        let mut grants = rules.plugins.get(name).map(grants::grants).unwrap_or_default();
        if wrappers.contains(name) {
            grants.0.insert(Capability::InnerEnvironment);
        }
        let sandbox = with_memory(rules, sandbox, name);
        plugins.push(Plugin::from_bytes(&sandbox, origin, bytes, &grants).user_error()?);
    }
    sections_have_plugins(rules, &plugins)?;
    for plugin in &mut plugins {
        section_fits(rules, plugin)?;
        *plugin = with_sharing(rules, grants::grant(rules, assets, mode, plugin)?)?;
    }
    Ok(plugins)
}

/// Plugins by kind, each sorted by name.
pub(crate) struct ByKind {
    pub environments: Vec<Plugin>,
    /// Environments that need another one inside.
    pub wrappers: Vec<Plugin>,
    pub tools: Vec<Plugin>,
    pub rewards: Vec<Plugin>,
}

impl ByKind {
    /// Sorts plugins; one of several kinds is in several lists.
    pub fn of(plugins: Vec<Plugin>) -> Self {
        let mut sorted: BTreeMap<Kind, Vec<Plugin>> = BTreeMap::new();
        for plugin in plugins {
            for kind in &plugin.manifest().kinds {
                sorted.entry(*kind).or_default().push(plugin.clone());
            }
        }
        let mut take = |kind| sorted.remove(&kind).unwrap_or_default();
        let (wrappers, environments) = take(Kind::Environment).into_iter().partition(Plugin::is_wrapper);
        Self { environments, wrappers, tools: take(Kind::Tool), rewards: take(Kind::Reward) }
    }
}

/// Rejects a run file with several environments for a command that plays one.
///
/// # Errors
/// If the run file has `[[environments]]`.
pub fn plays_one_environment(file: &RunFile) -> RunResult<()> {
    if file.environments.is_empty() {
        return Ok(());
    }
    Err(RunError::user("this command plays one environment, but the run file has [[environments]]")
        .with_hint("write its keys in [environment]"))
}

/// Binds loaded plugins, sorted by name, of which one is an environment.
///
/// # Errors
/// If there is not exactly one environment, or a section or an option has no plugin.
pub async fn bind_all(rules: &EpisodeRules, plugins: Vec<Plugin>) -> RunResult<PluginSet> {
    let ByKind { environments, wrappers, tools, rewards } = ByKind::of(plugins);
    bind_set(rules, only_environment(environments)?, &wrappers, tools, rewards).await
}

/// Binds an environment, its wrappers, tools and rewards as the run file says.
///
/// # Errors
/// If a section or an option has no plugin.
pub(crate) async fn bind_set(
    rules: &EpisodeRules,
    environment: Plugin,
    wrappers: &[Plugin],
    tools: Vec<Plugin>,
    rewards: Vec<Plugin>,
) -> RunResult<PluginSet> {
    servers_are_loaded(rules, &tools)?;
    let environment = wrap(bind(environment, &rules.environment.options)?, &rules.environment.wrap, wrappers)?;
    let tools = tools.into_iter().map(|plugin| {
        let section = section_of(rules, plugin.name());
        bind(plugin, &section.options)
    });
    let rewards = rewards.into_iter().map(|plugin| {
        let section = section_of(rules, plugin.name());
        let term = crate::rewards::term(plugin.name(), section.weight, section.schedule, section.gate.as_deref())?;
        Ok(BoundReward { bound: bind(plugin, &section.options)?, term })
    });
    let (tools, rewards) = (tools.collect::<RunResult<_>>()?, rewards.collect::<RunResult<_>>()?);
    let set = PluginSet::assemble(environment, tools, rewards).await.user_error()?;
    with_rewards_of_seats(with_tools_of_seats(set, rules)?, rules)
}

/// The set in which rewards give all seats the score of the seat that the run file names.
fn with_rewards_of_seats(set: PluginSet, rules: &EpisodeRules) -> RunResult<PluginSet> {
    rules.plugins.iter().try_fold(set, |set, (reward, section)| {
        let Some(name) = &section.seat else { return Ok(set) };
        let Some(seat) = set.seat_names().iter().position(|seat| seat == name) else {
            let near = did_you_mean(name, set.seat_names().iter().map(String::as_str));
            let message = format!("plugins.{reward}.seat is `{name}`, and the environment has no such seat");
            let hint = format!("its seats are {}{near}", set.seat_names().join(", "));
            return Err(RunError::user(message).with_hint(hint));
        };
        Ok(set.with_reward_of_seat(reward, seat as u32))
    })
}

/// The set with the tools that the run file gives to each seat. Seats that do not exist are found later.
fn with_tools_of_seats(set: PluginSet, rules: &EpisodeRules) -> RunResult<PluginSet> {
    rules.seats.iter().try_fold(set, |set, (name, section)| {
        let seat = set.seat_names().iter().position(|seat| seat == name);
        let (Some(seat), Some(tools)) = (seat, &section.tools) else { return Ok(set) };
        let known: Vec<String> = set.tool_names().map(str::to_owned).collect();
        set.with_tools_of_seat(seat as u32, tools).map_err(|UnknownTool { tool }| {
            let near = did_you_mean(&tool, known.iter().map(String::as_str));
            RunError::user(format!("seats.{name}.tools names `{tool}`, and --plugins gives no such tool"))
                .with_hint(format!("add its file to --plugins, or remove it from the list{near}"))
        })
    })
}

/// The environment inside of its wrappers, of which the first is the outermost.
fn wrap(environment: BoundPlugin, wrap: &[WrapperEntry], wrappers: &[Plugin]) -> RunResult<BoundPlugin> {
    wrap.iter().rev().try_fold(environment, |inside, WrapperEntry { plugin: name, options }| {
        let wrapper = wrappers.iter().find(|plugin| plugin.name() == name).ok_or_else(|| {
            let known: Vec<&str> = wrappers.iter().map(Plugin::name).collect();
            let near = did_you_mean(name, known.iter().copied());
            RunError::user(format!("--plugins gives no wrapper `{name}`, which `wrap` lists"))
                .with_hint(format!("add its file to --plugins, or remove it from `wrap`{near}"))
        })?;
        let plugin = wrapper.wrapping(&inside.plugin, inside.options).user_error()?;
        bind(plugin, options)
    })
}

/// The sandbox with the memory limit that the run file sets for a plugin.
fn with_memory(rules: &EpisodeRules, sandbox: &Sandbox, plugin: &str) -> Sandbox {
    let own = rules.plugins.get(plugin).and_then(|section| section.memory_mib);
    own.map_or_else(|| sandbox.clone(), |mib| sandbox.with_memory(mib << 20))
}

/// The plugin, shared among episodes if the run file says so.
fn with_sharing(rules: &EpisodeRules, plugin: Plugin) -> RunResult<Plugin> {
    if !rules.plugins.get(plugin.name()).is_some_and(|section| section.shared) {
        return Ok(plugin);
    }
    if plugin.manifest().kinds.iter().all(|kind| *kind == Kind::Reward) {
        return Err(RunError::user(format!(
            "plugins.{name}.shared is set, but rewards never share an instance\nhint: remove it",
            name = plugin.name()
        )));
    }
    if plugin.is_wrapper() {
        let name = plugin.name();
        return Err(RunError::user(format!("plugins.{name}.shared is set, but wrappers never share an instance"))
            .with_hint("remove it"));
    }
    Ok(plugin.with_shared_instances(rules.sandbox.shared_episodes))
}

fn bind(plugin: Plugin, options: &gymkhana_config::Options) -> RunResult<BoundPlugin> {
    let options = named_values(plugin.name(), options)?;
    Ok(BoundPlugin { plugin, options })
}

/// The environment of a run with one.
pub(crate) fn only_environment(mut environments: Vec<Plugin>) -> RunResult<Plugin> {
    match (environments.pop(), environments.pop()) {
        (Some(environment), None) => Ok(environment),
        (Some(one), Some(other)) => Err(RunError::user(format!(
            "plugins `{}` and `{}` are both environments, but a run with [environment] has exactly one\nhint: remove one of them, \
             or list them in [[environments]] of a run file",
            other.name(),
            one.name()
        ))),
        (None, _) => {
            Err(RunError::user("no plugin is an environment\nhint: add one to --plugins, such as word-problems.wasm"))
        }
    }
}

/// Rejects MCP servers where the command has started none.
fn servers_are_loaded(rules: &EpisodeRules, tools: &[Plugin]) -> RunResult<()> {
    let is_loaded = |name: &String| tools.iter().any(|tool| tool.name() == name);
    match rules.plugins.iter().find(|(name, section)| section.mcp.is_some() && !is_loaded(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let message =
                format!("[plugins.{name}] is an MCP server, and this command starts none: they are tools of runs");
            Err(RunError::user(message).with_hint("remove the section, and give the agent the server's own address"))
        }
    }
}

/// The section of a plugin, or the default one.
fn section_of(rules: &EpisodeRules, plugin: &str) -> PluginSection {
    rules.plugins.get(plugin).cloned().unwrap_or_default()
}

/// Rejects sections without a plugin, because their settings would have no effect. A server is not loaded by all commands.
fn sections_have_plugins(rules: &EpisodeRules, plugins: &[Plugin]) -> RunResult<()> {
    let known: Vec<&str> = plugins.iter().map(Plugin::name).collect();
    let mut sections = rules.plugins.iter().filter(|(_, section)| section.mcp.is_none()).map(|(name, _)| name);
    let Some(name) = sections.find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let hint = match &known[..] {
        [] => "remove the section".to_owned(),
        known => format!("use one of `{}`{}", known.join("`, `"), did_you_mean(name, known.iter().copied())),
    };
    Err(RunError::user(format!("[plugins.{name}] is unused: no such plugin is given")).with_hint(hint))
}

/// Rejects keys of a section that have no effect on a plugin of its kinds.
fn section_fits(rules: &EpisodeRules, plugin: &Plugin) -> RunResult<()> {
    let name = plugin.name();
    let Some(section) = rules.plugins.get(name) else { return Ok(()) };
    let is = |kind| plugin.manifest().kinds.contains(&kind);
    let of_reward = [
        ("weight", section.weight != 1.0),
        ("schedule", section.schedule.is_some()),
        ("gate", section.gate.is_some()),
        ("seat", section.seat.is_some()),
    ];
    if let Some((key, _)) = of_reward.into_iter().find(|(_, is_set)| *is_set && !is(Kind::Reward)) {
        let message = format!("plugins.{name}.{key} is set, but plugin `{name}` is not a reward");
        return Err(RunError::user(message).with_hint("remove it; `[environment]` has the weight of its own rewards"));
    }
    if !section.options.is_empty() && !is(Kind::Tool) && !is(Kind::Reward) {
        let (kind, place) = if plugin.is_wrapper() {
            ("a wrapper", "its entry of `wrap`")
        } else {
            ("an environment", "[environment]")
        };
        let message = format!("plugins.{name}.options is set, but plugin `{name}` is {kind}");
        return Err(RunError::user(message).with_hint(format!("write its options in {place}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_gets_what_the_run_file_says() {
        let smallest = "success = \"environment.success\"\n[[stages]]\nkind = \"rl\"\n";
        let sets = ["episode_budget_seconds=2.5", "fuel_per_call=5000", "fuel_per_episode=7000", "log_kib=3"];
        let sets = sets.map(|set| format!("sandbox.{set}"));
        let file = RunFile::parse(smallest, "run.toml", &sets).expect("a sound file");
        let limits = sandbox_limits(&file.rules.sandbox);
        assert_eq!(limits.episode_budget, Duration::from_millis(2500));
        assert_eq!((limits.fuel_per_call, limits.fuel_per_episode, limits.log_bytes), (Some(5000), Some(7000), 3072));
    }
}
