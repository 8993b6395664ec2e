//! Plugins in Python and JavaScript and the tests of their SDKs, with Python and Node.js in `.tools/`.
//!
//! The templates of `host plugin new` are guests of the tests: each is built and played.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::inputs::digest_of_files;
use crate::step::{execute, step};
use crate::tools::{ensure_npm, ensure_python, node};
use crate::workspace::Workspace;

/// Locked Python requirements.
const REQUIREMENTS: &str = "plugins/requirements.txt";
const PYTHON_SDK: &str = "sdk/python";
const JS_SDK: &str = "sdk/js";
const TEMPLATES: &str = "host/cli/templates";
const KINDS: [&str; 3] = ["environment", "tool", "reward"];

/// Language of a plugin that cargo does not build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    Js,
}

impl Language {
    const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Js => "js",
        }
    }
}

/// A folder that is built to a component.
struct Source {
    /// Name of the component.
    name: String,
    language: Language,
    folder: PathBuf,
    /// Whether it is a quick build, as `host plugin test` makes it.
    quick: bool,
}

/// Tools that build the components.
struct Tools {
    python: PathBuf,
    /// Folder whose `node_modules` holds the JavaScript SDK and its compiler.
    modules: PathBuf,
}

/// Builds every plugin in Python and JavaScript whose sources changed.
pub fn build(workspace: &Workspace) -> anyhow::Result<()> {
    let tools = ensure_tools(workspace)?;
    step("plugins in Python and JavaScript", || {
        fs::create_dir_all(workspace.target.join("plugins"))?;
        sources(workspace)?.iter().try_for_each(|source| build_one(workspace, &tools, source))
    })
}

/// Runs the tests of the SDKs, of the plugins and of the templates.
pub fn test(workspace: &Workspace) -> anyhow::Result<()> {
    let tools = ensure_tools(workspace)?;
    step("tests in Python and JavaScript", || {
        let root = &workspace.root;
        let python_sdk = root.join(PYTHON_SDK).join("src");
        python_tests(&tools, &root.join(PYTHON_SDK).join("tests"), &[&python_sdk])?;
        link_modules(&tools, &root.join(JS_SDK))?;
        execute(node(&tools.python, "node")?.arg("--test").current_dir(root.join(JS_SDK)))?;
        for source in sources(workspace)?.into_iter().filter(|source| !source.quick) {
            match source.language {
                Language::Python => {
                    let own = source.folder.join("src");
                    let tests = source.folder.join("tests");
                    let tests = if tests.is_dir() { tests } else { source.folder.clone() };
                    python_tests(&tools, &tests, &[&python_sdk, &own])?;
                }
                Language::Js => {
                    let is_test = |file: &PathBuf| file.to_string_lossy().ends_with(".test.mjs");
                    if !files(&source.folder)?.iter().any(is_test) {
                        continue;
                    }
                    link_modules(&tools, &source.folder)?;
                    execute(node(&tools.python, "node")?.arg("--test").current_dir(&source.folder))?;
                }
            }
        }
        Ok(())
    })
}

fn python_tests(tools: &Tools, tests: &Path, paths: &[&Path]) -> anyhow::Result<()> {
    let path = std::env::join_paths(paths)?;
    let mut command = Command::new(&tools.python);
    command.args(["-B", "-m", "unittest", "discover", "--start-directory"]).arg(tests);
    execute(command.env("PYTHONPATH", path))
}

/// Python of an environment that also contains Node.js and npm.
pub fn ensure_python_with_node(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    ensure_python(&workspace.root, "foreign", &fs::read_to_string(workspace.root.join(REQUIREMENTS))?)
}

fn ensure_tools(workspace: &Workspace) -> anyhow::Result<Tools> {
    let python = step("foreign plugins' Python", || ensure_python_with_node(workspace))?;
    let modules = step("foreign plugins' Node.js", || ensure_modules(workspace, &python))?;
    Ok(Tools { python, modules })
}

/// Installs the packages that the JavaScript SDK locks, and the SDK itself.
fn ensure_modules(workspace: &Workspace, python: &Path) -> anyhow::Result<PathBuf> {
    let sdk = workspace.root.join(JS_SDK);
    let home = ensure_npm(&workspace.root, python, "js", &sdk)?;
    link(&sdk, &home.join("node_modules/@gymkhana/sdk"))?;
    Ok(home)
}

/// Creates or replaces a symbolic link.
fn link(to: &Path, at: &Path) -> anyhow::Result<()> {
    at.parent().map_or(Ok(()), fs::create_dir_all)?;
    if fs::symlink_metadata(at).is_ok() {
        fs::remove_file(at).with_context(|| format!("`{}` cannot be replaced", at.display()))?;
    }
    std::os::unix::fs::symlink(to, at).with_context(|| format!("`{}` cannot be created", at.display()))
}

/// Links `node_modules` into the plugin's folder, where `npm install` would put it.
fn link_modules(tools: &Tools, folder: &Path) -> anyhow::Result<()> {
    link(&tools.modules.join("node_modules"), &folder.join("node_modules"))
}

