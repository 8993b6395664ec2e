//! Models of a run file or a command: local folders, and repositories on a hub through its cache.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_hub::{Commit, Hub, Repository, Revision};
use gymkhana_store::RunReader;
use gymkhana_trainer::{ModelConfig, ModelFiles, weight_files};

use gymkhana_config::{Checkpoint, HubModel, RunFile, SeatBinding, SeatSection};
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_orchestration::{Progress, ProgressFigures, Reporter, Work};

/// Bytes per unit of progress.
const MEBIBYTE: u64 = 1 << 20;
const CONFIG: &str = "config.json";

/// Local folders of models on a hub.
#[derive(Default)]
pub struct Models(BTreeMap<HubModel, PathBuf>);

impl Models {
    /// Resolves the commits of the run file's models on a hub, writes them into the run file, and downloads the models
    /// that are needed. `begun` is the original run file of a resumed run, whose commits stay; the policy's initial
    /// weights are not downloaded if there is a checkpoint.
    pub async fn pin(
        file: &mut RunFile,
        begun: Option<&RunFile>,
        has_checkpoint: bool,
        reporter: &Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let begun_as = |seat: Option<&String>| match seat {
            None => begun?.policy.checkpoint.as_ref(),
            Some(seat) => begun?.rules.seats.get(seat)?.checkpoint.as_ref(),
        };
        let mut models = Self::default();
        // A frozen seat without weights of its own uses the initial weights of the run's policy.
        let frozen = |seat: &SeatSection| seat.policy == SeatBinding::Frozen && seat.checkpoint.is_none();
        let needed = !has_checkpoint || file.rules.seats.values().any(frozen);
        let own = file.policy.checkpoint.iter_mut().map(|checkpoint| (None, needed, checkpoint));
        let seats = file.rules.seats.iter_mut().filter_map(|(name, seat)| {
            let needed = !has_checkpoint || seat.policy == SeatBinding::Frozen;
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
            models.add(model, needed, reporter).await?;
        }
        Ok(models)
    }

    /// Folder of a single model, given on the command line.
    pub async fn of(mut checkpoint: Checkpoint, reporter: &Arc<dyn Reporter>) -> RunResult<PathBuf> {
        let mut models = Self::default();
        if let Checkpoint::Hub(model) = &mut checkpoint {
            models.add(model, true, reporter).await?;
        }
        models.folder(&checkpoint).map(Path::to_owned)
    }

    async fn add(&mut self, model: &mut HubModel, needed: bool, reporter: &Arc<dyn Reporter>) -> RunResult<()> {
        let (repository, revision, commit) = model.names().map_err(RunError::user)?;
        if commit.is_some() && !needed {
            return Ok(());
        }
        let hub = Hub::from_environment().user_error()?;
        let commit = match commit {
            Some(commit) => commit,
            None => hub.commit(&repository, &revision).await.user_error()?,
        };
        model.commit = Some(commit.to_string());
        if needed {
            let fetched = ModelDownload { hub: &hub, repository: &repository, commit: &commit, reporter };
            self.0.insert(model.clone(), fetched.whole().await?);
        }
        Ok(())
    }

    /// Folder of a model.
    ///
    /// # Errors
    /// If the model is on a hub and was not downloaded.
    pub fn folder<'a>(&'a self, checkpoint: &'a Checkpoint) -> RunResult<&'a Path> {
        match checkpoint {
            Checkpoint::Folder(folder) => Ok(folder),
            Checkpoint::Hub(model) => {
                let missing = || RunError::internal(format!("model `{}` was not downloaded", model.hub));
                self.0.get(model).map(PathBuf::as_path).ok_or_else(missing)
            }
        }
    }
}

/// Source of a model given on the command line: an existing folder, else a repository on a hub.
pub fn named(name: &Path, revision: Option<&str>) -> RunResult<Checkpoint> {
    let text = name.to_string_lossy();
    let hub = || {
        let revision = revision.unwrap_or("main").to_owned();
        Repository::parse(&text).user_error()?;
        Revision::parse(&revision).user_error()?;
        Ok(Checkpoint::Hub(HubModel { hub: text.to_string(), revision, commit: None }))
    };
    if let Some(newest) = newest_model(name)? {
        return Err(RunError::user(format!(
            "`{text}` is a run, not a model\nhint: its newest model is `{}`",
            newest.display()
        )));
    }
    match (name.is_dir(), revision) {
        (true, None) => Ok(Checkpoint::Folder(name.to_owned())),
        (true, Some(_)) => {
            Err(RunError::user(format!("`{text}` is a folder, which has no revisions\nhint: remove --revision")))
        }
        (false, _) if Repository::parse(&text).is_ok() && text.contains('/') && !name.exists() => hub(),
        (false, _) => Err(RunError::user(format!(
            "`{text}` is neither a folder nor a model on a hub\nhint: give a model's folder, or OWNER/NAME"
        ))),
    }
}

/// The newest checkpoint, if the folder is a run's.
fn newest_model(folder: &Path) -> RunResult<Option<PathBuf>> {
    match RunReader::open(folder) {
        Ok(run) => Ok(run.checkpoints()?.pop()),
        Err(_) => Ok(None),
    }
}

/// Download of a model.
struct ModelDownload<'a> {
    hub: &'a Hub,
    repository: &'a Repository,
    commit: &'a Commit,
    reporter: &'a Arc<dyn Reporter>,
}

