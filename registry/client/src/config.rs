//! `gymkhana-registries.toml`: the registries, their trust settings, and the registry of each namespace.
//!
//! Each namespace is served by exactly one registry. A plugin that this registry lacks is not searched elsewhere, which
//! prevents dependency confusion.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gymkhana_registry::{Namespace, PublicKey};
use serde::Deserialize;
use url::{Host, Url};

use crate::ownership::{OwnerError, TrustedOwners};

/// File name of the configuration.
pub const CONFIG_FILE: &str = "gymkhana-registries.toml";

/// Configured registries and namespaces.
#[derive(Debug, Clone, Default)]
pub struct RegistryConfig {
    /// Registries by local name.
    pub registries: BTreeMap<String, RegistrySource>,
    /// Name of the registry that serves each namespace.
    pub namespaces: BTreeMap<Namespace, String>,
}

/// Location and trust settings of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrySource {
    /// Local folder.
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Trust settings.
        trust: Trust,
    },
    /// Static web server or registry server.
    Web {
        /// URL of the folder with the checkpoint, ending with a slash.
        url: Url,
        /// Trust settings.
        trust: Trust,
        /// Additional origins that are allowed as redirect targets.
        also: Vec<Url>,
        /// Environment variable with the publishing token.
        token: Option<String>,
    },
    /// OCI registry with plugins in the layout of `wkg`.
    Oci {
        /// URL prefix of the repositories `namespace/name`, ending with a slash.
        url: Url,
        /// Keys that may sign releases; `None` accepts unsigned releases.
        keys: Option<BTreeSet<PublicKey>>,
        /// Additional origins that are allowed as redirect targets and token endpoints.
        also: Vec<Url>,
        /// Password, if the registry requires one.
        credentials: Option<Credentials>,
    },
}

/// Password of an OCI registry and its permitted receivers, from the user's own configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Environment variable with `user:password`.
    pub variable: String,
    /// Origins of token endpoints that may receive the password, besides the registry's own.
    pub also: Vec<Url>,
}

/// Trust settings of a registry with a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The checkpoint is signed by this root key or a successor.
    Root(PublicKey),
    /// The checkpoint is not verified: everyone with write access is trusted.
    Unsigned,
}

