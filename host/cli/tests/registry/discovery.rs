//! Descriptions, versions and yanked pins, dry runs, and messages of the registry commands.

use std::path::Path;

use gymkhana_registry::Digest;

use crate::common::{Desk, finish};
use crate::registry::report as report_of;
use crate::{Market, searcher};

/// `host info` and `host plugin inspect NAME` describe a release.
#[test]
fn a_released_plugin_is_described_with_its_versions() {
    let market = Market::new();
    market.publish_built("calculator");
    let shown = market.host(&["info", "calculator"]).succeeded();
    assert!(
        shown.starts_with("    plugin  gymkhana/calculator 0.1.0\n  registry  shop\n publisher  ed25519:"),
        "{shown}"
    );
    assert!(shown.contains("\n  versions  0.1.0\n") && shown.contains(" functions  calculate: "), "{shown}");
    assert_eq!(market.host(&["plugin", "inspect", "gymkhana/calculator", "--offline"]).succeeded(), shown);
    assert_eq!(market.host(&["registry", "info", "calculator"]).succeeded(), shown);
    let told = market.host(&["info", "calculator@^2"]).mistake("no such version");
    assert!(
        told.contains("no version of `gymkhana/calculator` that matches `^2`\nhint: its versions are 0.1.0"),
        "{told}"
    );
    market.host(&["yank", "gymkhana/calculator@0.1.0"]).succeeded();
    let programs = market.host(&["info", "calculator@=0.1.0", "--json"]).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&programs).expect("JSON");
    assert_eq!(parsed["release"]["yanked"], true, "{programs}");
    assert_eq!(parsed["release"]["versions"][0]["version"], "0.1.0");
    assert_eq!(parsed["description"]["tool"]["functions"][0]["name"], "calculate");
    market.host(&["info", "calculatr"]).mistake("misspelt");
}

/// Commands for authors take names as `plugin inspect` does, also beside the plugin.
#[test]
fn released_plugins_are_tested_measured_and_played_by_name() {
    let market = Market::new();
    for name in ["word-problems", "calculator", "answer-match"] {
        market.publish_built(name);
    }
    let tested = market.host(&["plugin", "test", "gymkhana/calculator@^0.1", "--steps", "20"]).succeeded();
    assert!(tested.contains("gymkhana/calculator 0.1.0 conforms: "), "{tested}");
    market.host(&["plugin", "bench", "calculator", "--times", "1"]).succeeded();
    let described = market.host(&["plugin", "inspect", "word-problems", "--with", "calculator"]).succeeded();
    assert!(described.contains("gymkhana/word-problems 0.1.0"), "{described}");
    market.desk.write("typed", "follow\nfollow\n");
    let typed = std::fs::File::open(market.desk.path("typed")).expect("a file");
    let mut play = market.desk.command(&["plugin", "play", "word-problems", "--with", "calculator,answer-match"]);
    let played = finish(play.stdin(typed)).succeeded();
    assert!(played.contains("call calculate ") && played.contains("\nreward answer-match: 1\n"), "{played}");
    // An unpublished version, a misspelt name, and a folder of this name without a plugin.
    for command in ["test", "play", "bench"] {
        let told = market.host(&["plugin", command, "calculator@^2"]).mistake(command);
        assert!(told.contains("no version matches `^2`; published: 0.1.0"), "{told}");
        let told = market.host(&["plugin", command, "calculater"]).mistake(command);
        assert!(told.contains("hint: a similar name is `gymkhana/calculator`"), "{told}");
    }
    std::fs::create_dir(market.desk.path("calculator")).expect("a folder");
    let told = market.host(&["plugin", "test", "calculator"]).mistake("a folder");
    assert!(told.contains("`calculator` is not a plugin's folder"), "{told}");
}

