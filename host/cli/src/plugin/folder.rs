//! A plugin's folder: its language and the file that a build writes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::args::plugin::Language;
use crate::error::{Classify, CliError, CliResult};

/// A plugin's folder.
pub struct PluginFolder<'a> {
    /// The folder.
    pub dir: &'a Path,
    /// Language of the plugin.
    pub language: Language,
}

impl<'a> PluginFolder<'a> {
    /// Recognizes the language by the file that describes the plugin.
    ///
    /// # Errors
    /// If the folder does not exist or is not a plugin's.
    pub fn open(dir: &'a Path) -> CliResult<Self> {
        if !dir.exists() {
            let message = format!(
                "folder `{}` does not exist\nhint: check the path, or create a plugin with {NEW}",
                dir.display()
            );
            return Err(CliError::user(message));
        }
        let languages = [Language::Rust, Language::Python, Language::Js];
        let found = languages.into_iter().find(|language| dir.join(description_file(*language)).is_file());
        found.map(|language| Self { dir, language }).ok_or_else(|| {
            CliError::user(format!(
                "`{}` is not a plugin's folder: it has no Cargo.toml, pyproject.toml or package.json\nhint: create one \
                 with {NEW}",
                dir.display()
            ))
        })
    }

    /// File that a build writes: `NAME.wasm` in the folder, after the plugin's name.
    ///
    /// # Errors
    /// If the file that describes the plugin cannot be read or names none.
    pub fn component(&self) -> CliResult<PathBuf> {
        let name = self.described(["/package/name", "/project/name", "/name"], "name")?;
        Ok(self.dir.join(format!("{name}.wasm")))
    }

    /// File that a quick build writes. Rust has none of its own, since cargo compiles what changed.
    ///
    /// # Errors
    /// As [`Self::component`].
    pub fn quick_component(&self) -> CliResult<PathBuf> {
        let whole = self.component()?;
        Ok(if self.language == Language::Rust { whole } else { whole.with_extension("quick.wasm") })
    }

    /// One-line description of the plugin.
    ///
    /// # Errors
    /// If the file that describes the plugin cannot be read or gives none.
    pub fn description(&self) -> CliResult<String> {
        self.described(["/package/description", "/project/description", "/description"], "description")
    }

    /// Namespace of the plugin.
    ///
    /// # Errors
    /// If the file that describes the plugin cannot be read or names none.
    pub fn namespace(&self) -> CliResult<String> {
        let places = ["/package/metadata/gymkhana/namespace", "/tool/gymkhana/namespace", "/gymkhana/namespace"];
        self.described(places, "namespace")
    }

    /// Text in the file that describes the plugin. The places are those in Cargo.toml, pyproject.toml and package.json.
    fn described(&self, [cargo, python, npm]: [&str; 3], key: &str) -> CliResult<String> {
        let path = self.dir.join(description_file(self.language));
        let cannot = || format!("`{}` cannot be read\nhint: correct the file", path.display());
        let text = fs::read_to_string(&path).user_context(cannot())?;
        let parse_toml = || toml::from_str::<serde_json::Value>(&text).user_context(cannot());
        let (document, place) = match self.language {
            Language::Rust => (parse_toml()?, cargo),
            Language::Python => (parse_toml()?, python),
            Language::Js => (serde_json::from_str::<serde_json::Value>(&text).user_context(cannot())?, npm),
        };
        let text = document.pointer(place).and_then(serde_json::Value::as_str).map(ToOwned::to_owned);
        text.ok_or_else(|| {
            CliError::user(format!("`{}` does not give the plugin's {key}\nhint: set `{key}`", path.display()))
        })
    }
}

/// Command that creates a plugin's folder.
const NEW: &str = "`host plugin new NAME --kind tool`";

/// File that describes a plugin of this language.
pub fn description_file(language: Language) -> &'static str {
    match language {
        Language::Rust => "Cargo.toml",
        Language::Python => "pyproject.toml",
        Language::Js => "package.json",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(file: &str, text: &str) -> CliResult<String> {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join(file), text).expect("written");
        let component = PluginFolder::open(dir.path())?.component()?;
        assert_eq!(component.parent(), Some(dir.path()));
        Ok(component.file_name().expect("a name").to_string_lossy().into_owned())
    }

    #[test]
    fn the_component_is_named_after_the_plugin() {
        for (file, text) in [
            ("Cargo.toml", "[package]\nname = \"sokoban\"\n"),
            ("pyproject.toml", "[project]\nname = \"sokoban\"\n"),
            ("package.json", "{\"name\": \"sokoban\"}"),
        ] {
            assert_eq!(component(file, text).expect("a name"), "sokoban.wasm", "{file}");
        }
    }

    #[test]
    fn a_plugin_without_a_name_is_refused() {
        for (file, text, reason) in [
            ("Cargo.toml", "[package]\n", "does not give the plugin's name"),
            ("package.json", "{\"name\": 1}", "does not give the plugin's name"),
            ("pyproject.toml", "[project\n", "cannot be read"),
        ] {
            let error = component(file, text).expect_err(file).to_string();
            assert!(error.contains(file) && error.contains(reason), "{error}");
        }
    }
}
