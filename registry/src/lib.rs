//! Names, versions, digests, manifests and lock files of plugins.
//!
//! A plugin is one `.wasm` file that carries its own manifest. This crate parses what names and describes such a
//! file, once, into types, and it does so before anything is compiled: it links no WebAssembly engine and trusts no
//! byte. It knows nothing of the host.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod capability;
mod component;
pub mod contract;
mod digest;
mod files;
mod lock;
mod manifest;
mod name;
mod report;

pub use capability::{Capability, Kind};
pub use component::{ComponentError, MAX_PLUGIN_BYTES, exports, imports};
pub use digest::{Digest, ParseDigestError};
pub use files::{PluginFileError, read_plugin_file, write_atomically};
pub use lock::{LOCK_FILE, LOCK_SCHEMA, Lock, LockEntry, LockError};
pub use manifest::{
    ContractError, ContractStamp, MANIFEST_MAGIC, MANIFEST_SCHEMA, MANIFEST_SECTION, Manifest, ManifestError,
    RewardRange, read_manifest,
};
pub use name::{ParseNameError, PluginName};
pub use report::{Check, Outcome, REPORT_SCHEMA, Report, SUITE};
