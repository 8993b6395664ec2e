//! Where a model's weights come from: a folder, or a hub by name and revision.

use std::path::PathBuf;

use gymkhana_hub::{Commit, Repository, Revision};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::RunFileError;

/// A trained model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Checkpoint {
    /// A folder in the Hugging Face layout.
    Folder(PathBuf),
    /// A model on a hub.
    Hub(HubModel),
}

/// A model on a hub.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubModel {
    /// Its name, such as `Qwen/Qwen2.5-0.5B-Instruct`.
    pub hub: String,
    /// A branch, a tag or a commit.
    #[serde(default = "main")]
    pub revision: String,
    /// The commit that the revision was when the run began: a resumed run goes on with the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

fn main() -> String {
    "main".to_owned()
}

impl<'de> Deserialize<'de> for Checkpoint {
    /// By hand, since messages would else not say what is wrong with a table.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(path) => Ok(Self::Folder(path.into())),
            toml::Value::Table(table) => {
                table.try_into().map(Self::Hub).map_err(|error| D::Error::custom(error.message()))
            }
            other => Err(D::Error::custom(format!(
                "{other} is no model; write a folder's path, or {{ hub = \"OWNER/NAME\", revision = \"main\" }}"
            ))),
        }
    }
}

impl Checkpoint {
    /// Refuses names that no model can have; `key` is where it stands.
    pub(crate) fn check(&self, key: &str) -> Result<(), RunFileError> {
        let Self::Hub(model) = self else { return Ok(()) };
        model.names().map(drop).map_err(|problem| RunFileError::Contradiction(format!("{key}: {problem}")))
    }
}

impl HubModel {
    /// The names, parsed.
    ///
    /// # Errors
    /// With what is wrong with one of them.
    pub fn names(&self) -> Result<(Repository, Revision, Option<Commit>), String> {
        let repository = Repository::parse(&self.hub).map_err(|error| error.to_string())?;
        let revision = Revision::parse(&self.revision).map_err(|error| error.to_string())?;
        let commit = match &self.commit {
            None => None,
            Some(hash) => Some(Commit::parse(hash).ok_or(format!(
                "commit `{hash}` is no whole one of 40 digits; write it out, or leave it to the run to find"
            ))?),
        };
        Ok((repository, revision, commit))
    }

    /// Whether the other names the same model and revision.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        (&self.hub, &self.revision) == (&other.hub, &other.revision)
    }
}