/// First-party plugins, guests of the tests, and the templates as guests.
fn sources(workspace: &Workspace) -> anyhow::Result<Vec<Source>> {
    let own = |name: &str, language, folder: &str| {
        let folder = workspace.root.join(folder);
        Source { name: name.to_owned(), language, folder, quick: false }
    };
    let mut sources = vec![
        own("python", Language::Python, "plugins/tools/python"),
        own("guest-js-engine", Language::Js, "tests/foreign_plugins/js-engine"),
        own("guest-js-asking", Language::Js, "tests/foreign_plugins/js-asking"),
        own("guest-python-asking", Language::Python, "tests/foreign_plugins/python-asking"),
        Source { quick: true, ..own("guest-js-quick", Language::Js, "tests/foreign_plugins/js-asking") },
        Source { quick: true, ..own("guest-python-quick", Language::Python, "tests/foreign_plugins/python-asking") },
    ];
    for language in [Language::Python, Language::Js] {
        for kind in KINDS {
            let name = format!("guest-{}-{kind}", language.name());
            let template = workspace.root.join(TEMPLATES).join(format!("{}-{kind}", language.name()));
            let folder = workspace.target.join("foreign").join(&name);
            fill(&template, &folder, &name, &workspace.root.join("sdk").join(language.name()))?;
            sources.push(Source { quick: false, name, language, folder });
        }
    }
    Ok(sources)
}

/// Fills in a template like `host plugin new`. Unchanged files are not written.
fn fill(template: &Path, folder: &Path, name: &str, sdk: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for file in files(template)? {
        let text = fs::read_to_string(&file).with_context(|| format!("`{}` is not a text", file.display()))?;
        let text = text.replace("{{name}}", name).replace("{{namespace}}", "guest");
        let text = text.replace("{{module}}", &name.replace('-', "_")).replace("{{sdk}}", &sdk.display().to_string());
        let path = folder.join(file.strip_prefix(template)?);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        if !fs::read_to_string(&path).is_ok_and(|old| old == text) {
            fs::write(path, text)?;
        }
    }
    Ok(())
}

fn build_one(workspace: &Workspace, tools: &Tools, source: &Source) -> anyhow::Result<()> {
    let component = workspace.component(&source.name);
    let stamp = workspace.target.join("foreign").join(format!("{}.stamp", source.name));
    let sdk = workspace.root.join("sdk").join(source.language.name());
    // The folder in `wit` is for wrappers, of which these SDKs make none.
    let contract = files(&workspace.root.join("wit"))?.into_iter();
    let contract = contract.filter(|file| file.parent() == Some(&workspace.root.join("wit")));
    let own: Vec<PathBuf> = [source.folder.clone(), sdk.clone()]
        .into_iter()
        .chain(contract)
        .chain([workspace.root.join(REQUIREMENTS)])
        .collect();
    let wanted = digest(&own)?;
    if component.exists() && fs::read_to_string(&stamp).is_ok_and(|old| old == wanted) {
        return Ok(());
    }
    let mut command = match source.language {
        Language::Python => {
            let mut command = Command::new(&tools.python);
            command.args(["-B", "-m", "gymkhana_sdk.build"]).env("PYTHONPATH", sdk.join("src"));
            // Prevents the compiler from searching the caller's environment for packages.
            command.env("VIRTUAL_ENV", tools.python.ancestors().nth(2).unwrap_or(&workspace.root));
            command
        }
        Language::Js => {
            link_modules(tools, &source.folder)?;
            let mut command = node(&tools.python, "node")?;
            command.arg("node_modules/@gymkhana/sdk/build.mjs").current_dir(&source.folder);
            command
        }
    };
    command.arg(&source.folder).arg("--out").arg(&component);
    if source.quick {
        command.arg("--quick").arg(workspace.target.join("foreign/bases"));
    }
    execute(&mut command)?;
    fs::create_dir_all(workspace.target.join("foreign"))?;
    fs::write(stamp, wanted)?;
    Ok(())
}

/// Digest of all files in these places.
fn digest(places: &[PathBuf]) -> anyhow::Result<String> {
    let listed: Vec<Vec<PathBuf>> = places.iter().map(|place| files(place)).collect::<anyhow::Result<_>>()?;
    digest_of_files(Path::new("/"), &listed.concat())
}

/// Whether tools generate a file or folder of this name: caches, packages and their descriptions.
fn is_generated(name: &str) -> bool {
    ["__pycache__", "node_modules", "build"].contains(&name) || name.starts_with('.') || name.ends_with(".egg-info")
}

/// All files of a folder, sorted, without files that tools generate. Links are not followed.
fn files(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if place.is_file() {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(place).with_context(|| format!("`{}` cannot be read", place.display()))? {
        let entry = entry?;
        if is_generated(&entry.file_name().to_string_lossy()) || entry.file_type()?.is_symlink() {
            continue;
        }
        found.extend(files(&entry.path())?);
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_sources_are_detected_and_generated_files_ignored() {
        let folder = std::env::temp_dir().join(format!("gymkhana-foreign-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("a/b.py"), "1").unwrap();
        let places = [folder.clone()];
        let before = digest(&places).unwrap();
        for generated in ["a/__pycache__", "a/sdk.egg-info", ".mypy_cache", "node_modules"] {
            fs::create_dir_all(folder.join(generated)).unwrap();
            fs::write(folder.join(generated).join("file"), "2").unwrap();
        }
        assert_eq!(digest(&places).unwrap(), before);
        fs::write(folder.join("a/b.py"), "3").unwrap();
        assert_ne!(digest(&places).unwrap(), before);
        fs::remove_dir_all(folder).unwrap();
    }
}
