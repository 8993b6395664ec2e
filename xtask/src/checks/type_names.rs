//! Names of types that more than one crate defines.
//!
//! Structures, enumerations, traits and aliases at the top level of a file count. Left out are code of tests, items inside
//! of functions, macros and inner modules, and generated files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{layout, report, source};
use crate::step::step;
use crate::workspace::Workspace;

/// Folders of the checked crates.
const FOLDERS: [&str; 3] = ["host", "registry", "sdk"];

/// Most names that more than one crate defines.
const MOST: usize = 60;

/// Names that say nothing about their type.
const REFUSED: [&str; 5] = ["Answer", "Facts", "Outcome", "Settings", "State"];

/// Folders of crates by the names of types that they define.
type Definitions = BTreeMap<String, BTreeSet<String>>;

/// Fails on names that say nothing, and if too many names belong to types of several crates.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("type names", || {
        let mut definitions = Definitions::new();
        for package in &workspace.packages {
            if FOLDERS.iter().any(|folder| package.folder.starts_with(folder)) {
                let sources = workspace.root.join(&package.folder).join("src");
                let mut texts = BTreeMap::new();
                for file in workspace.files(&[&format!("{}/src/*.rs", package.folder.display())])? {
                    let path = workspace.root.join(&file);
                    let text =
                        std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", file.display()))?;
                    texts.insert(path.strip_prefix(&sources).unwrap_or(&path).to_owned(), text);
                }
                for name in types_of_crate(&texts) {
                    definitions.entry(name).or_default().insert(package.folder.to_string_lossy().into_owned());
                }
            }
        }
        let hint = "name what the type is in its domain, such as `SessionState`";
        report(&findings(&definitions), "type names", hint)
    })
}

/// Names of the types that a crate defines, from its files by their paths below `src`.
fn types_of_crate(texts: &BTreeMap<PathBuf, String>) -> BTreeSet<String> {
    let codes: BTreeMap<&Path, String> = texts
        .iter()
        .filter(|(_, text)| !layout::is_generated(text))
        .map(|(file, text)| (&**file, source::code(text)))
        .collect();
    let of_tests: Vec<PathBuf> = codes.iter().flat_map(|(file, code)| test_modules(file, code)).collect();
    let is_test = |file: &Path| {
        let module = file.with_extension("");
        of_tests.iter().any(|test| module.starts_with(test))
    };
    codes.iter().filter(|(file, _)| !is_test(file)).flat_map(|(_, code)| types(&source::without_tests(code))).collect()
}

/// Modules in files of their own that a file compiles for tests alone, as paths without an extension.
fn test_modules(file: &Path, code: &str) -> Vec<PathBuf> {
    let is_root = file.file_stem().is_some_and(|name| ["lib", "main", "mod"].iter().any(|root| name == *root));
    let folder = if is_root { file.parent().unwrap_or(Path::new("")).to_owned() } else { file.with_extension("") };
    let items = code.split("#[cfg(test)]").skip(1);
    let names = items.filter_map(|item| item.trim_start().strip_prefix("mod ")?.split_once(';'));
    names.map(|(name, _)| folder.join(name.trim())).collect()
}

/// Names of the types at the top level of a file.
fn types(code: &str) -> Vec<String> {
    let mut types = Vec::new();
    let (mut depth, mut is_next) = (0, false);
    for word in code.split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        let name = word.trim_end_matches(|letter: char| !letter.is_alphanumeric() && letter != '_');
        if is_next && !name.is_empty() {
            types.push(name.to_owned());
        }
        is_next = match name {
            "" => is_next,
            "struct" | "enum" | "trait" | "type" => depth == 0,
            _ => false,
        };
        match word.chars().next_back() {
            Some('{') => depth += 1,
            Some('}') => depth -= 1,
            _ => {}
        }
    }
    types
}

/// Findings for all definitions.
fn findings(definitions: &Definitions) -> Vec<String> {
    let places = |crates: &BTreeSet<String>| crates.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let refused = definitions.iter().filter(|(name, _)| REFUSED.contains(&&***name));
    let mut findings: Vec<String> =
        refused.map(|(name, crates)| format!("{}: `{name}` does not say what the type is", places(crates))).collect();
    let shared: Vec<_> = definitions.iter().filter(|(_, crates)| crates.len() > 1).collect();
    if shared.len() > MOST {
        let listed = shared.iter().map(|(name, crates)| format!("`{name}` is defined in {}", places(crates)));
        findings.extend(listed);
        findings.push(format!("{} names are defined in more than one crate, at most {MOST}", shared.len()));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let texts = files.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned())).collect();
        types_of_crate(&texts).into_iter().collect()
    }

    fn definitions(names: usize, crates: &[&str]) -> Definitions {
        let crates: BTreeSet<String> = crates.iter().map(|folder| (*folder).to_owned()).collect();
        (0..names).map(|name| (format!("Name{name:02}"), crates.clone())).collect()
    }

    #[test]
    fn types_at_the_top_level_are_found() {
        let lib = "mod a;\npub(crate) struct One<'a>(&'a str);\nenum Two { Three, Four(One) }\npub trait Five {\n    \
                   type Six;\n}\npub type Seven = u8;\nimpl Five for Two {\n    type Six = u8;\n}\n";
        assert_eq!(
            found(&[("lib.rs", lib), ("a.rs", "union Of { a: u8 }\nstruct Eight;")]),
            ["Eight", "Five", "One", "Seven", "Two"]
        );
    }

    #[test]
    fn code_of_tests_inner_items_and_generated_files_are_left_out() {
        let files = [
            ("lib.rs", "mod a;\n#[cfg(test)]\nmod goldens;\n#[cfg(test)]\nmod tests {\n    struct One;\n}\n"),
            ("a.rs", "// struct Two;\nfn a() {\n    struct Three;\n}\n#[cfg(test)]\nmod inner;\nstruct Kept;\n"),
            ("a/inner.rs", "struct Four;\n"),
            ("goldens.rs", "struct Five;\n"),
            ("goldens/deep.rs", "struct Six;\n"),
            ("bindings.rs", "// Generated by `wit-bindgen` 0.57.1. DO NOT EDIT!\nstruct Seven;\n"),
        ];
        assert_eq!(found(&files), ["Kept"]);
    }

    #[test]
    fn shared_names_are_refused_above_the_limit() {
        assert_eq!(findings(&definitions(60, &["host/chat", "host/run"])), Vec::<String>::new());
        assert_eq!(findings(&definitions(200, &["host/chat"])), Vec::<String>::new());
        let refused = findings(&definitions(61, &["host/chat", "host/run"]));
        assert_eq!(refused.len(), 62);
        assert_eq!(refused[0], "`Name00` is defined in host/chat, host/run");
        assert_eq!(refused[61], "61 names are defined in more than one crate, at most 60");
    }

    #[test]
    fn names_that_say_nothing_are_refused_in_one_crate() {
        let of = |name: &str| Definitions::from([(name.to_owned(), BTreeSet::from(["host/run".to_owned()]))]);
        assert_eq!(findings(&of("State")), ["host/run: `State` does not say what the type is"]);
        assert_eq!(findings(&of("RunState")), Vec::<String>::new());
    }
}
