//! The models that a run file or a command names: folders as they are, models on a hub through its cache.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gymkhana_trainer::{ModelConfig, ModelFiles, weight_files};
use gymkhana_world::{Commit, Hub, Repository, Revision};

use crate::error::{Blame, CliError, CliResult};
use crate::printer::{Printer, Progress};
use crate::runfile::{Checkpoint, HubModel, RunFile, SeatPolicy, SeatSection};

/// What progress is counted in.
const MEBIBYTE: u64 = 1 << 20;
const CONFIG: &str = "config.json";

/// The folders of models on a hub.
#[derive(Default)]
pub struct Models(BTreeMap<HubModel, PathBuf>);

impl Models {
    /// Finds the commits of the models that the run file names on a hub, writes them into it, and fetches those that are
    /// needed. `begun` is the run file of a run that is taken up again, whose commits stay; its own weights, where there
    /// is a checkpoint of them, are not fetched.
    pub async fn pin(
        file: &mut RunFile,
        begun: Option<&RunFile>,
        has_checkpoint: bool,
        printer: &Printer,
    ) -> CliResult<Self> {
        let begun_as = |seat: Option<&String>| match seat {
            None => begun?.policy.checkpoint.as_ref(),
            Some(seat) => begun?.seats.get(seat)?.checkpoint.as_ref(),
        };
        let mut models = Self::default();
        // A frozen seat without weights of its own has those that the run's policy began with.
        let frozen = |seat: &SeatSection| seat.policy == SeatPolicy::Frozen && seat.checkpoint.is_none();
        let needed = !has_checkpoint || file.seats.values().any(frozen);
        let own = file.policy.checkpoint.iter_mut().map(|checkpoint| (None, needed, checkpoint));
        let seats = file.seats.iter_mut().filter_map(|(name, seat)| {
            let needed = !has_checkpoint || seat.policy == SeatPolicy::Frozen;
            Some((Some(name), needed, seat.checkpoint.as_mut()?))
        });
        for (seat, needed, checkpoint) in own.chain(seats) {
            let Checkpoint::Hub(model) = checkpoint else { continue };
            if let Some(Checkpoint::Hub(before)) = begun_as(seat)
                && model.commit.is_none()
                && model.is_alike(before)
            {
                model.commit.clone_from(&before.commit);
            }
            models.add(model, needed, printer).await?;
        }
        Ok(models)
    }

    /// A single model, as a command names it.
    pub async fn of(mut checkpoint: Checkpoint, printer: &Printer) -> CliResult<PathBuf> {
        let mut models = Self::default();
        if let Checkpoint::Hub(model) = &mut checkpoint {
            models.add(model, true, printer).await?;
        }
        Ok(models.folder(&checkpoint))
    }

    async fn add(&mut self, model: &mut HubModel, needed: bool, printer: &Printer) -> CliResult<()> {
        let (repository, revision, commit) = model.names().map_err(CliError::mistake)?;
        if commit.is_some() && !needed {
            return Ok(());
        }
        let hub = Hub::from_environment().users()?;
        let commit = match commit {
            Some(commit) => commit,
            None => hub.commit(&repository, &revision).await.users()?,
        };
        model.commit = Some(commit.to_string());
        if needed {
            let fetched = Fetched { hub: &hub, repository: &repository, commit: &commit, printer };
            self.0.insert(model.clone(), fetched.whole().await?);
        }
        Ok(())
    }

    /// The folder of a model; for one of a hub that was not needed, none that is there.
    pub fn folder(&self, checkpoint: &Checkpoint) -> PathBuf {
        match checkpoint {
            Checkpoint::Folder(folder) => folder.clone(),
            Checkpoint::Hub(model) => self.0.get(model).cloned().unwrap_or_default(),
        }
    }
}

/// What a command calls a model: a folder that is there, else a name on a hub.
pub fn named(name: &Path, revision: Option<&str>) -> CliResult<Checkpoint> {
    let text = name.to_string_lossy();
    let hub = || {
        let revision = revision.unwrap_or("main").to_owned();
        Repository::parse(&text).users()?;
        Revision::parse(&revision).users()?;
        Ok(Checkpoint::Hub(HubModel { hub: text.to_string(), revision, commit: None }))
    };
    match (name.is_dir(), revision) {
        (true, None) => Ok(Checkpoint::Folder(name.to_owned())),
        (true, Some(_)) => {
            Err(CliError::mistake(format!("`{text}` is a folder, which has no revisions; leave --revision out")))
        }
        (false, _) if Repository::parse(&text).is_ok() && text.contains('/') && !name.exists() => hub(),
        (false, _) => Err(CliError::mistake(format!(
            "`{text}` is neither a folder nor the name of a model on a hub; give a model's folder, or OWNER/NAME"
        ))),
    }
}

/// A model on its way from the hub.
struct Fetched<'a> {
    hub: &'a Hub,
    repository: &'a Repository,
    commit: &'a Commit,
    printer: &'a Printer,
}

impl Fetched<'_> {
    /// Every file of it that is used; the weights last, when the rest is known to be of use.
    async fn whole(&self) -> CliResult<PathBuf> {
        let config = self.file(CONFIG).await?.ok_or_else(|| self.lacks(CONFIG))?;
        ModelConfig::read(&config).users()?;
        for name in ModelFiles::NAMES {
            self.file(name).await?;
        }
        let folder = self.hub.folder(self.repository, self.commit);
        ModelFiles::read(&folder).users()?;
        if self.file(weight_files::SINGLE).await?.is_some() {
            return Ok(folder);
        }
        let index = self.file(weight_files::INDEX).await?.ok_or_else(|| self.lacks(weight_files::SINGLE))?;
        let text = std::fs::read_to_string(&index).users()?;
        for shard in weight_files::shards(&text, &index).users()? {
            self.file(&shard).await?.ok_or_else(|| self.lacks(&shard))?;
        }
        Ok(folder)
    }

    async fn file(&self, name: &str) -> CliResult<Option<PathBuf>> {
        let bar: Mutex<Option<Progress>> = Mutex::new(None);
        let show = |progress: gymkhana_world::Progress<'_>| {
            let Some(size) = progress.size.filter(|size| *size > MEBIBYTE) else { return };
            let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
            let bar = bar.get_or_insert_with(|| {
                self.printer.talk(format!("fetching {name} of {}", self.repository));
                self.printer.progress("MiB", 0, size.div_ceil(MEBIBYTE))
            });
            bar.at(progress.done.div_ceil(MEBIBYTE), "");
        };
        self.hub.file(self.repository, self.commit, name, &show).await.users()
    }

    fn lacks(&self, name: &str) -> CliError {
        CliError::mistake(format!(
            "model `{}` has no {name} at {}; choose a revision, or a model, with safetensors weights and a fast tokenizer",
            self.repository, self.commit
        ))
    }
}
