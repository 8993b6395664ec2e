//! The cache of compiled plugins, and checks of the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{Desk, Outcome, finish};

/// Runs `host` with a cache of its own and this limit in MiB.
fn host(desk: &Desk, limit: &str, arguments: &[&str]) -> Outcome {
    let mut command = desk.command(arguments);
    finish(command.env("XDG_CACHE_HOME", desk.path("cache")).env("GYMKHANA_CACHE_MIB", limit))
}

/// Plugins that `host cache list --json` names.
fn cached(desk: &Desk) -> Vec<String> {
    let listed = host(desk, "100", &["cache", "list", "--json"]).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let entries = parsed["entries"].as_array().expect("a list");
    let sizes: u64 = entries.iter().filter_map(|entry| entry["bytes"].as_u64()).sum();
    assert_eq!((&parsed["total_bytes"], &parsed["limit_bytes"]), (&sizes.into(), &104_857_600.into()), "{listed}");
    entries.iter().map(|entry| entry["plugin"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn compiled_plugins_are_listed_and_removed() {
    let desk = Desk::new();
    assert!(cached(&desk).is_empty());
    host(&desk, "100", &["plugin", "inspect", "plugins/calculator.wasm"]).succeeded();
    assert_eq!(cached(&desk), ["gymkhana/calculator 0.1.0"]);
    let people = host(&desk, "100", &["cache", "list"]).succeeded();
    let total = people.lines().last().expect("a line");
    assert!(total.contains(" of 100.0 MiB in ") && total.ends_with("cache/gymkhana/compiled"), "{people}");
    assert_eq!(people.lines().count(), 3, "{people}");

    let kept = host(&desk, "100", &["cache", "clean", "--older-than", "1d"]).succeeded();
    assert!(kept.starts_with("removed 0 entries, 0 B, from "), "{kept}");
    assert_eq!(cached(&desk).len(), 1);
    fs::create_dir(desk.path("cache/gymkhana/bases")).expect("a folder");
    desk.write("cache/gymkhana/bases/a.wasm", "");
    let removed = host(&desk, "100", &["cache", "clean"]).succeeded();
    assert!(removed.starts_with("removed 1 entry, "), "{removed}");
    assert!(cached(&desk).is_empty());
    assert!(!desk.path("cache/gymkhana/bases").exists() && removed.contains("bases of quick builds"), "{removed}");
}

#[test]
fn a_limit_bounds_the_cache_and_a_wrong_one_is_a_mistake() {
    let desk = Desk::new();
    host(&desk, "0", &["plugin", "inspect", "plugins/calculator.wasm"]).succeeded();
    assert!(cached(&desk).is_empty());
    let told = host(&desk, "much", &["cache", "list"]).mistake("a limit that is not a number");
    assert!(told.contains("`much` of GYMKHANA_CACHE_MIB is not a number of MiB\nhint: "), "{told}");
    let told = host(&desk, "", &["cache", "clean", "--older-than", "30"]).mistake("an age without a unit");
    assert!(told.contains("expected a number and a unit"), "{told}");
}

/// Checks of `host doctor --json` with their grades.
fn grades(desk: &Desk, more: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
    let outcome = host(desk, "100", &[&["doctor", "--json"], more].concat());
    let parsed: serde_json::Value = serde_json::from_str(&outcome.results).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let findings = parsed.as_array().expect("a list").iter();
    (outcome.code, findings.map(|finding| (text(&finding["check"]), text(&finding["status"]))).collect())
}

fn grade_of<'a>(grades: &'a [(String, String)], check: &str) -> Vec<&'a str> {
    grades.iter().filter(|(name, _)| name == check).map(|(_, grade)| grade.as_str()).collect()
}

#[test]
fn the_doctor_checks_everything_and_names_what_fails() {
    let desk = Desk::new();
    let (_, found) = grades(&desk, &["--offline"]);
    for check in
        ["libtorch", "gpu", "mappings", "files", "memory", "disk", "cache", "registry", "rust", "python", "node"]
    {
        assert!(!grade_of(&found, check).is_empty(), "{check}: {found:?}");
    }
    assert_eq!((grade_of(&found, "libtorch"), grade_of(&found, "cache")), (vec!["ok"], vec!["ok"]));

    let folder = desk.path("cache/gymkhana/compiled");
    fs::create_dir_all(&folder).expect("made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("set");
    let (code, found) = grades(&desk, &["--offline"]);
    assert_eq!((code, grade_of(&found, "cache")), (Some(1), vec!["fail"]), "{found:?}");
    let people = host(&desk, "100", &["doctor", "--offline"]);
    assert_eq!(people.code, Some(1), "{people:?}");
    let failure = people.results.lines().skip_while(|line| !line.starts_with("fail  cache     ")).nth(1);
    assert_eq!(failure, Some("                hint: run `chmod 700` on it, or choose another"), "{people:?}");
}

/// The kernel completes its connections, and no request is read.
#[test]
fn a_silent_registry_is_a_failed_check() {
    let (desk, silent) = (Desk::new(), std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let address = silent.local_addr().expect("it has one");
    let registry = format!("[registries.silent]\noci = 'http://{address}/acme'\nunsigned = true\n");
    desk.write("gymkhana-registries.toml", registry);
    let outcome = host(&desk, "100", &["doctor"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let said = "fail  registry  the registry `silent` did not answer for 5 s\n                hint: check its URL";
    assert!(outcome.results.contains(said), "{}", outcome.results);
}

#[test]
fn a_registry_that_does_not_answer_fails_unless_offline() {
    let desk = Desk::new();
    desk.write("gymkhana-registries.toml", "[registries.gone]\nfolder = 'nowhere'\nunsigned = true\n");
    let (code, found) = grades(&desk, &[]);
    assert_eq!((code, grade_of(&found, "registry")), (Some(1), vec!["fail"]), "{found:?}");
    let (_, found) = grades(&desk, &["--offline"]);
    assert_eq!(grade_of(&found, "registry"), ["ok"], "{found:?}");
}
