//! Source of a model's weights: a folder, or a repository and revision on a hub.

use std::path::PathBuf;

use gymkhana_hub::{Commit, Repository, Revision};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::RunFileError;

/// Source of a model: the path of a folder in the Hugging Face layout, or a table that names a repository on a hub.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Checkpoint {
    /// Path of a folder in the Hugging Face layout.
    Folder(PathBuf),
    /// Repository on a hub.
    Hub(HubModel),
}

/// Model on a hub, a table with these keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HubModel {
    /// Repository, such as `Qwen/Qwen2.5-0.5B-Instruct`.
    #[schemars(extend("x-range" = "`OWNER/NAME`"))]
    pub hub: String,
    /// Branch, tag or commit.
    #[serde(default = "main")]
    pub revision: String,
    /// Commit. A run pins it at its start, so that a resumed run uses the same weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^[0-9a-f]{40}$"), extend("x-range" = "40 hexadecimal digits"))]
    pub commit: Option<String>,
}

fn main() -> String {
    "main".to_owned()
}

impl<'de> Deserialize<'de> for Checkpoint {
    /// Deserializes by hand so that errors name the wrong key of a table.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(path) => Ok(Self::Folder(path.into())),
            toml::Value::Table(table) => {
                table.try_into().map(Self::Hub).map_err(|error| D::Error::custom(error.message()))
            }
            other => Err(D::Error::custom(format!(
                "{other} is not a model\nhint: write the path of a folder, or {{ hub = \"OWNER/NAME\", revision = \
                 \"main\" }}"
            ))),
        }
    }
}

impl Checkpoint {
    /// Rejects malformed names; `key` is the position in the run file.
    pub(crate) fn check(&self, key: &str) -> Result<(), RunFileError> {
        let Self::Hub(model) = self else { return Ok(()) };
        model.names().map(drop).map_err(|problem| RunFileError::Contradiction(format!("{key}: {problem}")))
    }
}

impl HubModel {
    /// The parsed names.
    ///
    /// # Errors
    /// The first malformed name.
    pub fn names(&self) -> Result<(Repository, Revision, Option<Commit>), String> {
        let repository = Repository::parse(&self.hub).map_err(|error| error.to_string())?;
        let revision = Revision::parse(&self.revision).map_err(|error| error.to_string())?;
        let commit = match &self.commit {
            None => None,
            Some(hash) => Some(Commit::parse(hash).ok_or(format!(
                "commit `{hash}` is not a hash of 40 digits\nhint: write all digits, or remove it to let the run pin \
                 one"
            ))?),
        };
        Ok((repository, revision, commit))
    }

    /// Reports whether both name the same repository and revision.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        (&self.hub, &self.revision) == (&other.hub, &other.revision)
    }
}
