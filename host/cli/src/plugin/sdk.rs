//! SDK of a new plugin: the published one of this version, a folder, a package in a folder, or a git repository.

use std::fs;
use std::path::{Component, Path, PathBuf};

use url::Url;

use crate::args::plugin::Language;
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::folder::description_file;

/// Checkout that built this host.
pub const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Schemes of git URLs that cargo and pip read. A URL of a file is a path of one machine.
const GIT_SCHEMES: [&str; 4] = ["https", "http", "ssh", "git"];

/// Variable with the default of `--sdk`.
const VARIABLE: &str = "GYMKHANA_SDK";

/// Place of an SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sdk {
    /// The published package of this program's version.
    Published,
    /// Absolute path of the language's SDK: a folder, or a package of Python or npm.
    Path(PathBuf),
    /// Repository of Gymkhana.
    Git(Url),
}

impl Sdk {
    /// The SDK that `--sdk` or GYMKHANA_SDK names; otherwise that of the checkout in which this program is, or the
    /// published one.
    ///
    /// # Errors
    /// If it is not there, or the language's package manager cannot install it.
    pub fn find(given: Option<&Path>, language: Language) -> CliResult<Self> {
        let of_variable = std::env::var_os(VARIABLE).filter(|place| !place.is_empty()).map(PathBuf::from);
        match given.or(of_variable.as_deref()) {
            Some(place) => Self::at(place, language),
            None if is_in_checkout() => Self::at(&Path::new(CHECKOUT).join("sdk").join(name(language)), language),
            None => Ok(Self::Published),
        }
    }

    /// The SDK at a place.
    fn at(place: &Path, language: Language) -> CliResult<Self> {
        if let Some(url) = git_url(place) {
            return Self::git(url, language);
        }
        let name = name(language);
        let found = package(place, language).unwrap_or_else(|| place.to_owned());
        let marker = description_file(language);
        let other = if language == Language::Js { "an archive that `npm pack` writes there" } else { "a git URL" };
        let hint = format!(
            "give the folder `sdk/{name}` of a Gymkhana checkout, as in `--sdk ../gymkhana/sdk/{name}`, or {other}"
        );
        if !is_package(&found, language) && !found.join(marker).is_file() {
            let message = format!("the {name} SDK is not at `{}`: `{marker}` is missing", place.display());
            return Err(CliError::user(message).with_hint(hint));
        }
        let path = fs::canonicalize(&found)
            .user_context(format!("the {name} SDK at `{}` cannot be opened\nhint: {hint}", found.display()))?;
        Ok(Self::Path(path))
    }

    fn git(url: Url, language: Language) -> CliResult<Self> {
        if language == Language::Js {
            let message = "npm cannot install a folder of a git repository, and the JavaScript SDK is one";
            let hint = "give the folder `sdk/js` of a checkout, or the archive that `npm pack` writes there";
            return Err(CliError::user(message).with_hint(hint));
        }
        if url.fragment().is_some() {
            let message = format!("`{url}` names a revision after `#`");
            let hint = "leave it out, and write the revision into the new folder's Cargo.toml or requirements.txt";
            return Err(CliError::user(message).with_hint(hint));
        }
        Ok(Self::Git(url))
    }

    /// Value in the template's file of dependencies, for a plugin in a new folder below `parent`. A path within the git
    /// repository of the new folder is relative, so that both are moved and cloned together.
    pub fn dependency(&self, language: Language, parent: &Path, folder: &str) -> String {
        let path = match self {
            Self::Published => {
                return match language {
                    Language::Rust => format!("version = \"{VERSION}\""),
                    Language::Python => format!("gymkhana-sdk[build]~={VERSION}"),
                    Language::Js => format!("^{VERSION}"),
                };
            }
            Self::Git(url) => {
                return match language {
                    Language::Rust => format!("git = \"{url}\""),
                    Language::Python => format!("gymkhana-sdk[build] @ git+{url}#subdirectory=sdk/python"),
                    // `git` has refused it.
                    Language::Js => url.to_string(),
                };
            }
            Self::Path(path) => path,
        };
        let relative = repository(parent)
            .filter(|repository| path.starts_with(repository))
            .map(|_| relative(path, &parent.join(folder)));
        let shown = relative.as_ref().unwrap_or(path).display();
        match (language, &relative) {
            (Language::Rust, _) => format!("path = \"{shown}\""),
            (Language::Python, None) => format!("gymkhana-sdk[build] @ file://{shown}"),
            // The form with a name takes absolute paths only.
            (Language::Python, Some(_)) => format!("{shown}[build]"),
            (Language::Js, _) => format!("file:{shown}"),
        }
    }
}

/// Version of this program, which is that of the SDKs.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether this program is one that the checkout built, and not an installed copy.
fn is_in_checkout() -> bool {
    let built = fs::canonicalize(Path::new(CHECKOUT));
    let own = std::env::current_exe().and_then(fs::canonicalize);
    matches!((built, own), (Ok(checkout), Ok(own)) if own.starts_with(&checkout))
}

/// The newest package of a language's SDK in a folder of packages.
fn package(folder: &Path, language: Language) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_sdk = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.replace('_', "-").starts_with("gymkhana-sdk-")) && is_package(path, language)
    };
    entries.filter(is_sdk).max()
}

/// Whether a file is a package of a language. Cargo installs none from a file.
fn is_package(file: &Path, language: Language) -> bool {
    let ends: &[&str] = match language {
        Language::Rust => &[],
        Language::Python => &[".whl", ".tar.gz"],
        Language::Js => &[".tgz"],
    };
    let name = file.file_name().and_then(|name| name.to_str());
    file.is_file() && name.is_some_and(|name| ends.iter().any(|end| name.ends_with(end)))
}

