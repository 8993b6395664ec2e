//! Names, versions, digests, manifests and lock files of plugins; the registry's index, signatures, rules and files.
//!
//! A plugin is one `.wasm` file that carries its own manifest. This crate parses what names and describes such a
//! file, once, into types, and it does so before anything is compiled: it links no WebAssembly engine and trusts no
//! byte. It knows nothing of the host,
//! and nothing of networks: `client` and `server` do.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod capability;
mod component;
mod contents;
pub mod contract;
mod digest;
mod files;
mod folder;
mod hex;
mod index;
mod lock;
mod manifest;
mod name;
mod publish;
mod report;
mod resolve;
mod signing;

pub use capability::{Capability, Kind};
pub use component::{ComponentError, MAX_PLUGIN_BYTES, exports, imports};
pub use contents::{Contents, ContentsError, Incoming, Item};
pub use digest::{Digest, ParseDigestError};
pub use files::{PluginFileError, read_plugin_file, write_atomically};
pub use folder::{Authority, CHECKPOINT_FILE, FolderError, ReadError, RegistryFolder};
pub use index::{
    CATALOGUE_SCHEMA, CatalogueRow, IndexError, MAX_CATALOGUE_BYTES, MAX_INDEX_BYTES, ROW_SCHEMA, Row, check_goes_on,
    read_catalogue, read_index, write_catalogue, write_index,
};
pub use lock::{LOCK_FILE, LOCK_SCHEMA, Lock, LockEntry, LockError};
pub use manifest::{
    ContractError, ContractStamp, MANIFEST_MAGIC, MANIFEST_SCHEMA, MANIFEST_SECTION, Manifest, ManifestError,
    RewardRange, read_manifest,
};
pub use name::{Namespace, ParseNameError, ParseNamespaceError, PluginName};
pub use publish::{
    LEAST_ACTIONS, MOST_FUEL, MOST_MEMORY, Refusal, Step, TooSmallStep, check as check_release, check_namespace,
    suite_checks, too_close, too_close_namespace,
};
pub use report::{Check, Outcome, REPORT_SCHEMA, Report, SUITE};
pub use resolve::{ParseWantedError, Unresolved, Wanted, WantedName, choose, without_consent};
pub use signing::{
    Accepted, CHECKPOINT_SCHEMA, Checkpoint, CheckpointError, Holder, KeyFileError, Keys, MAX_CHECKPOINT_BYTES,
    MAX_RELEASE_BYTES, ParseKeyError, PublicKey, Purpose, RELEASE_SCHEMA, Release, ReleaseError, Rotation, SecretKey,
    Signature, Signed, SignedError, Standing,
};
