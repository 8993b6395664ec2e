//! Data model of the plugin registry: names, digests, manifests, lock files, index, signatures, publishing rules, files.
//!
//! A plugin is one `.wasm` file with an embedded manifest. This crate parses untrusted bytes into typed values before
//! anything is compiled. It links no WebAssembly engine and contains no network code; `client` and `server` build on it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod content_store;
pub mod contract;
mod digest;
mod error_chain;
mod files;
mod folder;
mod hex;
mod index;
mod lock;
mod misleading;
mod plugin;
mod publish;
mod report;
mod resolve;
mod signing;

pub use content_store::{ContentFile, ContentStore, ContentStoreError, PendingFile};
pub use digest::{Digest, ParseDigestError};
pub use error_chain::ErrorChain;
pub use files::{
    MAX_TEXT_BYTES, PluginFileError, copy_atomically, open_lock_file, open_regular_file, read_argument,
    read_plugin_file, read_regular_file, read_regular_text, write_atomically,
};
pub use folder::{Authority, CHECKPOINT_FILE, FolderError, FolderReadError, RegistryFolder};
pub use index::{
    CATALOGUE_SCHEMA, CatalogueRow, INDEX_ROW_SCHEMA, IndexError, IndexRow, MAX_CATALOGUE_BYTES, MAX_INDEX_BYTES,
    check_append_only, read_catalogue, read_index, write_catalogue, write_index,
};
pub use lock::{LOCK_FILE, LOCK_SCHEMA, Lock, LockEntry, LockError, PluginFile};
pub use misleading::misleads;
pub use plugin::{
    Answered, Capability, ComponentDescription, ComponentError, ContractError, ContractStamp, EnvironmentDescription,
    ExampleEntry, FirstTask, FunctionDescription, Kind, MANIFEST_MAGIC, MANIFEST_SCHEMA, MANIFEST_SECTION,
    MAX_DESCRIPTION_BYTES, MAX_PLUGIN_BYTES, Manifest, ManifestError, Namespace, OptionDescription, ParseNameError,
    ParseNamespaceError, PluginName, Quantity, RewardDescription, RewardRange, SelfDescription, Speaker,
    SplitDescription, Structure, ToolDescription, exports, imports, parse_manifest_section, read_manifest, structure,
};
pub use publish::{
    MAX_REPORT_FUEL, MAX_REPORT_MEMORY, MIN_REPORT_ACTIONS, RuleViolation, TooSmallBump, VersionBump,
    check as check_release, check_namespace, is_confusable, is_confusable_namespace, suite_checks,
};
pub use report::{Check, CheckOutcome, REPORT_SCHEMA, Report, SUITE};
pub use resolve::{
    ParseRequirementError, PluginSource, Requirement, RequirementName, ResolveError, choose, without_consent,
};
pub use signing::{
    AcceptedCheckpoint, CHECKPOINT_SCHEMA, CheckpointError, KeyFileError, KeyHolder, MAX_CHECKPOINT_BYTES,
    MAX_RELEASE_BYTES, NamespaceKeys, ParseKeyError, PublicKey, Purpose, RELEASE_SCHEMA, RegistryCheckpoint, Release,
    ReleaseError, ReleaseStatus, Rotation, SecretKey, Signature, SignedText, SignedTextError,
};