/// Folder of a language's SDK in `sdk/`.
pub fn name(language: Language) -> &'static str {
    match language {
        Language::Rust => "rust",
        Language::Python => "python",
        Language::Js => "js",
    }
}

/// The git URL that a text is.
fn git_url(given: &Path) -> Option<Url> {
    let text = given.to_str()?;
    let url = Url::parse(text.strip_prefix("git+").unwrap_or(text)).ok()?;
    GIT_SCHEMES.contains(&url.scheme()).then_some(url)
}

/// The git repository of a folder: the nearest folder above with `.git`.
fn repository(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(".git").exists())
}

/// Path to a file from a folder, both absolute and without links.
fn relative(file: &Path, from: &Path) -> PathBuf {
    let common = file.components().zip(from.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(file.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANGUAGES: [Language; 3] = [Language::Rust, Language::Python, Language::Js];

    fn found(given: &str, language: Language) -> CliResult<Sdk> {
        Sdk::find(Some(Path::new(given)), language)
    }

    fn dependency(given: &str, language: Language) -> String {
        found(given, language).expect(given).dependency(language, Path::new("/"), "mine")
    }

    #[test]
    fn a_git_url_is_written_as_cargo_and_pip_read_it() {
        let url = "https://git.example/gymkhana.git";
        assert_eq!(dependency(url, Language::Rust), format!("git = \"{url}\""));
        let line = format!("gymkhana-sdk[build] @ git+{url}#subdirectory=sdk/python");
        assert_eq!(dependency(url, Language::Python), line);
        assert_eq!(dependency(&format!("git+{url}"), Language::Python), line);
        // A quotation mark or line end would end the value in the file.
        let odd = dependency("ssh://git@host/a\"b\n.git", Language::Rust);
        assert_eq!(odd, "git = \"ssh://git@host/a%22b.git\"");
    }

    #[test]
    fn what_a_package_manager_cannot_install_is_refused_with_the_way_round() {
        let told = found("https://git.example/gymkhana.git", Language::Js).expect_err("npm").to_string();
        assert!(
            told.contains("npm cannot install a folder of a git repository") && told.contains("npm pack"),
            "{told}"
        );
        let told = found("https://git.example/gymkhana.git#v1", Language::Rust).expect_err("a revision").to_string();
        assert!(told.contains("names a revision"), "{told}");
        for given in ["nowhere", "git@host:gymkhana.git", "ftp://host/gymkhana", "file:///srv/gymkhana.git"] {
            let told = found(given, Language::Python).expect_err(given).to_string();
            assert!(told.contains("`pyproject.toml` is missing"), "{told}");
        }
    }

    #[test]
    fn an_sdk_in_the_same_repository_is_named_by_a_relative_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("a path");
        for language in LANGUAGES {
            let sdk = root.join("gymkhana/sdk").join(name(language));
            fs::create_dir_all(&sdk).expect("created");
            fs::write(sdk.join(description_file(language)), "").expect("written");
        }
        let parent = root.join("plugins");
        fs::create_dir(&parent).expect("created");
        let all = || {
            LANGUAGES.map(|language| {
                let sdk = root.join("gymkhana/sdk").join(name(language));
                Sdk::find(Some(&sdk), language).expect("an SDK").dependency(language, &parent, "mine")
            })
        };
        let absolute = root.join("gymkhana/sdk").display().to_string();
        let [rust, python, js] = all();
        assert_eq!(rust, format!("path = \"{absolute}/rust\""), "no repository");
        assert_eq!(python, format!("gymkhana-sdk[build] @ file://{absolute}/python"));
        assert_eq!(js, format!("file:{absolute}/js"));
        fs::create_dir(parent.join(".git")).expect("created");
        assert_eq!(all(), [rust, python, js], "a repository without the SDK");
        fs::remove_dir(parent.join(".git")).expect("removed");
        fs::create_dir(root.join(".git")).expect("created");
        let relative =
            ["path = \"../../gymkhana/sdk/rust\"", "../../gymkhana/sdk/python[build]", "file:../../gymkhana/sdk/js"];
        assert_eq!(all(), relative);
    }

    #[test]
    fn the_published_sdk_is_required_by_its_version() {
        let all = LANGUAGES.map(|language| Sdk::Published.dependency(language, Path::new("/"), "mine"));
        assert_eq!(all, ["version = \"0.1.0\"", "gymkhana-sdk[build]~=0.1.0", "^0.1.0"]);
    }

    #[test]
    fn the_newest_package_of_a_folder_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("a path");
        for name in ["gymkhana_sdk-0.1.0.tar.gz", "gymkhana_sdk-0.1.1-py3-none-any.whl", "gymkhana-sdk-0.1.0.tgz"] {
            fs::write(root.join(name), "").expect("written");
        }
        let given = root.display().to_string();
        let wheel = format!("gymkhana-sdk[build] @ file://{given}/gymkhana_sdk-0.1.1-py3-none-any.whl");
        assert_eq!(dependency(&given, Language::Python), wheel);
        assert_eq!(dependency(&given, Language::Js), format!("file:{given}/gymkhana-sdk-0.1.0.tgz"));
        found(&given, Language::Rust).expect_err("cargo installs no package from a file");
    }

    #[test]
    fn an_archive_is_an_sdk_of_javascript() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = fs::canonicalize(folder.path()).expect("a path").join("gymkhana-sdk-0.1.0.tgz");
        fs::write(&archive, "").expect("written");
        let given = archive.display().to_string();
        assert_eq!(dependency(&given, Language::Js), format!("file:{given}"));
        found(&given, Language::Python).expect_err("an archive of npm");
    }
}