impl Trust {
    /// Root key, if signatures are verified.
    #[must_use]
    pub fn root(&self) -> Option<PublicKey> {
        match self {
            Self::Root(key) => Some(*key),
            Self::Unsigned => None,
        }
    }
}

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryConfigError {
    /// I/O error.
    #[error("cannot read `{path}`\nhint: check its permissions")]
    Read {
        /// File.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// Malformed TOML or unknown keys.
    #[error("cannot parse `{path}`")]
    Syntax {
        /// File.
        path: PathBuf,
        /// TOML error.
        source: Box<toml::de::Error>,
    },
    /// A project file of another user.
    #[error("cannot use a project's registries")]
    Owner(#[from] OwnerError),
    /// A project file names a secret. Such a file may come with a cloned, untrusted project, together with the server.
    #[error(
        "registry `{name}` in the project file `{path}` names a secret, which only your own configuration may do\nhint: \
         remove `token` and `credentials` there, and add them to a registry with the same URL in `{users}`"
    )]
    SecretInProject {
        /// File.
        path: PathBuf,
        /// Registry name.
        name: String,
        /// The user's configuration file.
        users: PathBuf,
    },
    /// Invalid registry settings.
    #[error("registry `{name}` in `{path}` {problem}")]
    Backend {
        /// File.
        path: PathBuf,
        /// Registry name.
        name: String,
        /// Problem, with a hint.
        problem: &'static str,
    },
    /// A namespace is mapped to an undefined registry.
    #[error(
        "namespace `{namespace}` in `{path}` is mapped to the undefined registry `{name}`\nhint: add `[registries.{name}]`"
    )]
    NoRegistry {
        /// File.
        path: PathBuf,
        /// Namespace.
        namespace: Namespace,
        /// Registry name.
        name: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    registries: BTreeMap<String, RegistryEntry>,
    #[serde(default)]
    namespaces: BTreeMap<Namespace, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryEntry {
    folder: Option<PathBuf>,
    url: Option<Url>,
    oci: Option<Url>,
    root: Option<PublicKey>,
    keys: Option<BTreeSet<PublicKey>>,
    #[serde(default)]
    unsigned: bool,
    #[serde(default)]
    also: Vec<Url>,
    token: Option<String>,
    credentials: Option<String>,
}

impl RegistryConfig {
    /// Reads the file in the project folder, otherwise the one in the user's configuration folder; empty if both are
    /// missing. A registry of a project gets its secret only from the user's file: from the registry with the longest URL
    /// that begins its own.
    ///
    /// # Errors
    /// If a file cannot be used, or the project's file belongs to another user or names a secret.
    pub fn find(folder: &Path, users: Option<&Path>, owners: &TrustedOwners) -> Result<Self, RegistryConfigError> {
        let users = users.map(|folder| folder.join(CONFIG_FILE));
        let of_user = users.as_deref().filter(|path| path.is_file());
        let project = folder.join(CONFIG_FILE);
        let canonical = |path: &Path| fs::canonicalize(path).ok();
        let is_project = project.is_file() && of_user.is_none_or(|path| canonical(path) != canonical(&project));
        let user = of_user.map(Self::read).transpose()?.unwrap_or_default();
        if !is_project {
            return Ok(user);
        }
        owners.check(&project)?;
        let mut config = Self::read(&project)?;
        if let Some((name, _)) = config.registries.iter().find(|(_, source)| source.names_secret()) {
            let users = users.unwrap_or_else(|| Path::new("~/.config/gymkhana").join(CONFIG_FILE));
            return Err(RegistryConfigError::SecretInProject { path: project, name: name.clone(), users });
        }
        for source in config.registries.values_mut() {
            source.adopt_secret(user.registries.values());
        }
        Ok(config)
    }

    /// Adds the namespaces that this configuration leaves open, with their registries, under names that are free here.
    pub fn complete(&mut self, other: Self) {
        let Self { registries, namespaces } = other;
        let open = namespaces.into_iter().filter(|(namespace, _)| !self.namespaces.contains_key(namespace));
        let open: Vec<(Namespace, String)> = open.collect();
        for (name, source) in registries {
            let mut free = name.clone();
            while self.registries.contains_key(&free) {
                free.push('+');
            }
            let own = open.iter().filter(|(_, of)| *of == name);
            let mapped: Vec<_> = own.map(|(namespace, _)| (namespace.clone(), free.clone())).collect();
            if !mapped.is_empty() {
                self.namespaces.extend(mapped);
                self.registries.insert(free, source);
            }
        }
    }

    /// Reads a configuration file of the user.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Self, RegistryConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| RegistryConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Parses the text of a configuration file. Relative paths are resolved against the folder of `path`.
    ///
    /// # Errors
    /// If the text is invalid.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RegistryConfigError> {
        let syntax = |source| RegistryConfigError::Syntax { path: path.to_owned(), source: Box::new(source) };
        let ConfigFile { registries, namespaces } = toml::from_str(text).map_err(syntax)?;
        let base = path.parent().unwrap_or(Path::new(""));
        let parse = |(name, entry): (String, RegistryEntry)| match entry.into_source(base) {
            Ok(source) => Ok((name, source)),
            Err(problem) => Err(RegistryConfigError::Backend { path: path.to_owned(), name, problem }),
        };
        let registries: BTreeMap<String, RegistrySource> =
            registries.into_iter().map(parse).collect::<Result<_, _>>()?;
        if let Some((namespace, name)) = namespaces.iter().find(|(_, name)| !registries.contains_key(*name)) {
            let (namespace, name) = (namespace.clone(), name.clone());
            return Err(RegistryConfigError::NoRegistry { path: path.to_owned(), namespace, name });
        }
        Ok(Self { registries, namespaces })
    }
}

impl RegistrySource {
    fn names_secret(&self) -> bool {
        match self {
            Self::Folder { .. } => false,
            Self::Web { token, .. } => token.is_some(),
            Self::Oci { credentials, .. } => credentials.is_some(),
        }
    }

