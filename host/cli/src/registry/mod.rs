//! Registry commands: find, pin, publish and serve plugins by name.
//!
//! The crates `gymkhana-registry`, `-client` and `-server` do the work; these commands locate the user's files, ask for
//! consent, and print.

mod add;
mod contact;
mod info;
mod list;
mod list_all;
mod names;
mod publish;
mod search;
mod serve;
mod update;
mod verify;

use std::time::{SystemTime, UNIX_EPOCH};

use gymkhana_registry_client::{PluginResolver, RegistryClient};

use crate::args::plugin::GivenInputs;
use crate::args::registry::{RegistryCommand, ServingCommand};
use crate::error::{Classify, CliResult};
use crate::printer::Printer;

pub use add::add;
pub use contact::{configured, contact_all};
pub use info::info;
pub use names::{look_up, name_of, named};
pub use publish::read_report;

/// Runs a command.
pub fn run(command: RegistryCommand, printer: &Printer) -> CliResult<()> {
    match command {
        RegistryCommand::Add(args) => add::run(&args, printer),
        RegistryCommand::Remove { name } => add::remove(&name, printer),
        RegistryCommand::Update { names, fetch } => update::update(&names, fetch, printer),
        RegistryCommand::Lock { fetch } => update::lock(fetch, printer),
        RegistryCommand::List(args) => list::list(&args, printer),
        RegistryCommand::Outdated(args) => list::outdated(&args, printer),
        RegistryCommand::Verify { dir, fetch } => verify::verify(dir.as_deref(), fetch, printer),
        RegistryCommand::Search { words, json, fetch } => search::search(&words, json, fetch, printer),
        RegistryCommand::Info(args) => info(&args, &GivenInputs::default(), printer),
        RegistryCommand::Keygen(args) => publish::keygen(&args, printer),
        RegistryCommand::Publish(args) => publish::publish(&args, printer),
        RegistryCommand::Yank(args) => publish::yank(&args, printer),
        RegistryCommand::Registry(ServingCommand::Mirror { registry, dir }) => serve::mirror(&registry, &dir, printer),
        RegistryCommand::Registry(command) => serve::run(command, printer),
    }
}

/// Resolver of this project and this user, with its runtime.
pub struct RegistrySession {
    resolver: PluginResolver,
    runtime: tokio::runtime::Runtime,
}

impl RegistrySession {
    /// The session of the working directory.
    ///
    /// # Errors
    /// If the project or the configuration of registries cannot be used.
    pub fn new(offline: bool) -> CliResult<Self> {
        let resolver = PluginResolver::here(offline).user_error()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().internal()?;
        Ok(Self { resolver, runtime })
    }

    /// The registries.
    pub fn client(&self) -> &RegistryClient {
        self.resolver.client()
    }

    /// Waits for a request and prints the client's notices.
    pub fn wait<T, E: Into<anyhow::Error>>(
        &self,
        printer: &Printer,
        answer: impl Future<Output = Result<T, E>>,
    ) -> CliResult<T> {
        let answer = self.runtime.block_on(answer);
        for notice in self.client().take_notices() {
            printer.status(notice);
        }
        answer.user_error()
    }
}

/// Unix time in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Days in seconds.
fn days(days: u64) -> u64 {
    days * 24 * 3600
}

/// A list of names.
fn listed(items: impl Iterator<Item = impl std::fmt::Display>) -> String {
    items.map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
