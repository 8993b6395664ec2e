//! Arguments of the registry commands.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use gymkhana_registry::{Capability, Namespace, PublicKey, Requirement};

/// Commands that use registries.
#[derive(Debug, Subcommand)]
pub enum RegistryCommand {
    /// Add plugins to the project
    Add(AddArgs),
    /// Remove a plugin from the project
    Remove {
        /// Plugin, such as `gymkhana/calculator`
        name: String,
    },
    /// Update the project's plugins
    Update {
        /// Update these plugins only
        names: Vec<String>,
        /// Options for plugins from registries.
        #[command(flatten)]
        fetch: FetchArgs,
    },
    /// List the project's plugins and their versions
    List(PluginListArgs),
    /// List plugins with newer versions
    Outdated(ListArgs),
    /// Pin the project's plugins in gymkhana.lock
    Lock {
        /// Options for plugins from registries.
        #[command(flatten)]
        fetch: FetchArgs,
    },
    /// Verify signatures of pinned plugins
    Verify {
        /// Folder with gymkhana.lock [default: project]
        dir: Option<PathBuf>,
        /// Options for plugins from registries.
        #[command(flatten)]
        fetch: FetchArgs,
    },
    /// Search all registries for plugins
    Search {
        /// Words in names, kinds and descriptions
        words: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Options for plugins from registries.
        #[command(flatten)]
        fetch: FetchArgs,
    },
    /// Describe a released plugin and its versions
    Info(InfoArgs),
    /// Create a signing key
    Keygen(KeygenArgs),
    /// Publish a plugin to its namespace's registry
    Publish(PublishArgs),
    /// Withdraw a version from new resolutions
    Yank(YankArgs),
    /// Manage your own registry
    #[command(subcommand)]
    Registry(ServingCommand),
}

/// Use of registries.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct FetchArgs {
    /// Fail if gymkhana.lock would change
    #[arg(long)]
    pub locked: bool,
    /// Offline: use cached data only
    #[arg(long)]
    pub offline: bool,
}

/// `host add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Plugins, such as `gymkhana/calculator@^1` or `calculator`
    #[arg(required = true, value_name = "PLUGIN")]
    pub plugins: Vec<Requirement>,
    /// Allow a capability, such as `http` (repeatable)
    #[arg(long, value_name = "CAPABILITY", value_parser = capability)]
    pub allow: Vec<Capability>,
    /// Options for plugins from registries.
    #[command(flatten)]
    pub fetch: FetchArgs,
}

/// `host list`.
#[derive(Debug, Args)]
pub struct PluginListArgs {
    /// List the plugins of all registries, and where each is
    #[arg(long)]
    pub all: bool,
    /// Form of the list.
    #[command(flatten)]
    pub list: ListArgs,
}

/// `host outdated`, and a part of `host list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Offline: use cached data only
    #[arg(long)]
    pub offline: bool,
}

/// `host info` and `host registry info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Plugin, such as `gymkhana/calculator@^1` or `calculator`
    pub plugin: Requirement,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Offline: use cached data only
    #[arg(long)]
    pub offline: bool,
}

/// `host keygen`.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// File for the secret key; never overwritten
    pub file: PathBuf,
    /// Print the public key of an existing FILE
    #[arg(long, conflicts_with = "replaces")]
    pub show: bool,
    /// Rotate from OLD; writes FILE.rotation.json
    #[arg(long, value_name = "OLD", requires = "namespace")]
    pub replaces: Option<PathBuf>,
    /// Namespace of the old key
    #[arg(long, value_name = "NAME", requires = "replaces")]
    pub namespace: Option<Namespace>,
}

/// `host publish`.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Component, or folder of a plugin to build
    pub plugin: PathBuf,
    /// Check everything and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Report of `host plugin test --json` [default: new]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Keys.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// `host yank`.
#[derive(Debug, Args)]
pub struct YankArgs {
    /// Version, such as `acme/adder@1.2.3`
    pub version: String,
    /// Undo an earlier yank
    #[arg(long)]
    pub undo: bool,
    /// Keys.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// Signing keys.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// Secret key of the namespace
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Secret root key, for a signed folder
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// Validity of the signed state, in days
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3650))]
    pub days: u64,
}

/// `host registry`.
#[derive(Debug, Subcommand)]
pub enum ServingCommand {
    /// Create an empty registry in a folder
    Init {
        /// Empty folder
        dir: PathBuf,
        /// Keys of the new registry.
        #[command(flatten)]
        signing: InitArgs,
    },
    /// Grant a namespace to a publisher
    Grant {
        /// Folder of the registry
        dir: PathBuf,
        /// Namespace
        namespace: Namespace,
        /// Public key of the publisher
        key: PublicKey,
        /// Keys of the registry.
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Replace a publisher's or the root key
    Rotate {
        /// Folder of the registry
        dir: PathBuf,
        /// Rotation written by `host keygen --replaces`
        #[arg(long, value_name = "FILE", required_unless_present = "new_root")]
        rotation: Option<PathBuf>,
        /// Revoke the replaced key
        #[arg(long, requires = "rotation")]
        revoke: bool,
        /// New secret root key of the registry
        #[arg(long, value_name = "FILE", conflicts_with = "rotation")]
        new_root: Option<PathBuf>,
        /// Keys of the registry.
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Revoke a replaced key
    Revoke {
        /// Folder of the registry
        dir: PathBuf,
        /// Namespace
        namespace: Namespace,
        /// Old public key
        key: PublicKey,
        /// Keys of the registry.
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Refresh the signed state before it expires
    Sign {
        /// Folder of the registry
        dir: PathBuf,
        /// Keys of the registry.
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Create, revoke or list tokens of publishers
    Token {
        /// Folder of the registry
        dir: PathBuf,
        /// Namespaces of a new token [default: list tokens]
        namespaces: Vec<Namespace>,
        /// Revoke the token with this number
        #[arg(long, value_name = "NUMBER", conflicts_with = "namespaces")]
        revoke: Option<String>,
    },
    /// Serve a registry over HTTP
    Serve {
        /// Folder of the registry
        dir: PathBuf,
        /// Address, such as `127.0.0.1:8080`
        #[arg(long, value_name = "ADDRESS", value_parser = crate::parse::address)]
        listen: SocketAddr,
        /// Trust the last entry of `X-Forwarded-For`
        #[arg(long)]
        behind_proxy: bool,
        /// Keys of the registry.
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Describe a released plugin and its versions
    Info(InfoArgs),
    /// Copy a registry into a folder
    Mirror {
        /// Name in gymkhana-registries.toml
        registry: String,
        /// Folder of the copy
        dir: PathBuf,
    },
}

/// Signature of a new registry.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct InitArgs {
    /// Secret root key
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// Create an unsigned registry
    #[arg(long)]
    pub unsigned: bool,
}

/// Signature of a registry's state.
#[derive(Debug, Args)]
pub struct SigningArgs {
    /// Secret root key
    #[arg(long, value_name = "FILE")]
    pub root: PathBuf,
    /// Validity of the signed state, in days
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3650))]
    pub days: u64,
}

pub(super) fn capability(text: &str) -> Result<Capability, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected `assets`, `model`, `tools` or `http`".to_owned())
}
