//! `docs`: the site with the API documentation of all SDKs, its links and the generated reference pages.

mod site;

use std::path::Path;
use std::process::Command;

use crate::checks::links;
use crate::step::{cargo, execute, step};
use crate::tools::{NPM, NPM_LOCK, ensure_npm, ensure_python, node};
use crate::workspace::Workspace;
use crate::{foreign, setup};
use site::Api;

/// Locked requirements of the Python documentation.
const PDOC: &str = include_str!("../../requirements/pdoc.txt");

/// The native module of the Python package, whose library has another name and whose users read Python.
const PYTHON_MODULE: &str = "gymkhana-python";

/// Sets up and builds all documentation into `target/docs/site`.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    setup::run(workspace)?;
    run_built(workspace)
}

/// Builds the documentation after the set-up.
pub fn run_built(workspace: &Workspace) -> anyhow::Result<()> {
    step("docs: Rust", || {
        let mut command = cargo();
        command.args(["doc", "--release", "--no-deps"]).current_dir(&workspace.root);
        command.args(crates(workspace).iter().flat_map(|name| ["--package", name]));
        execute(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    let Api { python, js, .. } = api(workspace);
    step("docs: Python", || document_python(workspace, &python))?;
    step("docs: JavaScript", || document_js(workspace, &js))?;
    step("docs: generated reference", || check_reference(workspace))?;
    run_pages(workspace)
}

/// Builds the site alone, with the API documentation that was built before.
pub fn run_pages(workspace: &Workspace) -> anyhow::Result<()> {
    links::run(workspace)?;
    step("docs: site", || site::build(workspace, &api(workspace), &workspace.target.join("docs").join("site")))
}

/// Folders of the API documentation.
fn api(workspace: &Workspace) -> Api<'_> {
    let out = workspace.target.join("docs");
    let (python, js) = (out.join("python"), out.join("js"));
    let linked = crates(workspace).into_iter().filter(|name| *name != PYTHON_MODULE).collect();
    Api { rust: workspace.target.join("doc"), crates: linked, python, js }
}

/// Names of the documented packages.
fn crates(workspace: &Workspace) -> Vec<&str> {
    let documented = workspace.packages.iter().filter(|package| is_documented(&package.folder));
    documented.map(|package| package.name.as_str()).collect()
}

/// Whether others use the package in this folder as a library: the SDK, the registry and the crates of the host.
fn is_documented(folder: &Path) -> bool {
    ["sdk", "registry", "host"].iter().any(|library| folder.starts_with(library))
}

fn document_python(workspace: &Workspace, out: &Path) -> anyhow::Result<()> {
    let python = ensure_python(&workspace.root, "pdoc", PDOC)?;
    let mut command = Command::new(python);
    command.args(["-B", "-W", "error", "-m", "pdoc", "gymkhana_sdk", "--output-directory"]).arg(out);
    execute(command.env("PYTHONPATH", workspace.root.join("sdk/python/src")))
}

fn document_js(workspace: &Workspace, out: &Path) -> anyhow::Result<()> {
    let python = foreign::ensure_python_with_node(workspace)?;
    let home = ensure_npm(&workspace.root, &python, NPM, &workspace.root.join(NPM_LOCK))?;
    let sdk = workspace.root.join("sdk/js");
    let mut command = node(&python, "node")?;
    command.arg(home.join("node_modules/typedoc/bin/typedoc")).args(["--options", "typedoc.json", "--out"]).arg(out);
    execute(command.current_dir(sdk))
}

/// The pages that the host generates must be those in `docs/reference`.
fn check_reference(workspace: &Workspace) -> anyhow::Result<()> {
    let host = workspace.target.join("release").join("host");
    execute(Command::new(host).args(["reference", "--check", "docs/reference"]).current_dir(&workspace.root))
}
