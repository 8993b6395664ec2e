//! The plugins of a new project, resolved, downloaded and described.

use gymkhana_registry::{
    Answered, EnvironmentDescription, LockEntry, Requirement, RequirementName, RewardDescription, SelfDescription,
};
use gymkhana_registry_client::Unpinned;

use super::questions::WantedParts;
use crate::args::InitArgs;
use crate::args::registry::{AddArgs, FetchArgs};
use crate::error::{CliError, CliResult};
use crate::plugin::describe_component;
use crate::printer::Printer;
use crate::registry::RegistrySession;

/// A plugin with what it says about itself.
pub struct Described<T> {
    pub entry: LockEntry,
    pub description: T,
}

/// Plugins of a new project.
pub struct ChosenPlugins {
    /// `None` if the project's own environment is the one.
    pub environment: Option<Described<EnvironmentDescription>>,
    pub tools: Vec<LockEntry>,
    pub rewards: Vec<Described<RewardDescription>>,
}

impl ChosenPlugins {
    /// Resolves and downloads the plugins, and asks each what it is.
    pub fn resolve(wanted: &WantedParts, session: &RegistrySession, printer: &Printer) -> CliResult<Self> {
        let one = |requirement: &Requirement| described(requirement, session, printer);
        let environment = wanted.environment.as_ref().map(|requirement| {
            let (entry, description) = one(requirement)?;
            let description = description.environment.ok_or_else(|| not_a(&entry, "environment"))?;
            Ok::<_, CliError>(Described { entry, description })
        });
        let tools = wanted.tools.iter().map(|requirement| {
            let (entry, description) = one(requirement)?;
            description.tool.ok_or_else(|| not_a(&entry, "tool")).map(|_| entry)
        });
        let rewards = wanted.rewards.iter().map(|requirement| {
            let (entry, description) = one(requirement)?;
            let description = description.reward.ok_or_else(|| not_a(&entry, "reward"))?;
            Ok(Described { entry, description })
        });
        let (tools, rewards) = (tools.collect::<CliResult<_>>()?, rewards.collect::<CliResult<_>>()?);
        Ok(Self { environment: environment.transpose()?, tools, rewards })
    }

    /// All plugins, the environment first.
    pub fn entries(&self) -> impl Iterator<Item = &LockEntry> {
        let environment = self.environment.iter().map(|one| &one.entry);
        environment.chain(&self.tools).chain(self.rewards.iter().map(|one| &one.entry))
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
            plugins: self.entries().map(requirement).collect(),
            allow: args.allow.clone(),
            fetch: FetchArgs::default(),
        }
    }
}

fn described(
    requirement: &Requirement,
    session: &RegistrySession,
    printer: &Printer,
) -> CliResult<(LockEntry, SelfDescription)> {
    let wanted = std::slice::from_ref(requirement);
    let found = session.wait(printer, session.client().resolve(wanted, None, Unpinned::Resolve))?;
    let entry = found.into_iter().next().ok_or_else(|| CliError::internal("a requirement was not resolved"))?;
    let bytes = session.wait(printer, session.client().component(&entry))?;
    Ok((entry, describe_component(bytes, printer)?))
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