/// A release that describes its plugin is printed without a download; the component is opened for other options, and for
/// a release without a description.
#[test]
fn a_description_needs_no_component() {
    let market = Market::new();
    market.publish_built("answer-match");
    let outcome = market.publish("searcher", &searcher("1.0.0", r#"["log"]"#));
    assert!(outcome.talk.contains("warning: the release will not describe options and functions: "), "{outcome:?}");
    // The component that cannot be opened is fetched, and the page gives the reason.
    let shown = market.host(&["info", "searcher"]).succeeded();
    assert!(shown.contains("  options  not known: ") && shown.contains("\n   imports  "), "{shown}");
    for component in std::fs::read_dir(market.desk.path("shop/components")).expect("components").flatten() {
        std::fs::remove_file(component.path()).expect("removed");
    }
    let shown = market.host(&["info", "answer-match"]).succeeded();
    assert!(shown.contains("components  correct: 1 if the final message contains the answer, else 0\n"), "{shown}");
    let printed = market.host(&["info", "answer-match", "--json"]).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    // The description is that of the component.
    let component = market.host(&["plugin", "inspect", "plugins/answer-match.wasm", "--json"]).succeeded();
    let component: serde_json::Value = serde_json::from_str(&component).expect("JSON");
    assert_eq!(parsed["description"], component["description"]);
    // The other desks' cache may hold the component.
    let mut inspect = market.desk.command(&["plugin", "inspect", "answer-match", "--option", "mode=exact"]);
    let told = finish(inspect.env("XDG_CACHE_HOME", market.desk.path("cache"))).mistake("no component");
    assert!(told.contains("components/") && told.contains("registry `shop`"), "{told}");
}

/// A folder is built, checked and published by one command; the version exists then.
#[test]
fn a_folder_is_built_and_published_once() {
    let market = Market::new();
    market.host(&["plugin", "new", "notebook", "--kind", "tool", "--namespace", "acme"]).succeeded();
    let manifest = std::fs::read_to_string(market.desk.path("notebook/Cargo.toml")).expect("a manifest");
    let described = manifest.replace("Notes that an agent keeps during an episode", "Words that an agent writes down");
    assert_ne!(described, manifest);
    market.desk.write("notebook/Cargo.toml", described);
    // This repository's lock file, so that no index of crates is needed.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, market.desk.path("notebook/Cargo.lock")).expect("a lock file");
    let publish = || {
        let mut command = market.desk.command(&["publish", "notebook", "--key", "acme.key"]);
        command.env("GYMKHANA_SHOP_TOKEN", &market.token);
        finish(command.env("CARGO_TARGET_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/authors")))
    };
    let outcome = publish();
    assert_eq!(outcome.talk.matches("building notebook\n").count(), 1, "{outcome:?}");
    assert_eq!(outcome.talk.matches("running the conformance suite on").count(), 1, "{outcome:?}");
    assert_eq!(outcome.succeeded(), "published acme/notebook 0.1.0 in registry `shop`\n");
    let built = std::fs::read(market.desk.path("notebook/notebook.wasm")).expect("a component");
    let shown = market.host(&["info", "acme/notebook"]).succeeded();
    assert!(shown.contains(&Digest::of(&built).to_string()) && shown.contains(" functions  "), "{shown}");
    assert!(publish().mistake("again").contains("`acme/notebook` 0.1.0 is already published"));
    assert!(shown.contains("\n  versions  0.1.0\n"), "{shown}");
}

/// The command of the README, in a new project with the registry that set-up made in this repository.
#[test]
fn the_readmes_add_works_with_the_registry_of_set_up() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(repository.join("README.md")).expect("README.md");
    let line = readme.lines().find_map(|line| line.strip_prefix("$ host add ")).expect("the command");
    let plugin = line.split_whitespace().next().expect("a plugin");
    assert_eq!(plugin, "gymkhana/calculator@^0.1");
    let home = repository.join(".registry");
    let mapping =
        std::fs::read_to_string(home.join("gymkhana-registries.toml")).expect("run `cargo xtask setup` first");
    let files = format!("folder = \"{}\"", home.join("files").display());
    let desk = Desk::new();
    desk.write("gymkhana-registries.toml", mapping.replace("folder = \"files\"", &files));
    let added = desk.host(&["add", plugin]).succeeded();
    assert!(added.starts_with("gymkhana/calculator 0.1."), "{added}");
    let verified = desk.host(&["verify"]).succeeded();
    assert!(verified.contains("gymkhana/calculator 0.1.") && verified.contains("signed by ed25519:"), "{verified}");
    let shown = desk.host(&["info", "calculator"]).succeeded();
    assert!(shown.contains(" functions  calculate: "), "{shown}");
}

