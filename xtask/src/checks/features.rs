//! Features of dependencies that only tests name, or only the full build: they compile a dependency, and all crates above
//! it, a second time.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::report;
use crate::step::{cargo, output_of, step};
use crate::workspace::Workspace;

/// Kinds of dependencies in a build of the programs, in one of the tests, and of the programs without macros, which are
/// compiled for the compiler with features of their own.
const PROGRAMS: &str = "normal,build";
const TESTS: &str = "normal,build,dev";
const LINKED: &str = "normal,no-proc-macro";

/// Features by package. A package that is compiled for two purposes has several lists.
type Features = BTreeMap<String, Vec<String>>;

/// The programs and tests of the workspace: what `cargo xtask setup` and `cargo xtask test` build.
const WORKSPACE: [&str; 3] = ["--workspace", "--exclude", "xtask"];

/// The programs of a demonstration.
const LEAN: [&str; 5] = ["--package", "gymkhana-cli", "--no-default-features", "--features", "train"];

/// Packages that a build of the workspace compiles again after the lean build, with the reason.
const AGAIN: [(&str, &str); 3] = [
    ("axum", "WebSockets of `host serve`, which bring five more crates"),
    ("hyper", "the lean programs have no HTTP client"),
    ("hyper-util", "the lean programs have no HTTP client"),
];

/// Fails if a dependency of the programs has other features in a build of the tests, or one of the lean programs in a
/// build of all programs.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("features", || {
        let programs = features(workspace, &WORKSPACE, PROGRAMS)?;
        let tests = features(workspace, &WORKSPACE, TESTS)?;
        let mut findings = differences(&programs, &tests, ["the programs", "the tests"]);
        for kinds in [PROGRAMS, LINKED] {
            let lean = external(features(workspace, &LEAN, kinds)?, workspace);
            let all = features(workspace, &WORKSPACE, kinds)?;
            let found = differences(&lean, &all, ["the lean programs", "all programs"]);
            findings.extend(found.into_iter().filter(|finding| !is_named(finding)));
        }
        findings.sort();
        findings.dedup();
        report(&findings, "features", "name the feature in `[dependencies]`, too")
    })
}

/// Whether [`AGAIN`] names the package of a finding.
fn is_named(finding: &str) -> bool {
    AGAIN.iter().any(|(package, _)| finding.split(' ').next() == Some(package))
}

/// The packages that are not ours. Those of the workspace have features on purpose.
fn external(mut features: Features, workspace: &Workspace) -> Features {
    let is_ours = |package: &str| workspace.packages.iter().any(|own| package.split(' ').next() == Some(&own.name));
    features.retain(|package, _| !is_ours(package));
    features
}

fn features(workspace: &Workspace, selection: &[&str], kinds: &str) -> anyhow::Result<Features> {
    let mut command = cargo();
    command.arg("tree").args(selection).args(["--prefix", "none", "--format", "{p}\t{f}"]);
    let listed = output_of(command.args(["--edges", kinds]).current_dir(&workspace.root));
    Ok(parse(&listed.context("`cargo tree` failed")?))
}

fn parse(listed: &str) -> Features {
    let mut features = Features::new();
    for (package, list) in listed.lines().filter_map(|line| line.split_once('\t')) {
        let list = list.trim_end_matches(" (*)").to_owned();
        let lists = features.entry(package.to_owned()).or_default();
        if !lists.contains(&list) {
            lists.push(list);
        }
    }
    features
}

/// Packages of one build that another one compiles again; `names` are those of the builds.
fn differences(one: &Features, other: &Features, [name, other_name]: [&str; 2]) -> Vec<String> {
    let recompiled = |(package, lists): (&String, &Vec<String>)| {
        let others = other.get(package)?;
        let list = lists.iter().find(|list| !others.contains(list))?;
        Some(format!("{package}: features `{list}` in {name}, `{}` in {other_name}", others.join("` and `")))
    };
    one.iter().filter_map(recompiled).collect()
}

#[cfg(test)]
mod tests {
    use super::{differences, parse};

    const PROGRAMS: &str = "rustix v1.1.6\tfs,termios\nserde v1.0.0\tderive\nserde v1.0.0\tderive (*)\n";
    const NAMES: [&str; 2] = ["the programs", "the tests"];

    #[test]
    fn features_of_tests_alone_are_found() {
        let tests = PROGRAMS.replace("fs,termios", "fs,pty,termios");
        let found = differences(&parse(PROGRAMS), &parse(&tests), NAMES);
        assert_eq!(found, ["rustix v1.1.6: features `fs,termios` in the programs, `fs,pty,termios` in the tests"]);
    }

    #[test]
    fn packages_of_tests_alone_are_allowed() {
        let tests = format!("{PROGRAMS}insta v1.0.0\tdefault\n");
        assert!(differences(&parse(PROGRAMS), &parse(&tests), NAMES).is_empty());
    }
}
