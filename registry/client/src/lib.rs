//! Fetches plugins from registries, and believes none of them.
//!
//! A registry is a folder, any web server, our own server, or an OCI registry; [`Config`] says which one serves a
//! namespace, and what is trusted there. What comes is capped, hashed while it comes, checked against signatures, and
//! kept only then. What was seen of a registry is remembered, so that it cannot go back.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod component;
mod config;
mod error;
mod http;
mod memory;
mod mirror;
mod oci;
mod publish;
mod site;
mod upload;
mod vouchers;

pub use client::{RegistryClient, SearchHit, ClientFolders, ClientSettings, Unpinned};
pub use config::{CONFIG_FILE, RegistryConfig, RegistryConfigError, RegistrySource, Trust};
pub use error::RegistryClientError;
pub use http::{FetchError, TransferLimits};
pub use mirror::MirrorSummary;
pub use oci::OciError;
pub use publish::{PublishRequest, Secrets};
