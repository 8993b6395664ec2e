//! The plugins of a new project, resolved, downloaded and described.

use gymkhana_registry::{
    Answered, EnvironmentDescription, LockEntry, Requirement, RequirementName, RewardDescription, SelfDescription,
    ToolDescription, structure,
};
use gymkhana_registry_client::Unpinned;

use super::questions::WantedParts;
use crate::args::InitArgs;
use crate::args::registry::{AddArgs, FetchArgs};
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::describe_component;
use crate::printer::Printer;
use crate::registry::RegistrySession;

/// Limit of run files that say nothing else, in MiB.
const DEFAULT_MEMORY_MIB: u64 = 64;
/// Memory limit of a larger plugin, in multiples of what it begins with.
const MEMORY_FACTOR: u64 = 2;

/// A plugin with what it says about itself.
pub struct Described<T> {
    pub entry: LockEntry,
    pub description: T,
    /// Memory limit in MiB, for a plugin that begins with more than the limit of run files.
    pub memory_mib: Option<u64>,
}

/// Plugins of a new project.
pub struct ChosenPlugins {
    /// `None` if the project's own environment is the one.
    pub environment: Option<Described<EnvironmentDescription>>,
    pub tools: Vec<Described<ToolDescription>>,
    pub rewards: Vec<Described<RewardDescription>>,
}

impl ChosenPlugins {
    /// Resolves and downloads the plugins, and asks each what it is.
    pub fn resolve(wanted: &WantedParts, session: &RegistrySession, printer: &Printer) -> CliResult<Self> {
        let one = |requirement: &Requirement| described(requirement, session, printer);
        let environment = wanted
            .environment
            .as_ref()
            .map(|requirement| one(requirement)?.of_kind("environment", |description| description.environment));
        let tools = wanted.tools.iter().map(|tool| one(tool)?.of_kind("tool", |description| description.tool));
        let rewards =
            wanted.rewards.iter().map(|reward| one(reward)?.of_kind("reward", |description| description.reward));
        let (tools, rewards) = (tools.collect::<CliResult<_>>()?, rewards.collect::<CliResult<_>>()?);
        Ok(Self { environment: environment.transpose()?, tools, rewards })
    }

    /// All plugins, the environment first, with their memory limits.
    pub fn entries(&self) -> impl Iterator<Item = (&LockEntry, Option<u64>)> {
        let environment = self.environment.iter().map(|one| (&one.entry, one.memory_mib));
        let tools = self.tools.iter().map(|one| (&one.entry, one.memory_mib));
        environment.chain(tools).chain(self.rewards.iter().map(|one| (&one.entry, one.memory_mib)))
    }

    /// Whether the project's own plugin is its only one.
    pub fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }

    /// Arguments of `host add` that pin them.
    pub fn as_added(&self, args: &InitArgs) -> AddArgs {
        let requirement = |entry: &LockEntry| Requirement {
            name: RequirementName::Full(entry.name.clone()),
            versions: semver::VersionReq::STAR,
        };
        AddArgs {
            plugins: self.entries().map(|(entry, _)| requirement(entry)).collect(),
            allow: args.allow.clone(),
            fetch: FetchArgs::default(),
        }
    }
}

fn described(
    requirement: &Requirement,
    session: &RegistrySession,
    printer: &Printer,
) -> CliResult<Described<SelfDescription>> {
    let wanted = std::slice::from_ref(requirement);
    let found = session.wait(printer, session.client().resolve(wanted, None, Unpinned::Resolve))?;
    let entry = found.into_iter().next().ok_or_else(|| CliError::internal("a requirement was not resolved"))?;
    let bytes = session.wait(printer, session.client().component(&entry))?;
    let begins_with = structure(&bytes).user_error()?.initial_memory.div_ceil(1 << 20);
    let memory_mib = (begins_with > DEFAULT_MEMORY_MIB).then_some(begins_with * MEMORY_FACTOR);
    Ok(Described { entry, description: describe_component(bytes, printer)?, memory_mib })
}

impl Described<SelfDescription> {
    /// The plugin as one of a kind, which it must be.
    fn of_kind<T>(self, kind: &str, of: impl FnOnce(SelfDescription) -> Option<T>) -> CliResult<Described<T>> {
        let Self { entry, description, memory_mib } = self;
        let description = of(description).ok_or_else(|| not_a(&entry, kind))?;
        Ok(Described { entry, description, memory_mib })
    }
}

fn not_a(entry: &LockEntry, kind: &str) -> CliError {
    CliError::user(format!("`{}` is of another kind than {kind}", entry.name)).with_hint(format!("host search {kind}"))
}

/// The answer, if one was given.
pub fn answer<T>(answered: &Answered<T>) -> Option<&T> {
    match answered {
        Answered::Given(answer) => Some(answer),
        Answered::Failed { .. } => None,
    }
}
