//! A worker: takes the runs and servers of the bus one after the other, and plays their groups and episodes.

mod ends;
mod hosting;
mod open;
mod play;
mod policy;
mod session;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_orchestration::{Reporter, RunError, RunResult};
use gymkhana_rollout::StartAgent;
use gymkhana_waits::Reminder;

use crate::bus::{Bus, BusSettings, Names, RunKey, SILENCE, without_password};
use crate::description::{Description, WorkKind};
use crate::signature::Signer;
use hosting::SessionHost;
use session::WorkerSession;
use watch::{Over, owner_lives};

/// Time between two looks for a run.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The bus.
    pub bus: BusSettings,
    /// The run to play; absent for any.
    pub run: Option<RunKey>,
    /// Most groups at once.
    pub groups: usize,
    /// Folder for files of runs.
    pub cache: PathBuf,
    /// Whether the worker ends with its first run.
    pub once: bool,
    /// Time after which the worker leaves a run whose trainer does not answer.
    pub trainer_timeout: Duration,
    /// Key that signs what the worker sends; absent for a new one in each run.
    pub key: Option<Signer>,
    /// Whether runs may start programs on this machine: agents and MCP servers.
    pub allow_programs: bool,
    /// Starts agent programs of runs.
    pub agents: StartAgent,
}

impl WorkerSettings {
    fn signer(&self) -> Signer {
        self.key.clone().unwrap_or_else(Signer::temporary)
    }
}

/// What a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worked {
    /// Runs in which it played.
    pub runs: u64,
    /// Groups whose result the trainer took.
    pub groups: u64,
    /// Episodes of servers that began or continued here.
    pub episodes: u64,
}

/// What the worker has opened.
enum Opened {
    Run(Box<WorkerSession>),
    Server(Box<SessionHost>),
}

/// A worker on this machine.
pub struct Worker {
    settings: WorkerSettings,
    bus: Bus,
    /// Name in messages: the machine and the process.
    name: String,
    reporter: Arc<dyn Reporter>,
}

impl Worker {
    /// Connects to the bus.
    ///
    /// # Errors
    /// If the bus cannot be used.
    pub async fn connect(settings: WorkerSettings, reporter: Arc<dyn Reporter>) -> RunResult<Self> {
        let machine = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        let name = format!("{}-{}", machine.trim(), std::process::id());
        let bus = Bus::connect(&settings.bus, &format!("gymkhana worker {name}")).await?;
        Ok(Self { settings, bus, name, reporter })
    }

