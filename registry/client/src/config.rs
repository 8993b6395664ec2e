//! `gymkhana-registries.toml`: which registries there are, what is trusted in each, and who serves which namespace.
//!
//! A namespace has one registry and no other: what that one lacks is not looked for elsewhere, so that nobody can slip a
//! plugin in under a name that another registry leaves free.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gymkhana_registry::{Namespace, PublicKey};
use serde::Deserialize;
use url::{Host, Url};

/// The file's name.
pub const CONFIG_FILE: &str = "gymkhana-registries.toml";

/// All registries that the user has named.
#[derive(Debug, Clone, Default)]
pub struct RegistryConfig {
    /// By the user's names for them.
    pub registries: BTreeMap<String, RegistrySource>,
    /// Which of them serves a namespace.
    pub namespaces: BTreeMap<Namespace, String>,
}

/// Where a registry is, and what is trusted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrySource {
    /// A folder of this machine.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Whose word counts.
        trust: Trust,
    },
    /// A web server: a static one, or our own.
    Web {
        /// Where the checkpoint lies, with a slash at the end.
        url: Url,
        /// Whose word counts.
        trust: Trust,
        /// Other origins to which it may send on.
        also: Vec<Url>,
        /// The environment variable with the token for publishing.
        token: Option<String>,
    },
    /// An OCI registry with plugins as `wkg` stores them.
    Oci {
        /// Below which repositories `namespace/name` lie, with a slash at the end.
        url: Url,
        /// Who may sign releases; none takes unsigned ones.
        keys: Option<BTreeSet<PublicKey>>,
        /// Other origins to which it may send on: for its blobs, or to fetch a token.
        also: Vec<Url>,
        /// The environment variable with `user:password`.
        credentials: Option<String>,
    },
}

/// Whose word counts in a registry with a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// That of this root key, and of those that it hands over to.
    Root(PublicKey),
    /// Whoever can write there: the user has said so.
    Unsigned,
}

impl Trust {
    /// The root key, if there is one.
    #[must_use]
    pub fn root(&self) -> Option<PublicKey> {
        match self {
            Self::Root(key) => Some(*key),
            Self::Unsigned => None,
        }
    }
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryConfigError {
    /// It cannot be read.
    #[error("`{path}` cannot be read; let this user read it")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no TOML, or has other keys.
    #[error("`{path}` cannot be used; correct it")]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<toml::de::Error>,
    },
    /// One of its registries cannot be.
    #[error("registry `{name}` in `{path}` {problem}")]
    Backend {
        /// The file.
        path: PathBuf,
        /// The registry.
        name: String,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// A namespace is served by none of them.
    #[error(
        "namespace `{namespace}` in `{path}` is mapped to `{name}`, which is no registry there; add `[registries.{name}]`"
    )]
    NoRegistry {
        /// The file.
        path: PathBuf,
        /// The namespace.
        namespace: Namespace,
        /// What it is mapped to.
        name: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    registries: BTreeMap<String, Written>,
    #[serde(default)]
    namespaces: BTreeMap<Namespace, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
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
    /// The file of the project in `folder`, else the user's own, else nothing.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn find(folder: &Path, users: Option<&Path>) -> Result<Self, RegistryConfigError> {
        let candidates = [Some(folder), users].into_iter().flatten().map(|folder| folder.join(CONFIG_FILE));
        candidates.into_iter().find(|path| path.is_file()).map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or says what cannot be.
    pub fn read(path: &Path) -> Result<Self, RegistryConfigError> {
        let text = fs::read_to_string(path).map_err(|source| RegistryConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Reads a file's text; its folders are below the file's own.
    ///
    /// # Errors
    /// If it says what cannot be.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RegistryConfigError> {
        let form = |source| RegistryConfigError::Form { path: path.to_owned(), source: Box::new(source) };
        let File { registries, namespaces } = toml::from_str(text).map_err(form)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let meant = |(name, written): (String, Written)| match written.meant(beside) {
            Ok(source) => Ok((name, source)),
            Err(problem) => Err(RegistryConfigError::Backend { path: path.to_owned(), name, problem }),
        };
        let registries: BTreeMap<String, RegistrySource> = registries.into_iter().map(meant).collect::<Result<_, _>>()?;
        if let Some((namespace, name)) = namespaces.iter().find(|(_, name)| !registries.contains_key(*name)) {
            let (namespace, name) = (namespace.clone(), name.clone());
            return Err(RegistryConfigError::NoRegistry { path: path.to_owned(), namespace, name });
        }
        Ok(Self { registries, namespaces })
    }
}

/// How the names of variables begin that a file may name: it may come with a project that somebody else wrote.
const SECRETS: &str = "GYMKHANA_";

impl Written {
    fn meant(self, beside: &Path) -> Result<RegistrySource, &'static str> {
        let Self { folder, url, oci, root, keys, unsigned, also, token, credentials } = self;
        let places = usize::from(folder.is_some()) + usize::from(url.is_some()) + usize::from(oci.is_some());
        if places != 1 {
            return Err("needs exactly one of `folder`, `url` and `oci`: where it is");
        }
        if token.iter().chain(&credentials).any(|variable| !variable.starts_with(SECRETS)) {
            return Err(
                "names a secret's variable that does not begin with `GYMKHANA_`; rename it: a project that was \
                        cloned must not be able to ask for any other",
            );
        }
        if also.iter().any(|url| !is_web(url)) {
            return Err("has an address in `also` that is none of a web server; write `https://host`");
        }
        if let Some(url) = oci {
            if root.is_some() || token.is_some() {
                return Err("is an OCI registry, which has no `root` and no `token`; use `keys` and `credentials`");
            }
            if keys.is_some() == unsigned {
                return Err("needs `keys`, those that may sign its releases, or `unsigned = true`, and not both");
            }
            let url = sound(url, unsigned || credentials.is_some())?;
            return Ok(RegistrySource::Oci { url, keys, also, credentials });
        }
        if keys.is_some() || credentials.is_some() {
            return Err("is no OCI registry, which alone has `keys` and `credentials`; use `root` and `token`");
        }
        let trust = match (root, unsigned) {
            (Some(root), false) => Trust::Root(root),
            (None, true) => Trust::Unsigned,
            _ => return Err("needs `root`, its root key, or `unsigned = true`, and not both"),
        };
        match (folder, url) {
            (Some(_), None) if token.is_some() || !also.is_empty() => {
                Err("is a folder, which has no `token` and no `also`; leave them out")
            }
            (Some(folder), None) => Ok(RegistrySource::Folder { path: beside.join(folder), trust }),
            (None, Some(url)) => {
                let url = sound(url, trust == Trust::Unsigned || token.is_some())?;
                Ok(RegistrySource::Web { url, trust, also, token })
            }
            _ => Err("needs exactly one of `folder`, `url` and `oci`: where it is"),
        }
    }
}

