//! `arrows`: the allowed dependencies between the crates of the workspace.
//!
//! [`ALLOWED`] is the one table. The check fails on a dependency that it does not list, and on a stale copy of it in
//! ARCHITECTURE.md, which `--write` updates.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use super::report;
use crate::step::{cargo, output_of, step};
use crate::workspace::{Package, Workspace, is_plugin};

/// A crate and the crates of the workspace that it may depend on, without the prefix `gymkhana-`.
type Allowed = (&'static str, &'static [&'static str]);

/// Allowed normal dependencies, from the lowest layer to the highest.
const ALLOWED: [Allowed; 60] = [
    ("nearest", &[]),
    ("finding", &[]),
    ("waits", &[]),
    ("unified", &[]),
    ("rows", &[]),
    ("registry", &["nearest"]),
    ("http", &["waits"]),
    ("record", &[]),
    ("net", &["record", "waits"]),
    ("policy", &["record"]),
    ("template", &[]),
    ("chat", &["record", "policy", "template"]),
    ("traces", &["record"]),
    ("filter", &["nearest", "record"]),
    ("sandbox", &["record", "registry", "nearest", "waits"]),
    ("egress", &["record", "sandbox", "net", "waits"]),
    ("keeper", &["waits"]),
    ("mcp", &["keeper", "net", "record", "registry", "sandbox", "waits"]),
    ("hub", &["net", "waits"]),
    ("rules", &[]),
    ("driver", &["nearest", "record", "registry", "rules", "sandbox"]),
    ("conformance", &["record", "registry", "sandbox", "driver"]),
    ("algorithm", &[]),
    (
        "rollout",
        &["record", "registry", "rules", "sandbox", "driver", "policy", "chat", "nearest", "algorithm", "waits"],
    ),
    ("gateway", &["http", "keeper", "record", "policy", "chat", "driver", "rollout", "waits"]),
    ("engine", &["algorithm"]),
    ("learner", &["algorithm", "engine", "record"]),
    ("trainer", &["algorithm", "engine", "learner", "record", "policy", "waits"]),
    ("policy-server", &["record", "policy", "chat", "net", "waits"]),
    ("tinker", &["record", "policy", "algorithm", "engine", "net", "waits"]),
    ("torch", &["record", "policy", "algorithm", "engine", "keeper", "waits"]),
    ("gguf", &[]),
    ("store", &["record", "registry"]),
    ("health", &["finding", "record", "store"]),
    ("page", &["filter", "finding", "health", "http", "record", "registry", "store", "waits"]),
    ("registry-server", &["http", "registry", "waits"]),
    ("registry-client", &["registry", "nearest", "waits"]),
    (
        "config",
        &[
            "record",
            "registry",
            "policy",
            "chat",
            "net",
            "hub",
            "rules",
            "algorithm",
            "policy-server",
            "filter",
            "nearest",
        ],
    ),
    (
        "orchestration",
        &[
            "record",
            "policy",
            "chat",
            "net",
            "hub",
            "egress",
            "mcp",
            "sandbox",
            "rollout",
            "policy-server",
            "store",
            "config",
            "registry",
            "filter",
            "nearest",
            "rows",
        ],
    ),
    ("data", &["record", "registry", "rows"]),
    (
        "run",
        &[
            "finding",
            "health",
            "http",
            "record",
            "policy",
            "chat",
            "hub",
            "sandbox",
            "rollout",
            "engine",
            "learner",
            "trainer",
            "policy-server",
            "tinker",
            "torch",
            "store",
            "config",
            "orchestration",
            "registry",
            "filter",
            "data",
            "unified",
            "nearest",
            "waits",
        ],
    ),
    (
        "serve",
        &[
            "http",
            "record",
            "chat",
            "sandbox",
            "driver",
            "rollout",
            "store",
            "config",
            "orchestration",
            "registry",
            "nearest",
            "rules",
            "waits",
        ],
    ),
    ("gymkhana", &["config", "gateway", "orchestration", "registry", "registry-client", "run"]),
    (
        "workers",
        &[
            "record",
            "policy",
            "chat",
            "sandbox",
            "rollout",
            "store",
            "config",
            "orchestration",
            "registry",
            "serve",
            "waits",
        ],
    ),
    (
        "cli",
        &[
            "http",
            "finding",
            "health",
            "record",
            "policy",
            "chat",
            "net",
            "hub",
            "egress",
            "sandbox",
            "driver",
            "conformance",
            "rollout",
            "trainer",
            "policy-server",
            "store",
            "algorithm",
            "config",
            "orchestration",
            "gateway",
            "serve",
            "data",
            "workers",
            "run",
            "gguf",
            "page",
            "traces",
            "filter",
            "registry",
            "registry-client",
            "registry-server",
            "nearest",
            "waits",
        ],
    ),
    (
        "python",
        &[
            "record",
            "policy",
            "chat",
            "sandbox",
            "driver",
            "rollout",
            "store",
            "config",
            "orchestration",
            "registry",
            "registry-client",
            "nearest",
            "cli",
            "waits",
        ],
    ),
    ("sdk-macros", &["nearest"]),
    ("sdk-bindings", &[]),
    ("sdk", &["sdk-bindings", "sdk-macros"]),
    ("answer", &["sdk"]),
    ("ranking", &[]),
    ("sqlite", &["sdk"]),
    ("scaling", &["record"]),
    ("tests", &["registry"]),
    (
        "benches",
        &[
            "record",
            "policy",
            "chat",
            "data",
            "gateway",
            "net",
            "egress",
            "sandbox",
            "rollout",
            "trainer",
            "store",
            "registry",
            "registry-client",
            "registry-server",
            "scaling",
            "sdk",
            "tests",
        ],
    ),
    (
        "studies",
        &["benches", "record", "policy", "chat", "gateway", "sandbox", "rollout", "trainer", "config", "orchestration"],
    ),
    (
        "fuzz",
        &[
            "chat",
            "config",
            "data",
            "engine",
            "filter",
            "gateway",
            "gguf",
            "http",
            "orchestration",
            "policy-server",
            "record",
            "registry",
            "registry-client",
            "rows",
            "run",
            "sandbox",
            "serve",
            "store",
            "workers",
        ],
    ),
    ("loopback", &[]),
    ("xtask-start", &[]),
    ("xtask", &[]),
];

/// Dependencies of the programs that measure on code of plugins and guests, called natively.
const NATIVE: [(&str, &[&str]); 2] = [("benches", &["guest-echo"]), ("studies", &["frozen-lake", "kuhn-poker"])];

/// Dependencies of plugins and guests.
const PLUGIN: [&str; 5] = ["sdk", "answer", "ranking", "rows", "sqlite"];

/// Crates that must not be anywhere below a crate: the trainer builds without the sandbox and without templates, the run
/// file is read without the sandbox, and training links no server of a protocol.
const NOT_BELOW: [(&str, &[&str]); 3] = [
    ("trainer", &["wasmtime", "minijinja"]),
    ("config", &["wasmtime", "wasmtime-wasi"]),
    ("run", &["gymkhana-serve", "gymkhana-gateway", "gymkhana-workers", "async-nats"]),
];

const BEGIN: &str = "<!-- crate-arrows:begin -->";
const END: &str = "<!-- crate-arrows:end -->";

/// Fails on a dependency that is not allowed; checks or, with `write`, updates the table in ARCHITECTURE.md.
pub fn run(workspace: &Workspace, write: bool) -> anyhow::Result<()> {
    step("arrows", || {
        let mut findings = check(&workspace.packages);
        for (name, forbidden) in NOT_BELOW {
            findings.extend(check_below(workspace, name, forbidden)?);
        }
        report(&findings, "arrows", "move the code to the layer it belongs to, or change the table in xtask")?;
        let path = workspace.root.join("ARCHITECTURE.md");
        let text = fs::read_to_string(&path).context("cannot read ARCHITECTURE.md")?;
        let wanted = with_table(&text, &table(&workspace.packages))?;
        if write {
            return fs::write(&path, wanted).context("cannot write ARCHITECTURE.md");
        }
        if text != wanted {
            bail!("the crate table in ARCHITECTURE.md is stale\nhint: run `cargo xtask arrows --write`");
        }
        Ok(())
    })
}

/// The name of a crate in the tables.
fn short(name: &str) -> &str {
    name.strip_prefix("gymkhana-").unwrap_or(name)
}

/// Dependencies of a package on others of the workspace, by their short names.
fn arrows<'a>(package: &'a Package, packages: &'a [Package]) -> impl Iterator<Item = &'a str> {
    let is_ours = |name: &&String| packages.iter().any(|other| other.name == **name);
    package.dependencies.iter().filter(is_ours).map(|name| short(name))
}

fn check(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages {
        let name = short(&package.name);
        let (mut allowed, native) = match ALLOWED.iter().find(|(known, _)| *known == name) {
            Some((_, allowed)) => (allowed.to_vec(), NATIVE.iter().find(|(known, _)| *known == name)),
            None if is_plugin(&package.folder) => (PLUGIN.to_vec(), None),
            None => {
                findings.push(format!("`{}` is not in the table of crates", package.name));
                continue;
            }
        };
        allowed.extend(native.map_or(&[][..], |(_, native)| native));
        let forbidden = arrows(package, packages).filter(|arrow| !allowed.contains(arrow));
        findings.extend(forbidden.map(|arrow| format!("`{name}` must not depend on `{arrow}`")));
    }
    findings
}

/// Dependencies of a crate, direct or not, that are forbidden.
fn check_below(workspace: &Workspace, name: &str, forbidden: &[&str]) -> anyhow::Result<Vec<String>> {
    let package = format!("gymkhana-{name}");
    let arguments = ["tree", "--package", &package, "--edges", "normal", "--prefix", "none"];
    let mut command = cargo();
    let tree = output_of(command.args(arguments).current_dir(&workspace.root)).context("`cargo tree` failed")?;
    Ok(forbidden_in(&tree, name, forbidden))
}

fn forbidden_in(tree: &str, name: &str, forbidden: &[&str]) -> Vec<String> {
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let found = forbidden.iter().filter(|forbidden| names.contains(forbidden));
    found.map(|forbidden| format!("`{name}` must not depend on `{forbidden}`, directly or not")).collect()
}

/// The table of the crates in the workspace with their dependencies, as Markdown.
fn table(packages: &[Package]) -> String {
    let mut table = "| crate | folder | depends on |\n|---|---|---|\n".to_owned();
    for (name, _) in ALLOWED {
        let Some(package) = packages.iter().find(|package| short(&package.name) == name) else { continue };
        let arrows: Vec<String> = arrows(package, packages).map(|arrow| format!("`{arrow}`")).collect();
        let arrows = if arrows.is_empty() { "–".to_owned() } else { arrows.join(", ") };
        let folder = folder_of(&package.folder);
        table.push_str(&format!("| `{name}` | [`{folder}`]({folder}) | {arrows} |\n"));
    }
    table
}

fn folder_of(folder: &Path) -> String {
    folder.to_string_lossy().into_owned()
}

/// The text with the table between the markers.
fn with_table(text: &str, table: &str) -> anyhow::Result<String> {
    let missing = || format!("ARCHITECTURE.md has no `{BEGIN}` … `{END}`");
    let (before, rest) = text.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        Package { name: name.to_owned(), folder: folder.into(), all_dependencies: vec![], dependencies, publish: false }
    }

    #[test]
    fn dependencies_outside_the_table_are_named() {
        let packages = [
            package("gymkhana-record", "host/record", &["serde"]),
            package("gymkhana-policy", "host/policy", &["gymkhana-record"]),
            package("gymkhana-trainer", "host/trainer", &["gymkhana-policy", "gymkhana-sandbox"]),
            package("gymkhana-sandbox", "host/sandbox", &[]),
            package("gymkhana-sdk", "sdk/rust", &[]),
            package("calculator", "plugins/tools/calculator", &["gymkhana-sdk", "gymkhana-record"]),
            package("gymkhana-new", "host/new", &[]),
        ];
        assert_eq!(
            check(&packages),
            [
                "`trainer` must not depend on `sandbox`",
                "`calculator` must not depend on `record`",
                "`gymkhana-new` is not in the table of crates",
            ]
        );
    }

    #[test]
    fn the_table_allows_no_cycle() {
        for (place, (name, allowed)) in ALLOWED.iter().enumerate() {
            for arrow in *allowed {
                let at = ALLOWED.iter().position(|(known, _)| known == arrow);
                let at = at.unwrap_or_else(|| panic!("`{name}` names `{arrow}`, which is not in the table"));
                assert!(at < place, "`{name}` is listed before `{arrow}`");
            }
        }
    }

    #[test]
    fn a_tree_is_searched_for_names() {
        let tree = "gymkhana-trainer v0.1.0 (/r)\ntch v0.24.0\nwasmtime-types v48.0.0\nminijinja v2.1.0\n";
        let found = forbidden_in(tree, "trainer", &["wasmtime", "minijinja"]);
        assert_eq!(found, ["`trainer` must not depend on `minijinja`, directly or not"]);
    }

    #[test]
    fn the_table_replaces_the_one_between_the_markers() {
        let packages = [
            package("gymkhana-policy", "host/policy", &["gymkhana-record", "serde"]),
            package("gymkhana-record", "host/record", &[]),
        ];
        let table = table(&packages);
        let rows =
            "| `record` | [`host/record`](host/record) | – |\n| `policy` | [`host/policy`](host/policy) | `record` |\n";
        assert!(table.ends_with(rows), "{table}");
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let written = with_table(&text, &table).unwrap();
        assert_eq!(written, format!("a\n{BEGIN}\n{table}{END}\nb\n"));
        assert_eq!(with_table(&written, &table).unwrap(), written, "writing twice changes nothing");
        assert!(with_table("a", &table).is_err());
    }
}
