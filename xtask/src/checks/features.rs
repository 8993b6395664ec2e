//! Features of dependencies that only tests name: they compile a dependency, and all crates above it, a second time.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::report;
use crate::step::{cargo, output_of, step};
use crate::workspace::Workspace;

/// Kinds of dependencies in a build of the programs, and in one of the tests.
const PROGRAMS: &str = "normal,build";
const TESTS: &str = "normal,build,dev";

/// Features by package. A package that is compiled for two purposes has several lists.
type Features = BTreeMap<String, Vec<String>>;

/// Fails if a dependency of the programs has other features in a build of the tests.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("features", || {
        let findings = differences(&features(workspace, PROGRAMS)?, &features(workspace, TESTS)?);
        report(&findings, "features", "name the feature in `[dependencies]`, too")
    })
}

fn features(workspace: &Workspace, kinds: &str) -> anyhow::Result<Features> {
    let mut command = cargo();
    command.args(["tree", "--workspace", "--exclude", "xtask", "--prefix", "none", "--format", "{p}\t{f}"]);
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

fn differences(programs: &Features, tests: &Features) -> Vec<String> {
    let recompiled = |(package, lists): (&String, &Vec<String>)| {
        let other = tests.get(package)?;
        let list = lists.iter().find(|list| !other.contains(list))?;
        Some(format!("{package}: features `{list}` in the programs, `{}` in the tests", other.join("` and `")))
    };
    programs.iter().filter_map(recompiled).collect()
}

#[cfg(test)]
mod tests {
    use super::{differences, parse};

    const PROGRAMS: &str = "rustix v1.1.6\tfs,termios\nserde v1.0.0\tderive\nserde v1.0.0\tderive (*)\n";

    #[test]
    fn features_of_tests_alone_are_found() {
        let tests = PROGRAMS.replace("fs,termios", "fs,pty,termios");
        let found = differences(&parse(PROGRAMS), &parse(&tests));
        assert_eq!(found, ["rustix v1.1.6: features `fs,termios` in the programs, `fs,pty,termios` in the tests"]);
    }

    #[test]
    fn packages_of_tests_alone_are_allowed() {
        let tests = format!("{PROGRAMS}insta v1.0.0\tdefault\n");
        assert!(differences(&parse(PROGRAMS), &parse(&tests)).is_empty());
    }
}