    /// Plays until `stop` is ready, or, if so set, until the first run is over. Jobs in progress go back to the queue.
    ///
    /// # Errors
    /// If a run is of another version or needs what this machine does not allow, its plugins cannot be opened, or the
    /// trainer refuses a result.
    pub async fn work(&self, stop: impl Future<Output = ()>) -> RunResult<Worked> {
        let mut stop = std::pin::pin!(stop);
        let mut worked = Worked::default();
        // Lives of runs whose trainer did not answer.
        let mut lost = BTreeSet::new();
        self.reporter.status(&format!("waiting for a run at {}", without_password(&self.settings.bus.url)));
        loop {
            let found = tokio::select! {
                () = &mut stop => return Ok(worked),
                found = self.find(&lost) => found?,
            };
            let (run, description) = found;
            let (epoch, work) = (description.epoch.clone(), description.work);
            let opened = tokio::select! {
                () = &mut stop => return Ok(worked),
                opened = self.open(&run, description) => opened,
            };
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) if self.has(&run, &epoch).await => return Err(error),
                // The run ended, or the bus lost it, while it was being opened.
                Err(error) => {
                    tracing::debug!("run {run} was not opened: {error}");
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
            };
            let over = match opened {
                Opened::Run(session) => {
                    self.reporter.status(&format!("playing groups of run {run}"));
                    let (over, groups) = session.play(&mut stop).await?;
                    worked.groups += groups;
                    worked.runs += u64::from(groups > 0);
                    over
                }
                Opened::Server(hosting) => {
                    self.reporter.status(&format!("holding episodes of server {run}"));
                    let (over, episodes) = hosting.serve(&mut stop).await?;
                    worked.episodes += episodes;
                    over
                }
            };
            match over {
                Over::Stopped => return Ok(worked),
                Over::Lost => {
                    let silent = self.settings.trainer_timeout.as_secs();
                    self.reporter.warn(&match work {
                        WorkKind::Groups => format!(
                            "the trainer of run {run} has not answered for {silent} s, so that this worker leaves the \
                             run\nhint: use `host run --resume` at the trainer; its workers then come back"
                        ),
                        WorkKind::Sessions => format!(
                            "server {run} has not answered for {silent} s, so that this worker leaves it\nhint: start \
                             the server again; its workers then come back"
                        ),
                    });
                    if self.settings.once {
                        return Ok(worked);
                    }
                    lost.insert((run, epoch));
                }
                Over::Ended if self.settings.once => return Ok(worked),
                Over::Renewed => {}
                Over::Ended => self.reporter.status(&format!("run {run} has ended; waiting for the next")),
            }
        }
    }

    /// Fetches the files of a run or a server and opens its plugins.
    async fn open(&self, run: &RunKey, description: Description) -> RunResult<Opened> {
        let Self { settings, bus, name, reporter } = self;
        Ok(match description.work {
            WorkKind::Groups => {
                Opened::Run(Box::new(WorkerSession::open(bus, settings, name, run, description, reporter).await?))
            }
            WorkKind::Sessions => {
                Opened::Server(Box::new(SessionHost::open(bus, settings, name, run, description, reporter).await?))
            }
        })
    }

    /// Whether the bus has this life of a run.
    async fn has(&self, run: &RunKey, epoch: &str) -> bool {
        let Ok(Some(runs)) = self.bus.runs().await else { return false };
        let Ok(Some(text)) = runs.get(run.to_string()).await else { return false };
        read(run, &text).is_ok_and(|description| description.epoch == epoch)
    }

    /// A run of the bus, or the one that was asked for, when it is there.
    async fn find(&self, lost: &BTreeSet<(RunKey, String)>) -> RunResult<(RunKey, Description)> {
        let mut silence = Reminder::new(SILENCE);
        loop {
            if let Some(found) = self.find_run(lost, &mut silence).await? {
                return Ok(found);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The first run whose trainer answers, else the first that is not among the `lost` ones.
    async fn find_run(
        &self,
        lost: &BTreeSet<(RunKey, String)>,
        silence: &mut Reminder,
    ) -> RunResult<Option<(RunKey, Description)>> {
        // Without an answer of the bus, the next look tries again.
        let Ok(runs) = self.bus.runs().await else {
            if let Some(waited) = silence.due() {
                self.reporter.warn(&format!(
                    "the bus has not answered for {} s; this worker waits for it\nhint: check that nats-server runs and can be \
                     reached",
                    waited.as_secs()
                ));
            }
            return Ok(None);
        };
        silence.answered();
        let Some(runs) = runs else { return Ok(None) };
        let keys: Vec<RunKey> = match &self.settings.run {
            Some(run) => vec![run.clone()],
            None => {
                let Ok(keys) = runs.keys().await else { return Ok(None) };
                let keys: Vec<_> = futures::StreamExt::collect(keys).await;
                let mut keys: Vec<RunKey> = keys.into_iter().filter_map(|key| RunKey::parse(&key.ok()?)).collect();
                keys.sort();
                keys
            }
        };
        let (mut silent, mut refused) = (None, None);
        for run in keys {
            let Ok(Some(text)) = runs.get(run.to_string()).await else { continue };
            match read(&run, &text) {
                Ok(description) => {
                    let names = Names::new(run.clone(), description.epoch.clone());
                    let owner = description.owner(&self.bus, &self.reporter)?;
                    if owner_lives(&owner, &names).await {
                        return Ok(Some((run, description)));
                    }
                    if !lost.contains(&(run.clone(), description.epoch.clone())) {
                        silent.get_or_insert((run, description));
                    }
                }
                Err(error) => refused = Some(error),
            }
        }
        match (silent, refused) {
            (None, Some(refused)) => Err(refused),
            (silent, _) => Ok(silent),
        }
    }
}

/// The description of a run or a server, if this program can play it.
fn read(run: &RunKey, text: &[u8]) -> RunResult<Description> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        /// Absent in those of early versions.
        work: Option<WorkKind>,
        versions: crate::description::Versions,
    }
    let malformed = |error: &dyn std::fmt::Display| {
        RunError::user(format!("run {run} has a description that this program does not read: {error}"))
            .with_hint("use the trainer's version of `host`")
    };
    let Versioned { work, versions } = serde_json::from_slice(text).map_err(|error| malformed(&error))?;
    let owner = if work == Some(WorkKind::Sessions) { "the server" } else { "the trainer" };
    if let Some(difference) = versions.difference(owner) {
        let refused = format!("run {run} cannot be played: {difference}");
        return Err(RunError::user(refused).with_hint(format!("use {owner}'s version of `host`")));
    }
    Description::parse(text).map_err(|error| malformed(&error))
}
