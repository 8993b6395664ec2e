//! Client of plugin registries. It treats every registry as untrusted.
//!
//! A registry is a folder, a static web server, a registry server, or an OCI registry. [`RegistryConfig`] defines the
//! registry of each namespace and its trust settings. Downloads are bounded in size, verified against digests and
//! signatures, and stored only after verification. The last accepted checkpoint of each registry is recorded, so that a
//! registry cannot return to an older state.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod backend;
mod client;
mod component;
mod config;
mod error;
mod mirror;
mod nearest;
mod oci;
mod ownership;
mod project;
mod publish;
mod remote;
mod search;
mod transport;
mod trust;
mod user;
mod versions;

pub use client::{ClientFolders, ClientSettings, RegistryClient, Unpinned};
pub use config::{CONFIG_FILE, Credentials, RegistryConfig, RegistryConfigError, RegistrySource, Trust};
pub use error::RegistryClientError;
pub use mirror::MirrorSummary;
pub use oci::error::OciError;
pub use ownership::{OwnerError, SAFE_FOLDERS_VARIABLE, TrustedOwners};
pub use project::{
    Pins, PluginResolver, Project, ProjectDependency, ProjectError, ProjectLock, lock_in, project_lock_in, root_or_here,
};
pub use publish::{PublishRequest, Secrets};
pub use search::SearchHit;
pub use transport::{FetchError, TransferLimits};
pub use user::{INSTALLED_VARIABLE, OpenError, PROJECT_FILE, installed_folder, project_folder, user_folder};
pub use versions::{PluginVersion, PluginVersions};