    /// Copies the secret of the user's registry of the same kind with the longest URL that begins this one's.
    fn adopt_secret<'a>(&mut self, users: impl Iterator<Item = &'a Self>) {
        match self {
            Self::Folder { .. } => {}
            Self::Web { url, token, .. } => {
                let candidates = users.filter_map(|user| match user {
                    Self::Web { url: known, token, .. } => token.as_ref().map(|token| (known, token)),
                    Self::Folder { .. } | Self::Oci { .. } => None,
                });
                *token = closest(url, candidates).cloned();
            }
            Self::Oci { url, credentials, .. } => {
                let candidates = users.filter_map(|user| match user {
                    Self::Oci { url: known, credentials, .. } => credentials.as_ref().map(|secret| (known, secret)),
                    Self::Folder { .. } | Self::Web { .. } => None,
                });
                *credentials = closest(url, candidates).cloned();
            }
        }
    }
}

/// Secret of the longest URL with the same origin whose path begins the path of `url`. All paths end with a slash.
fn closest<'a, T>(url: &Url, candidates: impl Iterator<Item = (&'a Url, &'a T)>) -> Option<&'a T> {
    let begins = |known: &Url| known.origin() == url.origin() && url.path().starts_with(known.path());
    let matching = candidates.filter(|(known, _)| begins(known));
    matching.max_by_key(|(known, _)| known.path().len()).map(|(_, secret)| secret)
}

/// Required prefix of environment variables with secrets, so that a typing error cannot send another program's secret.
const SECRET_PREFIX: &str = "GYMKHANA_";

impl RegistryEntry {
    fn into_source(self, base: &Path) -> Result<RegistrySource, &'static str> {
        let Self { folder, url, oci, root, keys, unsigned, also, token, credentials } = self;
        let locations = usize::from(folder.is_some()) + usize::from(url.is_some()) + usize::from(oci.is_some());
        if locations != 1 {
            return Err("needs exactly one of `folder`, `url` and `oci`");
        }
        if token.iter().chain(&credentials).any(|variable| !variable.starts_with(SECRET_PREFIX)) {
            return Err(
                "reads a secret from a variable without the prefix `GYMKHANA_`, which protects the secrets of other \
                 programs\nhint: rename the variable",
            );
        }
        if also.iter().any(|url| !is_web(url)) {
            return Err("has an invalid URL in `also`\nhint: write `https://host`");
        }
        if let Some(url) = oci {
            if root.is_some() || token.is_some() {
                return Err(
                    "is an OCI registry, which does not support `root` and `token`\nhint: use `keys` and `credentials`",
                );
            }
            if keys.is_some() == unsigned {
                return Err("needs either `keys` (the keys that may sign its releases) or `unsigned = true`");
            }
            let url = validated(url, unsigned || credentials.is_some())?;
            let credentials = credentials.map(|variable| Credentials { variable, also: also.clone() });
            return Ok(RegistrySource::Oci { url, keys, also, credentials });
        }
        if keys.is_some() || credentials.is_some() {
            return Err(
                "is not an OCI registry, so it does not support `keys` and `credentials`\nhint: use `root` and `token`",
            );
        }
        let trust = match (root, unsigned) {
            (Some(root), false) => Trust::Root(root),
            (None, true) => Trust::Unsigned,
            _ => return Err("needs either `root` (its root key) or `unsigned = true`"),
        };
        match (folder, url) {
            (Some(_), None) if token.is_some() || !also.is_empty() => {
                Err("is a folder, which does not support `token` and `also`\nhint: remove them")
            }
            (Some(folder), None) => Ok(RegistrySource::Folder { path: base.join(folder), trust }),
            (None, Some(url)) => {
                let url = validated(url, trust == Trust::Unsigned || token.is_some())?;
                Ok(RegistrySource::Web { url, trust, also, token })
            }
            _ => Err("needs exactly one of `folder`, `url` and `oci`"),
        }
    }
}

fn is_web(url: &Url) -> bool {
    ["http", "https"].contains(&url.scheme()) && url.host().is_some()
}