/// `list`, `outdated` and `update` tell what is newer; the commands that use a yanked version warn.
#[test]
fn newer_and_yanked_versions_are_named() {
    let market = Market::new();
    market.publish("one", &searcher("1.0.0", r#"["log","http"]"#)).succeeded();
    market.host(&["add", "searcher@^1", "--allow", "http"]).succeeded();
    assert_eq!(market.host(&["outdated"]).succeeded(), "");
    market.publish("two", &searcher("1.1.0", r#"["log","http"]"#)).succeeded();
    market.publish("three", &searcher("2.0.0", r#"["log","http"]"#)).succeeded();
    let listed = market.host(&["list", "--json"]).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let expected = serde_json::json!([{
        "name": "acme/searcher", "required": "^1", "locked": "1.0.0", "yanked": false, "newest_matching": "1.1.0",
        "newest": "2.0.0", "allow": ["http"],
    }]);
    assert_eq!(parsed, expected);
    let row =
        |text: &str| text.lines().nth(1).map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let words = ["acme/searcher", "^1", "1.0.0", "1.1.0", "2.0.0", "http"].map(str::to_owned).to_vec();
    assert_eq!(row(&market.host(&["list"]).succeeded()), Some(words.clone()));
    assert_eq!(row(&market.host(&["outdated"]).succeeded()), Some(words));
    let updated = market.host(&["update"]);
    assert_eq!(updated.results, "acme/searcher 1.0.0 -> 1.1.0\n", "{updated:?}");
    let held = "acme/searcher stays at 1.1.0: `^1` excludes 2.0.0; `host add acme/searcher@^2.0.0` requires it";
    assert!(updated.talk.contains(held), "{updated:?}");
    // Nothing is yanked yet.
    let warning = "warning: `acme/searcher` 1.1.0 is yanked";
    let warns = |arguments: &[&str]| market.host(arguments).talk.contains(warning);
    assert!(!warns(&["lock"]) && !warns(&["verify"]));
    market.host(&["yank", "acme/searcher@1.1.0"]).succeeded();
    for command in [&["lock"][..], &["lock", "--locked"], &["verify"], &["run", "run.toml", "--out", "out"]] {
        assert!(warns(command), "{command:?}");
    }
    assert!(market.host(&["list"]).succeeded().contains(" 1.1.0 (yanked) "), "a locked version that is yanked");
    // An update chooses the newest version that is not yanked.
    let updated = market.host(&["update"]);
    assert_eq!(updated.results, "acme/searcher 1.1.0 -> 1.0.0\n", "{updated:?}");
    assert!(!updated.talk.contains("is yanked"), "{updated:?}");
}

#[test]
fn a_dry_run_checks_everything_and_publishes_nothing() {
    let market = Market::new();
    let component = searcher("1.0.0", r#"["log"]"#);
    market.desk.write("one.wasm", &component);
    market.desk.write("one.json", serde_json::to_string(&report_of(&component)).expect("JSON"));
    let publish = |more: &[&str]| market.host(&[&["publish", "one.wasm", "--report", "one.json"], more].concat());
    publish(&["--dry-run"]).mistake("without a key");
    market.host(&["keygen", "other.key"]).succeeded();
    let told = publish(&["--dry-run", "--key", "other.key"]).mistake("a stranger");
    assert!(told.contains("otherwise publish under your own namespace"), "{told}");
    let dry = publish(&["--dry-run", "--key", "acme.key"]).succeeded();
    assert_eq!(dry, "acme/searcher 1.0.0 can be published in registry `shop`; nothing changed\n");
    market.host(&["info", "acme/searcher"]).mistake("not published");
    publish(&["--key", "acme.key"]).succeeded();
    let told = publish(&["--dry-run", "--key", "acme.key"]).mistake("published");
    assert!(told.contains("is already published"), "{told}");
    // The server does not know this token.
    let arguments = ["yank", "acme/searcher@1.0.0"];
    let told =
        finish(market.desk.command(&arguments).env("GYMKHANA_SHOP_TOKEN", "gymkhana_0")).mistake("a wrong token");
    assert!(told.contains("the one in GYMKHANA_SHOP_TOKEN is unknown or revoked"), "{told}");
}

#[test]
fn a_new_registry_prints_the_lines_that_use_it() {
    let desk = Desk::new();
    let public = desk.host(&["keygen", "root.key"]).succeeded();
    assert_eq!(desk.host(&["keygen", "root.key", "--show"]).succeeded(), public);
    desk.host(&["keygen", "absent.key", "--show"]).mistake("no key");
    assert!(!desk.path("absent.key").exists());
    let printed = desk.host(&["registry", "init", "shop", "--root", "root.key"]).succeeded();
    let (_, lines) = printed.split_once('\n').expect("a first line");
    desk.host(&["registry", "grant", "shop", "acme", public.trim(), "--root", "root.key"]).succeeded();
    let told = desk.host(&["search"]).mistake("no registry");
    assert!(told.contains("no registry is configured\nhint: add one to gymkhana-registries.toml"), "{told}");
    desk.write("gymkhana-registries.toml", lines.replace("NAMESPACE", "acme"));
    // Missing keys are reported before the suite runs.
    let component = searcher("1.0.0", r#"["log"]"#);
    desk.write("one.wasm", &component);
    desk.write("one.json", serde_json::to_string(&report_of(&component)).expect("JSON"));
    let publish = ["publish", "one.wasm", "--report", "one.json", "--key", "root.key"];
    let told = desk.host(&publish).mistake("without the root key");
    assert!(told.contains("is a signed folder, which requires its root key"), "{told}");
    let folder = "[package]\nname = \"searcher\"\n[package.metadata.gymkhana]\nnamespace = \"acme\"\n";
    std::fs::create_dir(desk.path("mine")).expect("a folder");
    desk.write("mine/Cargo.toml", folder);
    let told = desk.host(&["publish", "mine", "--key", "root.key"]).mistake("before it is built");
    assert!(told.contains("requires its root key") && !told.contains("building"), "{told}");
    desk.host(&[&publish[..], &["--root", "root.key"]].concat()).succeeded();
    // A version that exists is reported before the suite runs, too.
    let told = desk.host(&["publish", "one.wasm", "--key", "root.key", "--root", "root.key"]).mistake("again");
    assert!(told.contains("is already published") && !told.contains("conformance suite"), "{told}");
    assert!(desk.host(&["search"]).succeeded().contains("acme/searcher 1.0.0 (tool, mine)"));
    desk.host(&["registry", "init", "open", "--unsigned"]).succeeded();
    let told =
        desk.host(&["registry", "serve", "open", "--root", "root.key", "--listen", "127.0.0.1:0"]).mistake("unsigned");
    assert!(told.contains("registry `open` is unsigned, but a served registry must be signed"), "{told}");
}

#[test]
fn a_description_of_a_template_is_not_published() {
    let desk = Desk::new();
    let told = desk.host(&["publish", "plugins/guest-js-tool.wasm"]).mistake("a template");
    assert!(told.contains("has the description of its template: `A notebook for one episode`"), "{told}");
}

#[test]
fn a_folder_is_no_component() {
    let desk = Desk::new();
    // A plugin's folder is built first.
    for command in ["play", "bench"] {
        let told = desk.host(&["plugin", command, "./plugins"]).mistake(command);
        assert!(told.contains("`./plugins` is not a plugin's folder"), "{told}");
    }
    let told = desk.host(&["plugin", "bench", "./absent.wasm"]).mistake("absent");
    assert!(told.contains("build yours with `host plugin build DIR`"), "{told}");
}

#[test]
fn damaged_project_files_are_explained() {
    let market = Market::new();
    market.desk.write("gymkhana.toml", "[plugins]\n\"a/b\" = \"abc\"\n");
    let told = market.host(&["lock"]).mistake("no requirement");
    assert!(told.contains("`abc` of `a/b` in ") && told.contains("hint: write for example `^1`"), "{told}");
    market.desk.write("gymkhana.toml", "[plugins]\n\"a/b\" = 1\n");
    let told = market.host(&["lock"]).mistake("a number");
    assert!(told.contains("a plugin needs a version requirement such as \"^1\""), "{told}");
    market.desk.write("gymkhana.toml", "[plugins]\n");
    market.desk.write("gymkhana.lock", "schema = ");
    let told = market.host(&["lock"]).mistake("a damaged lock");
    assert!(told.contains("or delete it and run `host lock`"), "{told}");
}
