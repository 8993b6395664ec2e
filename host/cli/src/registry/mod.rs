//! Plugins by name: found in registries, pinned, published, served.
//!
//! The crates `gymkhana-registry`, `-client` and `-server` do it; these commands say where this user's files are, ask
//! people, and print.

pub mod args;
mod names;
mod project;
mod publish;
mod serve;
mod use_plugins;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gymkhana_registry_client::{Client, Config, Places, Settings};

use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use args::{RegistryCommand, ServingCommand};

pub use names::{gather, look_up};

/// Does what was asked for.
pub fn run(command: RegistryCommand, printer: &Printer) -> CliResult<()> {
    match command {
        RegistryCommand::Add(args) => use_plugins::add(&args, printer),
        RegistryCommand::Remove { name } => use_plugins::remove(&name, printer),
        RegistryCommand::Update { names, fetch } => use_plugins::update(&names, fetch, printer),
        RegistryCommand::Lock { fetch } => use_plugins::lock(fetch, printer),
        RegistryCommand::Verify { dir, fetch } => use_plugins::verify(dir.as_deref(), fetch, printer),
        RegistryCommand::Search { words, json, fetch } => use_plugins::search(&words, json, fetch, printer),
        RegistryCommand::Keygen(args) => publish::keygen(&args, printer),
        RegistryCommand::Publish(args) => publish::publish(&args, printer),
        RegistryCommand::Yank(args) => publish::yank(&args, printer),
        RegistryCommand::Registry(ServingCommand::Mirror { registry, dir }) => serve::mirror(&registry, &dir, printer),
        RegistryCommand::Registry(command) => serve::run(command, printer),
    }
}

/// A client of the registries that this project or this user names, and its runtime.
struct Asker {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Asker {
    fn new(offline: bool) -> CliResult<Self> {
        let here = project::root_or_here()?;
        let users = user_folder("XDG_CONFIG_HOME", ".config");
        let config = Config::find(&here, users.as_deref()).user_error()?;
        let no_home = || CliError::user("there is no folder to keep plugins in; set HOME or XDG_CACHE_HOME to one");
        let cache = user_folder("XDG_CACHE_HOME", ".cache").ok_or_else(no_home)?.join("plugins");
        let memory = user_folder("XDG_STATE_HOME", ".local/state").ok_or_else(no_home)?.join("registries");
        let client = Client::new(config, Settings::new(Places { cache, memory }, offline)).user_error()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().internal()?;
        Ok(Self { client, runtime })
    }

    /// Waits for an answer, and tells what else the user should hear of.
    fn wait<T, E: Into<anyhow::Error>>(
        &self,
        printer: &Printer,
        answer: impl Future<Output = Result<T, E>>,
    ) -> CliResult<T> {
        let answer = self.runtime.block_on(answer);
        for notice in self.client.notices() {
            printer.status(notice);
        }
        answer.user_error()
    }
}

/// This user's folder of a kind, as the environment says or below HOME.
fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder(variable).or_else(|| Some(folder("HOME")?.join(below_home)))?;
    Some(base.join("gymkhana"))
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// So many days in seconds.
fn days(days: u64) -> u64 {
    days * 24 * 3600
}

/// The lock file in a folder, if there is one.
fn lock_in(folder: &Path) -> CliResult<Option<gymkhana_registry::Lock>> {
    let path = folder.join(gymkhana_registry::LOCK_FILE);
    if path.is_file() { gymkhana_registry::Lock::read(&path).map(Some).user_error() } else { Ok(None) }
}