fn is_web(url: &Url) -> bool {
    ["http", "https"].contains(&url.scheme()) && url.host().is_some()
}

/// An address with a slash at its end; encrypted where nothing else protects what goes over the wire.
fn sound(mut url: Url, must_be_encrypted: bool) -> Result<Url, &'static str> {
    if !is_web(&url) || url.query().is_some() || url.fragment().is_some() {
        return Err("has an address that is none of a web server's folder; write `https://host/path/`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a password in its address; name an environment variable in `token` or `credentials`");
    }
    if must_be_encrypted && url.scheme() != "https" && !is_this_machine(&url) {
        return Err("would send a secret, or fetch what nobody signed, unencrypted; use https");
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

/// Whether an address lies on this machine, by its own words.
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
    fn every_kind_of_registry_is_understood() {
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
        let config = parse(text).expect("a good file");
        let root: PublicKey = ROOT.parse().expect("a key");
        assert_eq!(
            config.registries["mine"],
            RegistrySource::Folder { path: "/project/plugins".into(), trust: Trust::Unsigned }
        );
        assert!(matches!(&config.registries["main"], RegistrySource::Web { url, trust: Trust::Root(key), .. }
            if url.path() == "/gymkhana/" && *key == root));
        assert!(matches!(&config.registries["cloud"], RegistrySource::Oci { keys: Some(keys), .. } if keys.contains(&root)));
        assert_eq!(config.namespaces["me"], "mine");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        for (written, words) in [
            ("folder = 'x'", "needs `root`"),
            ("folder = 'x'\nroot = 'ROOT'\nunsigned = true", "needs `root`"),
            ("folder = 'x'\nurl = 'https://h/'\nroot = 'ROOT'", "exactly one"),
            ("unsigned = true", "exactly one"),
            ("url = 'https://h/'\nroot = 'ROOT'\ntoken = 'AWS_SECRET_ACCESS_KEY'", "does not begin with `GYMKHANA_`"),
            ("oci = 'https://h/'\nunsigned = true\ncredentials = 'HOME'", "does not begin with `GYMKHANA_`"),
            ("folder = 'x'\nunsigned = true\ntoken = 'GYMKHANA_T'", "is a folder"),
            ("url = 'http://h.example/'\nunsigned = true", "use https"),
            ("url = 'http://h.example/'\nroot = 'ROOT'\ntoken = 'GYMKHANA_T'", "use https"),
            ("url = 'https://me:secret@h.example/'\nroot = 'ROOT'", "a password in its address"),
            ("url = 'ftp://h.example/'\nroot = 'ROOT'", "none of a web server"),
            ("url = 'https://h.example/'\nroot = 'ROOT'\nkeys = ['ROOT']", "is no OCI registry"),
            ("oci = 'https://h.example/'", "needs `keys`"),
            ("oci = 'https://h.example/'\nroot = 'ROOT'\nkeys = ['ROOT']", "is an OCI registry"),
            ("oci = 'http://h.example/'\nunsigned = true", "use https"),
        ] {
            let error = parse(&format!("[registries.one]\n{written}")).expect_err(written).to_string();
            assert!(error.contains("`one`") && error.contains(words), "{error}");
        }
        for allowed in ["url = 'http://127.0.0.1:9/'\nunsigned = true", "url = 'http://h.example/'\nroot = 'ROOT'"] {
            parse(&format!("[registries.one]\n{allowed}")).expect(allowed);
        }
        let error = parse("[namespaces]\nacme = 'nowhere'").expect_err("no such registry").to_string();
        assert!(error.contains("`acme`") && error.contains("[registries.nowhere]"), "{error}");
        assert!(matches!(parse("[registry]"), Err(RegistryConfigError::Form { .. })));
    }
}
