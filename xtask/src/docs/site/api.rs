//! API documentation in the site: folders that other programs generated, and a page that links to them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Folder of the site with the API documentation.
pub const FOLDER: &str = "api";

/// Crate for authors of plugins, which the page names first.
const SDK: &str = "gymkhana-sdk";

/// Generated folders.
pub struct Api<'a> {
    /// Output of rustdoc.
    pub rust: PathBuf,
    /// Documented packages.
    pub crates: Vec<&'a str>,
    /// Output of pdoc.
    pub python: PathBuf,
    /// Output of TypeDoc.
    pub js: PathBuf,
}

impl Api<'_> {
    /// The page that links to the folders: its path in the site and its text.
    pub fn page(&self) -> (PathBuf, String) {
        let link = |name: &str| format!("[`{name}`](../{FOLDER}/rust/{}/index.html)", name.replace('-', "_"));
        let others: Vec<String> = self.crates.iter().filter(|name| **name != SDK).map(|name| link(name)).collect();
        let text = format!(
            "# API documentation\n\n- Rust: {}; crates of the host: {}\n\
             - Python: [`gymkhana_sdk`](../{FOLDER}/python/gymkhana_sdk.html)\n\
             - JavaScript: [`@gymkhana/sdk`](../{FOLDER}/js/index.html)\n\nEach has a search of its own.\n",
            link(SDK),
            others.join(", ")
        );
        (PathBuf::from("reference/api.md"), text)
    }

    /// Copies the folders into the site.
    pub fn copy(&self, site: &Path) -> anyhow::Result<()> {
        let place = site.join(FOLDER);
        for (from, name) in [(&self.rust, "rust"), (&self.python, "python"), (&self.js, "js")] {
            copy(from, &place.join(name))
                .with_context(|| format!("cannot copy the API documentation `{}`", from.display()))?;
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, copied) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&source, &copied)?;
        } else {
            fs::copy(&source, &copied)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_copied_and_linked() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for file in ["doc/gymkhana_sdk/index.html", "py/gymkhana_sdk.html", "js/index.html"] {
            fs::create_dir_all(at(file).parent().expect("a parent")).expect("created");
            fs::write(at(file), "x").expect("written");
        }
        let api = Api { rust: at("doc"), crates: vec!["a-b", SDK], python: at("py"), js: at("js") };
        api.copy(&at("site")).expect("copied");
        let (place, text) = api.page();
        assert_eq!(place, Path::new("reference/api.md"));
        assert!(
            text.contains("Rust: [`gymkhana-sdk`](../api/rust/gymkhana_sdk/index.html); crates of the host: [`a-b`]")
        );
        for file in ["rust/gymkhana_sdk/index.html", "python/gymkhana_sdk.html", "js/index.html"] {
            assert!(at("site/api").join(file).exists() && text.contains(&format!("../api/{file}")), "{file}");
        }
        let lost = Api { rust: at("none"), ..api };
        let error = lost.copy(&at("site")).expect_err("no such folder").to_string();
        assert!(error.starts_with("cannot copy the API documentation"), "{error}");
    }
}
