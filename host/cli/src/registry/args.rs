//! The command line of plugins by name: using, publishing and serving them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use gymkhana_registry::{Capability, Namespace, PublicKey, Wanted};

/// Commands that know registries.
#[derive(Debug, Subcommand)]
pub enum RegistryCommand {
    /// Use plugins of a registry in this project
    Add(AddArgs),
    /// Use a plugin no more
    Remove {
        /// The plugin, such as `gymkhana/calculator`
        name: String,
    },
    /// Take newer versions of this project's plugins
    Update {
        /// Only these plugins
        names: Vec<String>,
        #[command(flatten)]
        fetch: FetchArgs,
    },
    /// Pin this project's plugins in gymkhana.lock, without taking newer versions
    Lock {
        #[command(flatten)]
        fetch: FetchArgs,
    },
    /// See that pinned plugins are what their publishers signed
    Verify {
        /// The folder with gymkhana.lock: a project or a run; by default this project
        dir: Option<PathBuf>,
        #[command(flatten)]
        fetch: FetchArgs,
    },
    /// Look for plugins in all registries
    Search {
        /// Words of names, kinds and descriptions
        words: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        fetch: FetchArgs,
    },
    /// Make a key to sign releases or a registry with
    Keygen(KeygenArgs),
    /// Publish a plugin where its namespace is served
    Publish(PublishArgs),
    /// Withdraw a version from new resolutions
    Yank(YankArgs),
    /// Registries of one's own
    #[command(subcommand)]
    Registry(ServingCommand),
}

/// How registries may be asked.
#[derive(Debug, Clone, Copy, Args)]
pub struct FetchArgs {
    /// Change nothing that gymkhana.lock pins
    #[arg(long)]
    pub locked: bool,
    /// Ask nobody: use what is here
    #[arg(long)]
    pub offline: bool,
}

/// `host add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The plugins, such as `gymkhana/calculator@^1`, or `calculator` where one registry alone has it
    #[arg(required = true, value_name = "PLUGIN")]
    pub plugins: Vec<Wanted>,
    /// Agree to a capability that one asks for, such as `http`; may be given several times
    #[arg(long, value_name = "CAPABILITY", value_parser = capability)]
    pub allow: Vec<Capability>,
    #[command(flatten)]
    pub fetch: FetchArgs,
}

/// `host keygen`.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Where the secret key is written; a file that is there is never overwritten
    pub file: PathBuf,
    /// Let this old key hand over to the new one: FILE.rotation.json is for the registry's maintainer
    #[arg(long, value_name = "OLD", requires = "namespace")]
    pub replaces: Option<PathBuf>,
    /// The namespace whose key the old one is
    #[arg(long, value_name = "NAME", requires = "replaces")]
    pub namespace: Option<Namespace>,
}

/// `host publish`.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// The `.wasm` file
    pub file: PathBuf,
    /// The report that `host plugin test --json` wrote about it; without one the suite is run now
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// `host yank`.
#[derive(Debug, Args)]
pub struct YankArgs {
    /// The version, such as `acme/adder@1.2.3`
    pub version: String,
    /// Bring it back
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// Whose word a change is.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// The secret key of the namespace, as `host keygen` wrote it
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The secret root key, where the registry is a signed folder of one's own
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// For how many days such a folder's state counts before it must be signed again
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3650))]
    pub days: u64,
}

/// `host registry`.
#[derive(Debug, Subcommand)]
pub enum ServingCommand {
    /// Make an empty registry in a folder
    Init {
        /// The folder, which must be empty
        dir: PathBuf,
        #[command(flatten)]
        signing: InitArgs,
    },
    /// Give a namespace to a publisher
    Grant {
        /// The registry's folder
        dir: PathBuf,
        /// The namespace
        namespace: Namespace,
        /// The publisher's public key, as `host keygen` printed it
        key: PublicKey,
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Put a new key in the place of an old one
    Rotate {
        /// The registry's folder
        dir: PathBuf,
        /// What `host keygen --replaces` wrote for a namespace's publisher
        #[arg(long, value_name = "FILE", required_unless_present = "new_root")]
        rotation: Option<PathBuf>,
        /// The old key was stolen: what it signed counts no more
        #[arg(long, requires = "rotation")]
        revoke: bool,
        /// The registry's new secret root key
        #[arg(long, value_name = "FILE", conflicts_with = "rotation")]
        new_root: Option<PathBuf>,
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Let what a replaced key signed count no more
    Revoke {
        /// The registry's folder
        dir: PathBuf,
        /// The namespace
        namespace: Namespace,
        /// The old public key
        key: PublicKey,
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Sign a registry's state again, so that it goes on counting
    Sign {
        /// The registry's folder
        dir: PathBuf,
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Make a token for publishers, revoke one, or list them
    Token {
        /// The registry's folder
        dir: PathBuf,
        /// The namespaces of a new token; without any, tokens are listed
        namespaces: Vec<Namespace>,
        /// Revoke the token of this number
        #[arg(long, value_name = "NUMBER", conflicts_with = "namespaces")]
        revoke: Option<String>,
    },
    /// Serve a registry over HTTP and take releases; put a proxy with TLS in front of it
    Serve {
        /// The registry's folder
        dir: PathBuf,
        /// The address, such as `127.0.0.1:8080`
        #[arg(long, value_name = "ADDRESS", value_parser = crate::args::address)]
        listen: SocketAddr,
        /// All clients come through a proxy of yours: the last entry of its `X-Forwarded-For` says who they are
        #[arg(long)]
        behind_proxy: bool,
        #[command(flatten)]
        signing: SigningArgs,
    },
    /// Copy a registry into a folder, or what of it has changed
    Mirror {
        /// Its name in gymkhana-registries.toml
        registry: String,
        /// The folder
        dir: PathBuf,
    },
}

/// Who signs a new registry.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct InitArgs {
    /// The secret root key, as `host keygen` wrote it
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// Nobody signs it: whoever can write there can put anything there
    #[arg(long)]
    pub unsigned: bool,
}

/// Who signs a registry's state.
#[derive(Debug, Args)]
pub struct SigningArgs {
    /// The secret root key
    #[arg(long, value_name = "FILE")]
    pub root: PathBuf,
    /// For how many days the state counts before it must be signed again
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3650))]
    pub days: u64,
}

fn capability(text: &str) -> Result<Capability, String> {
    serde_json::from_value(text.into()).map_err(|_| "give `assets`, `model`, `tools` or `http`".to_owned())
}