/// Validates a URL and appends a slash. Encryption is required where no signature protects the transfer.
fn validated(mut url: Url, must_be_encrypted: bool) -> Result<Url, &'static str> {
    if !is_web(&url) || url.query().is_some() || url.fragment().is_some() {
        return Err("has an invalid URL\nhint: write `https://host/path/`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a password in its URL\nhint: name an environment variable in `token` or `credentials`");
    }
    if must_be_encrypted && url.scheme() != "https" && !is_this_machine(&url) {
        return Err("would send a secret or fetch unsigned plugins without encryption\nhint: use https");
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

/// Returns true for loopback addresses and `localhost`.
pub(crate) fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    fn parse(text: &str) -> Result<RegistryConfig, RegistryConfigError> {
        RegistryConfig::parse(&text.replace("ROOT", ROOT), Path::new("/project/gymkhana-registries.toml"))
    }

    #[test]
    fn every_kind_of_registry_is_parsed() {
        let text = "
            [registries.main]
            url = 'https://plugins.example.org/gymkhana'
            root = 'ROOT'
            also = ['https://cdn.example.org']
            token = 'GYMKHANA_MAIN_TOKEN'

            [registries.mine]
            folder = 'plugins'
            unsigned = true

            [registries.cloud]
            oci = 'https://ghcr.example.org/acme'
            keys = ['ROOT']
            credentials = 'GYMKHANA_CLOUD'

            [namespaces]
            gymkhana = 'main'
            me = 'mine'
            acme = 'cloud'";
        let config = parse(text).expect("a valid file");
        let root: PublicKey = ROOT.parse().expect("a key");
        assert_eq!(
            config.registries["mine"],
            RegistrySource::Folder { path: "/project/plugins".into(), trust: Trust::Unsigned }
        );
        assert!(matches!(&config.registries["main"], RegistrySource::Web { url, trust: Trust::Root(key), .. }
            if url.path() == "/gymkhana/" && *key == root));
        assert!(
            matches!(&config.registries["cloud"], RegistrySource::Oci { keys: Some(keys), .. } if keys.contains(&root))
        );
        assert_eq!(config.namespaces["me"], "mine");
    }

    #[test]
    fn invalid_settings_are_rejected_by_name() {
        for (entry, words) in [
            ("folder = 'x'", "needs either `root`"),
            ("folder = 'x'\nroot = 'ROOT'\nunsigned = true", "needs either `root`"),
            ("folder = 'x'\nurl = 'https://h/'\nroot = 'ROOT'", "exactly one"),
            ("unsigned = true", "exactly one"),
            ("url = 'https://h/'\nroot = 'ROOT'\ntoken = 'AWS_SECRET_ACCESS_KEY'", "without the prefix `GYMKHANA_`"),
            ("oci = 'https://h/'\nunsigned = true\ncredentials = 'HOME'", "without the prefix `GYMKHANA_`"),
            ("folder = 'x'\nunsigned = true\ntoken = 'GYMKHANA_T'", "is a folder"),
            ("url = 'http://h.example/'\nunsigned = true", "use https"),
            ("url = 'http://h.example/'\nroot = 'ROOT'\ntoken = 'GYMKHANA_T'", "use https"),
            ("url = 'https://me:secret@h.example/'\nroot = 'ROOT'", "a password in its URL"),
            ("url = 'ftp://h.example/'\nroot = 'ROOT'", "has an invalid URL"),
            ("url = 'https://h.example/'\nroot = 'ROOT'\nkeys = ['ROOT']", "is not an OCI registry"),
            ("oci = 'https://h.example/'", "needs either `keys`"),
            ("oci = 'https://h.example/'\nroot = 'ROOT'\nkeys = ['ROOT']", "is an OCI registry"),
            ("oci = 'http://h.example/'\nunsigned = true", "use https"),
        ] {
            let error = parse(&format!("[registries.one]\n{entry}")).expect_err(entry).to_string();
            assert!(error.contains("`one`") && error.contains(words), "{error}");
        }
        for allowed in ["url = 'http://127.0.0.1:9/'\nunsigned = true", "url = 'http://h.example/'\nroot = 'ROOT'"] {
            parse(&format!("[registries.one]\n{allowed}")).expect(allowed);
        }
        let error = parse("[namespaces]\nacme = 'nowhere'").expect_err("an undefined registry").to_string();
        assert!(error.contains("`acme`") && error.contains("[registries.nowhere]"), "{error}");
        assert!(matches!(parse("[registry]"), Err(RegistryConfigError::Syntax { .. })));
    }
}
