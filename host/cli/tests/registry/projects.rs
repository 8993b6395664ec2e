//! `host init` and `host list --all`: what can be used, and projects made of it.

use super::common::terminal::in_terminal;
use super::{Market, finish, tool};

/// A market with an environment that needs a reward, one that has its own, a tool and a reward.
fn market() -> Market {
    let market = Market::new();
    for name in ["word-problems", "frozen-lake", "calculator", "answer-match"] {
        market.publish_built(name);
    }
    market
}

#[test]
fn all_plugins_are_listed_with_their_place() {
    let market = Market::new();
    market.publish("first", &tool("listed-first", "1.0.0", "[]")).succeeded();
    market.publish("second", &tool("listed-second", "1.0.0", "[]")).succeeded();
    // All other tests share a cache of components.
    let host = |arguments: &[&str]| {
        finish(market.desk.command(arguments).env("XDG_CACHE_HOME", market.desk.path("cache"))).succeeded()
    };
    let place = |name: &str| {
        let listed = host(&["list", "--all", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
        let found = listed.as_array().expect("a list").iter().find(|plugin| plugin["name"] == name);
        found.unwrap_or_else(|| panic!("{name} in {listed}"))["place"].as_str().expect("a word").to_owned()
    };
    assert_eq!(place("acme/listed-first"), "registry");
    host(&["add", "acme/listed-first"]);
    assert_eq!(place("acme/listed-first"), "project");
    assert_eq!(place("acme/listed-second"), "registry");
    // Without the project that requires it, a downloaded plugin is still here.
    host(&["remove", "listed-first"]);
    assert_eq!(place("acme/listed-first"), "here");
    let listed = host(&["list", "--all"]);
    let line = listed.lines().find(|line| line.starts_with("acme/listed-second ")).expect("a line");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells, ["acme/listed-second", "1.0.0", "tool", "registry", "Finds", "pages."]);
}

#[test]
fn a_combination_is_a_project_that_runs_or_is_refused() {
    let market = market();
    let mut written = vec![];
    for environment in ["word-problems", "frozen-lake"] {
        for tools in ["", "calculator"] {
            for rewards in ["", "answer-match"] {
                let dir = format!("{environment}-{tools}-{rewards}");
                let outcome = market.host(&[
                    "init",
                    &dir,
                    "--environment",
                    environment,
                    "--tools",
                    tools,
                    "--rewards",
                    rewards,
                    "--episodes",
                    "256",
                ]);
                let folder = market.desk.path(&dir);
                if outcome.talk.contains("error: ") {
                    assert!(outcome.mistake(&dir).contains("hint: "), "{dir}");
                    assert!(!folder.exists(), "{dir} is left behind");
                    continue;
                }
                outcome.succeeded();
                let mut plan = market.desk.command(&["run", "run.toml", "--dry-run", "--offline"]);
                finish(plan.current_dir(&folder)).succeeded();
                let lock = std::fs::read_to_string(folder.join("gymkhana.lock")).expect("a lock");
                assert!(lock.contains(&format!("name = \"gymkhana/{environment}\"")), "{lock}");
                let text = std::fs::read_to_string(folder.join("run.toml")).expect("a run file");
                // 256 episodes are two steps of 16 groups of 8.
                assert!(text.contains("steps = 2\ngroups = 16\ngroup_size = 8"), "{text}");
                assert!(folder.join("AGENTS.md").is_file() && folder.join("plugins").is_dir());
                written.push(dir);
            }
        }
    }
    // Stories need a reward that knows the answer; the lake has its own, and no answer.
    let expected = [
        "word-problems--answer-match",
        "word-problems-calculator-answer-match",
        "frozen-lake--",
        "frozen-lake-calculator-",
    ];
    assert_eq!(written, expected);
}

#[test]
fn mistakes_of_init_name_the_way_out() {
    let market = market();
    let told = |arguments: &[&str]| market.host(&[&["init", "mine"], arguments].concat()).mistake("init");
    assert!(told(&[]).contains("the project has no environment\nhint: name one with --environment"));
    let no_success = told(&["--environment", "word-problems"]);
    assert!(no_success.contains("nothing says which episodes of `gymkhana/word-problems` succeed\nhint: add a reward"));
    assert!(
        told(&["--environment", "calculator"]).contains("`gymkhana/calculator` is of another kind than environment")
    );
    assert!(
        told(&["--environment", "frozen-lake", "--tools", "answer-match"]).contains("is of another kind than tool")
    );
    let unfit = told(&["--environment", "frozen-lake", "--rewards", "answer-match"]);
    assert!(unfit.contains("these plugins do not make a run: ") && unfit.contains("answer"), "{unfit}");
    assert!(!market.desk.path("mine").exists());
    market.desk.write("taken", "");
    let taken = market.host(&["init", "taken", "--environment", "frozen-lake"]).mistake("taken");
    assert!(taken.contains("`taken` already exists\nhint: choose another name"), "{taken}");
}

#[test]
fn three_questions_are_asked_at_a_terminal() {
    let market = market();
    let command = market.desk.command(&["init", "asked"]);
    // The environments are frozen-lake and word-problems, by name; 7 is none of them.
    let written = in_terminal(command, 100, &["7\r", "2\r", "calculator\r", "1\r"]);
    for text in
        ["Which environment?", "there is no number 7", "Which tools?", "Which rewards", "created a project in asked"]
    {
        assert!(written.contains(text), "{text} in {written}");
    }
    let text = std::fs::read_to_string(market.desk.path("asked/run.toml")).expect("a run file");
    for name in ["word-problems", "calculator", "answer-match"] {
        assert!(text.contains(&format!("{name} = \"gymkhana/{name}@^0.1\"")), "{text}");
    }
}

#[test]
fn a_project_of_ones_own_plugin_names_its_component() {
    let market = market();
    let outcome = market.host(&["init", "own", "--own", "environment", "--lang", "rust"]);
    outcome.succeeded();
    let text = std::fs::read_to_string(market.desk.path("own/run.toml")).expect("a run file");
    assert!(text.contains("my-environment = \"plugins/my-environment/my-environment.wasm\""), "{text}");
    assert!(text.contains("success = \"environment.success\""), "{text}");
    assert!(market.desk.path("own/plugins/my-environment/src/lib.rs").is_file());
}

#[test]
fn an_installations_registry_serves_what_the_user_leaves_open() {
    let market = market();
    let (share, root) = (market.desk.path("share"), &market.root);
    std::fs::create_dir(&share).expect("created");
    let config = format!("[registries.shop]\nfolder = '../shop'\nroot = '{root}'\n\n[namespaces]\ngymkhana = 'shop'\n");
    market.desk.write("share/gymkhana-registries.toml", config);
    std::fs::remove_file(market.desk.path(super::USERS_REGISTRIES)).expect("removed");
    let list =
        |share: &str| finish(market.desk.command(&["list", "--all"]).env("GYMKHANA_SHARE", market.desk.path(share)));
    let listed = list("share").succeeded();
    // A registry in a folder of this machine needs no download.
    assert!(listed.lines().any(|line| line.starts_with("gymkhana/calculator") && line.contains(" here ")), "{listed}");
    assert!(list("nowhere").mistake("no registry").contains("hint: "));
    // The user's own registry of the namespace wins.
    let other =
        format!("[registries.shop]\nfolder = '{}'\nunsigned = true\n\n[namespaces]\ngymkhana = 'shop'\n", "/nowhere");
    market.desk.write(super::USERS_REGISTRIES, other);
    assert!(list("share").mistake("the user's own").contains("/nowhere"));
}