impl ModelDownload<'_> {
    /// Downloads all files in use, the weights last, after the other files have been checked.
    async fn whole(&self) -> RunResult<PathBuf> {
        let config = self.file(CONFIG).await?.ok_or_else(|| self.lacks(CONFIG))?;
        ModelConfig::read(&config).user_error()?;
        for name in ModelFiles::NAMES {
            self.file(name).await?;
        }
        let folder = self.hub.folder(self.repository, self.commit);
        ModelFiles::read(&folder).user_error()?;
        if self.file(weight_files::SINGLE).await?.is_some() {
            return Ok(folder);
        }
        let index = self.file(weight_files::INDEX).await?.ok_or_else(|| self.lacks(weight_files::SINGLE))?;
        let text = std::fs::read_to_string(&index).user_error()?;
        for shard in weight_files::shards(&text, &index).user_error()? {
            self.file(&shard).await?.ok_or_else(|| self.lacks(&shard))?;
        }
        Ok(folder)
    }

    async fn file(&self, name: &str) -> RunResult<Option<PathBuf>> {
        let bar: Mutex<Option<Box<dyn Progress>>> = Mutex::new(None);
        let show = |progress: gymkhana_hub::DownloadProgress<'_>| {
            let Some(size) = progress.size.filter(|size| *size > MEBIBYTE) else { return };
            let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
            let bar = bar.get_or_insert_with(|| {
                self.reporter.status(&format!("downloading {name} of {}", self.repository));
                self.reporter.progress(Work::new("downloading (MiB)", size.div_ceil(MEBIBYTE)))
            });
            bar.at(progress.done.div_ceil(MEBIBYTE), &ProgressFigures::default());
        };
        self.hub.file(self.repository, self.commit, name, &show).await.user_error()
    }

    fn lacks(&self, name: &str) -> RunError {
        RunError::user(format!(
            "model `{}` has no {name} at {}\nhint: choose a revision or a model with safetensors weights and a fast \
             tokenizer",
            self.repository, self.commit
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_orchestration::RunErrorKind;

    #[test]
    fn a_model_that_was_not_downloaded_is_an_error() {
        let model = HubModel { hub: "owner/model".to_owned(), revision: "main".to_owned(), commit: None };
        let checkpoint = Checkpoint::Hub(model);
        let error = Models::default().folder(&checkpoint).expect_err("nothing was downloaded");
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (RunErrorKind::Internal, "model `owner/model` was not downloaded")
        );
    }
}
