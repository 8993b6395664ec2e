//! Packages whose tests a change of some crates needs: the crates and all that use them.

use std::collections::BTreeSet;

use crate::step::UserError;
use crate::workspace::{Package, Workspace};

/// Names of the packages, sorted. Crates are named as in ARCHITECTURE.md, such as `rollout`, or as packages.
pub fn packages(workspace: &Workspace, crates: &[String]) -> anyhow::Result<Vec<String>> {
    let mut affected = BTreeSet::new();
    for name in crates {
        let package = workspace.packages.iter().find(|package| is_named(package, name)).ok_or_else(|| {
            UserError(format!(
                "no crate `{name}`\nhint: name crates as ARCHITECTURE.md does, such as `rollout`; without names, all tests run"
            ))
        })?;
        affected.insert(package.name.as_str());
    }
    loop {
        let users = workspace
            .packages
            .iter()
            .filter(|package| package.all_dependencies.iter().any(|dependency| affected.contains(dependency.as_str())));
        let more: BTreeSet<&str> = users.map(|package| package.name.as_str()).collect();
        if more.is_subset(&affected) {
            break;
        }
        affected.extend(more);
    }
    Ok(affected.into_iter().map(str::to_owned).collect())
}

fn is_named(package: &Package, name: &str) -> bool {
    package.name == name || package.name.strip_prefix("gymkhana-") == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        let package = |name: &str, uses: &[&str]| Package {
            name: name.to_owned(),
            folder: name.into(),
            dependencies: vec![],
            all_dependencies: uses.iter().map(|name| (*name).to_owned()).collect(),
            publish: false,
        };
        let packages = vec![
            package("gymkhana-record", &[]),
            package("gymkhana-store", &["gymkhana-record"]),
            package("gymkhana-cli", &["gymkhana-store"]),
            package("gymkhana-page", &["gymkhana-record"]),
        ];
        Workspace { root: "/r".into(), target: "/r/target".into(), packages }
    }

    #[test]
    fn users_of_a_crate_are_tested_and_no_others() {
        let found = |name: &str| packages(&workspace(), &[name.to_owned()]).expect("known");
        assert_eq!(found("store"), ["gymkhana-cli", "gymkhana-store"]);
        assert_eq!(found("gymkhana-page"), ["gymkhana-page"]);
        assert_eq!(found("record").len(), 4);
        assert!(packages(&workspace(), &[]).expect("none").is_empty());
    }

    #[test]
    fn an_unknown_crate_is_refused_with_a_hint() {
        let error = packages(&workspace(), &["stroe".to_owned()]).expect_err("no such crate");
        assert!(error.is::<UserError>() && error.to_string().contains("no crate `stroe`\nhint:"), "{error}");
    }
}
