//! Registry commands of users and publishers, against a server process.

#[path = "../common/mod.rs"]
mod common;
mod discovery;
#[path = "../../../../registry/tests/common/plugins.rs"]
mod plugins;
mod projects;
#[path = "../../../../registry/tests/common/registry.rs"]
mod registry;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

use common::{Desk, Outcome, SMALL_RUN, finish};
use gymkhana_registry::{Check, CheckOutcome, contract};
use gymkhana_tests::component;
use registry::report as report_of;

/// A server that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A desk with a served registry in `shop`, and a publisher of `gymkhana` and `acme` with a token.
struct Market {
    desk: Desk,
    served: Served,
    root: String,
    token: String,
}

/// The user's own configuration of registries, on a desk.
const USERS_REGISTRIES: &str = "config/gymkhana/gymkhana-registries.toml";

/// Starts a server of the desk's `shop`; returns its URL and its log.
fn start(desk: &Desk) -> (Served, String, BufReader<ChildStderr>) {
    let arguments = ["registry", "serve", "shop", "--root", "root.key", "--listen", "127.0.0.1:0"];
    let mut served = desk.command(&arguments).stderr(Stdio::piped()).spawn().expect("a server");
    let mut talk = BufReader::new(served.stderr.take().expect("its talk"));
    let mut line = String::new();
    talk.read_line(&mut line).expect("a line");
    let url = line.trim().rsplit(' ').next().expect("a word").to_owned();
    assert!(url.starts_with("http://127.0.0.1:"), "{line}");
    (Served(served), url, talk)
}

/// Serves the desk's `shop` and adds it to the user's registries.
fn serve(desk: &Desk, root: &str) -> Served {
    let (served, url, talk) = start(desk);
    // Drains the log.
    std::thread::spawn(move || talk.lines().for_each(drop));
    let config = format!(
        "[registries.shop]\nurl = '{url}'\nroot = '{root}'\ntoken = 'GYMKHANA_SHOP_TOKEN'\n\n[namespaces]\ngymkhana = 'shop'\nacme = 'shop'\nguest = 'shop'\n"
    );
    std::fs::create_dir_all(desk.path("config/gymkhana")).expect("created");
    desk.write(USERS_REGISTRIES, config);
    served
}

impl Market {
    fn new() -> Self {
        let desk = Desk::with_run_file(SMALL_RUN);
        let root = desk.host(&["keygen", "root.key"]).succeeded().trim().to_owned();
        let key = desk.host(&["keygen", "acme.key"]).succeeded().trim().to_owned();
        desk.host(&["registry", "init", "shop", "--root", "root.key"]).succeeded();
        for namespace in ["gymkhana", "acme", "guest"] {
            desk.host(&["registry", "grant", "shop", namespace, &key, "--root", "root.key"]).succeeded();
        }
        let token =
            desk.host(&["registry", "token", "shop", "gymkhana", "acme", "guest"]).succeeded().trim().to_owned();
        let served = serve(&desk, &root);
        Self { desk, served, root, token }
    }

    /// Kills the server and starts another.
    fn restart(&mut self) {
        self.served.0.kill().expect("killed");
        self.served.0.wait().expect("it has ended");
        self.served = serve(&self.desk, &self.root);
    }

    fn host(&self, arguments: &[&str]) -> Outcome {
        finish(self.desk.command(arguments).env("GYMKHANA_SHOP_TOKEN", &self.token))
    }

    /// Publishes a component with a report without failures.
    fn publish(&self, name: &str, component: &[u8]) -> Outcome {
        let (file, report) = (format!("{name}.wasm"), format!("{name}.json"));
        self.desk.write(&file, component);
        self.desk.write(&report, serde_json::to_string(&report_of(component)).expect("JSON"));
        self.host(&["publish", &file, "--report", &report, "--key", "acme.key"])
    }

    fn publish_built(&self, name: &str) {
        let bytes = std::fs::read(component(name)).expect("a component");
        self.publish(name, &bytes).succeeded();
    }

    fn lock(&self) -> String {
        std::fs::read_to_string(self.desk.path("gymkhana.lock")).expect("a lock")
    }
}

/// A tool `acme/searcher` that can be pinned but not run.
fn searcher(version: &str, capabilities: &str) -> Vec<u8> {
    tool("searcher", version, capabilities)
}

/// A tool of `acme` that can be pinned but not run.
fn tool(name: &str, version: &str, capabilities: &str) -> Vec<u8> {
    let digest = contract::digest();
    plugins::tool(&format!(
        r#"{{"schema":1,"namespace":"acme","name":"{name}","version":"{version}","kinds":["tool"],"contract":{{"version":"0.2.0","digest":"{digest}"}},"license":"MIT","description":"Finds pages.","capabilities":{capabilities},"deterministic":true}}"#
    ))
}

const NAMES: &str = "word-problems@^0.1,gymkhana/calculator,answer-match";

#[test]
fn a_run_takes_plugins_by_name_and_locks_them() {
    let market = Market::new();
    for name in ["word-problems", "calculator", "answer-match"] {
        market.publish_built(name);
    }
    let found = market.host(&["search", "arithmetic"]).succeeded();
    assert!(found.contains("gymkhana/calculator 0.1.0 (tool, shop)"), "{found}");
    let run = |more: &[&str]| market.host(&[&["run", "run.toml", "--plugins", NAMES, "--out", "out"], more].concat());
    let refused = run(&["--locked"]);
    assert!(refused.mistake("not locked").contains("is not locked, and --locked forbids changes"));
    let refused = run(&["--offline"]);
    assert!(refused.mistake("offline").contains("--offline disables the network"));
    run(&[]).succeeded();
    let lock = market.lock();
    let own = std::fs::read_to_string(market.desk.path("out/gymkhana.lock")).expect("the run's own");
    // The run's copy holds the digest of itself, so that it cannot be altered.
    assert_eq!(own.strip_prefix(&lock).map(|rest| rest.starts_with("# sha256 of this file")), Some(true), "{own}");
    let verified = market.host(&["verify", "out"]).succeeded();
    assert_eq!(verified.matches("signed by ed25519:").count(), 3, "{verified}");
    // Locked and cached plugins need no server, also mixed with files.
    let mixed = "word-problems,plugins/calculator.wasm,answer-match@^0.1";
    let again = ["run", "run.toml", "--plugins", mixed, "--out", "again", "--locked", "--offline"];
    market.host(&again).succeeded();
    assert_eq!(market.lock(), lock);
    // A run file that names them needs no --plugins, and is pinned by the same lock.
    let named =
        "[plugins]\nword-problems = '^0.1'\ncalculator = 'gymkhana/calculator@*'\n[plugins.answer-match]\nuse = '*'\n";
    market.desk.write("named.toml", SMALL_RUN.replace("[plugins.answer-match]\n", named));
    market.host(&["run", "named.toml", "--locked", "--offline"]).succeeded();
    let of_named = std::fs::read_to_string(market.desk.path("out/named/gymkhana.lock")).expect("the run's own");
    assert_eq!(of_named, own);
    // A resumed run uses its own plugins.
    run(&["--resume", "--offline"]).succeeded();
    let unknown = market.host(&["run", "run.toml", "--plugins", "calculater", "--out", "third"]);
    assert!(unknown.mistake("misspelt").contains("hint: a similar name is `gymkhana/calculator`"));
}

#[test]
fn a_project_agrees_to_what_its_plugins_ask_for() {
    let market = Market::new();
    market.desk.write("gymkhana.toml", "# Ours.\n[plugins]\n");
    market.publish("searcher", &searcher("1.0.0", r#"["log","http"]"#)).succeeded();
    let refused = market.host(&["add", "searcher"]);
    let told = refused.mistake("no consent");
    assert!(told.contains("requests `http`") && told.contains("host add acme/searcher@1.0.0 --allow http"), "{told}");
    assert!(!market.desk.path("gymkhana.lock").exists());
    let added = market.host(&["add", "searcher@^1", "--allow", "http"]).succeeded();
    assert_eq!(added, "acme/searcher 1.0.0 (^1)\nallowed: `http`\n");
    let project = std::fs::read_to_string(market.desk.path("gymkhana.toml")).expect("a project");
    assert_eq!(project, "# Ours.\n[plugins]\n\"acme/searcher\" = { version = \"^1\", allow = [\"http\"] }\n");
    // A newer version with more capabilities is not adopted silently.
    market.publish("newer", &searcher("1.1.0", r#"["log","http","model"]"#)).succeeded();
    let lock = market.lock();
    market.host(&["lock"]).succeeded();
    assert_eq!(market.lock(), lock, "a lock stays until it is updated");
    let told = market.host(&["update"]).mistake("wider");
    assert!(told.contains("requests `model` without consent"), "{told}");
    assert_eq!(market.lock(), lock);
    market.host(&["add", "acme/searcher@^1", "--allow", "model"]).succeeded();
    assert!(market.lock().contains("version = \"1.1.0\""));
    // A yanked version stays in existing locks and is not used elsewhere.
    market.host(&["yank", "acme/searcher@1.1.0"]).succeeded();
    market.host(&["lock", "--locked"]).succeeded();
    market.host(&["remove", "searcher"]).succeeded();
    assert!(!market.lock().contains("searcher"));
    let added = market.host(&["add", "searcher", "--allow", "http"]).succeeded();
    assert!(added.starts_with("acme/searcher 1.0.0 "), "{added}");
    market.host(&["yank", "acme/searcher@1.1.0", "--undo"]).succeeded();
    // Without --plugins, a run uses the project's plugins.
    let told = market.host(&["run", "run.toml", "--out", "out"]).mistake("no environment");
    assert!(!told.contains("no plugins are given"), "{told}");
    let empty = Desk::with_run_file(SMALL_RUN);
    let told = empty.host(&["run", "run.toml", "--out", "out"]).mistake("nothing named");
    assert!(
        told.contains("no plugins are given\nhint: name them in [plugins] of the run file, give --plugins"),
        "{told}"
    );
}

#[test]
fn publishing_refuses_what_the_rules_forbid() {
    let market = Market::new();
    market.publish("one", &searcher("1.0.0", r#"["log"]"#)).succeeded();
    let told = market.publish("one", &searcher("1.0.0", r#"["log"]"#)).mistake("again");
    assert!(told.contains("is already published"), "{told}");
    let told = market.publish("two", &searcher("1.0.1", r#"["log","http"]"#)).mistake("wider");
    assert!(
        told.contains("requests the capabilities `http`, unlike 1.0.0") && told.contains("publish it as 1.1.0"),
        "{told}"
    );
    // A report of another component, and one with failures.
    market.desk.write("three.wasm", searcher("1.0.2", r#"["log"]"#));
    let publish = ["publish", "three.wasm", "--report", "one.json", "--key", "acme.key"];
    assert!(market.host(&publish).mistake("another's report").contains("describes another component"));
    let mut report = report_of(&searcher("1.0.2", r#"["log"]"#));
    let outcome = CheckOutcome::Failed("no schema".to_owned());
    report.checks.push(Check { name: "new".to_owned(), outcome, same_cause_as: None });
    market.desk.write("one.json", serde_json::to_string(&report).expect("JSON"));
    assert!(market.host(&publish).mistake("a failed suite").contains("new: no schema"));
    market.host(&["keygen", "other.key"]).succeeded();
    report.checks.pop();
    market.desk.write("one.json", serde_json::to_string(&report).expect("JSON"));
    let told =
        market.host(&["publish", "three.wasm", "--report", "one.json", "--key", "other.key"]).mistake("a stranger");
    assert!(told.contains("is not a current key of namespace `acme`"), "{told}");
    market.host(&publish).succeeded();
    // A key rotation signed by the old key.
    let rotated = ["keygen", "new.key", "--replaces", "acme.key", "--namespace", "acme"];
    market.host(&rotated).succeeded();
    let rotate = ["registry", "rotate", "shop", "--rotation", "new.key.rotation.json", "--root", "root.key"];
    market.host(&rotate).succeeded();
    let told = market.publish("four", &searcher("1.0.3", r#"["log"]"#)).mistake("the old key");
    assert!(told.contains("is not a current key"), "{told}");
    market.host(&["verify"]).mistake("no lock yet");
    market.host(&["add", "searcher"]).succeeded();
    let verified = market.host(&["verify"]).succeeded();
    assert!(verified.contains("acme/searcher 1.0.2"), "what the old key signed still counts: {verified}");
}

/// Releases signed by a revoked key are not run, mirrored or chosen; those of the new key are.
#[test]
fn what_a_revoked_key_signed_is_not_used_any_more() {
    let market = Market::new();
    for name in ["word-problems", "calculator", "answer-match"] {
        market.publish_built(name);
    }
    market.publish("one", &searcher("1.0.0", r#"["log"]"#)).succeeded();
    let run = |out: &str| market.host(&["run", "run.toml", "--plugins", NAMES, "--out", out]);
    run("out").succeeded();
    market.host(&["keygen", "new.key", "--replaces", "acme.key", "--namespace", "gymkhana"]).succeeded();
    let rotate = ["registry", "rotate", "shop", "--rotation", "new.key.rotation.json", "--root", "root.key"];
    market.host(&rotate).succeeded();
    run("again").succeeded();
    // The retired key is revoked as stolen.
    let key = market.host(&["verify", "out"]).succeeded();
    let key = key.split_whitespace().find(|word| word.starts_with("ed25519:")).expect("a key").to_owned();
    let told = market.host(&["registry", "revoke", "shop", "acme", &key, "--root", "root.key"]).mistake("current");
    assert!(told.contains("is not a retired key of namespace `acme`"), "{told}");
    market.host(&["registry", "revoke", "shop", "gymkhana", &key, "--root", "root.key"]).succeeded();
    for refused in [run("third"), market.host(&["verify", "out"])] {
        let told = refused.mistake("revoked");
        assert!(
            told.contains("which namespace `gymkhana` has revoked: releases signed by a revoked key are ignored"),
            "{told}"
        );
    }
    let told = market.host(&["search", "arithmetic"]).succeeded();
    assert!(told.contains("gymkhana/calculator"), "{told}");
    let told = market.host(&["registry", "mirror", "shop", "mirror"]).succeeded();
    assert!(told.contains("in 1 version,") && told.contains("3 with revoked keys were skipped"), "{told}");
    market.host(&["add", "searcher"]).succeeded();
}

/// Without a report, publishing runs the suite.
#[test]
fn publishing_runs_the_suite_where_there_is_no_report() {
    let market = Market::new();
    let publish = |file: &str| market.host(&["publish", file, "--key", "acme.key"]);
    let published = publish("plugins/calculator.wasm");
    assert!(published.talk.contains("running the conformance suite on `plugins/calculator.wasm`"), "{published:?}");
    assert_eq!(published.succeeded(), "published gymkhana/calculator 0.1.0 in registry `shop`\n");
    // A missing key is reported at once.
    let told = market.host(&["publish", "plugins/tic-tac-toe.wasm"]).mistake("without a key");
    assert!(told.contains("pass your key with --key") && !told.contains("conformance suite"), "{told}");
    // A tool that fails on valid agent input.
    let outcome = publish("plugins/guest-hostile-tool.wasm");
    assert_eq!(outcome.code, Some(2));
    let talk = &outcome.talk;
    assert!(talk.contains("FAILED  invalid-actions ") && talk.contains("7 of 19 checks: parameters"), "{outcome:?}");
    // A plugin that needs options to be checked.
    let rubric = "plugins/rubric.wasm";
    let told = publish(rubric).mistake("nothing was scored");
    assert!(told.contains("FAILED  scores ") && told.contains("it gave no episode a total: "), "{told}");
    let list = "checklist=[[items]]\nname = \"short\"\nmax-words = 3\n";
    market.host(&["plugin", "test", rubric, "--option", list, "--json", "rubric.json"]).succeeded();
    market.host(&["publish", rubric, "--report", "rubric.json", "--key", "acme.key"]).succeeded();
    let told = market.host(&["add", "calculator", "calculator@*"]).mistake("twice");
    assert!(told.contains("`gymkhana/calculator` is named twice"), "{told}");
    let added = market.host(&["add", "calculator", "rubric@^0.1", "--allow", "model"]).succeeded();
    assert!(added.contains("gymkhana/calculator 0.1.0") && added.contains("gymkhana/rubric 0.1.0"), "{added}");
    // Too few steps are rejected.
    let (game, short) = ("plugins/tic-tac-toe.wasm", "short.json");
    market.host(&["plugin", "test", game, "--steps", "10", "--json", short]).succeeded();
    let told = market.host(&["publish", game, "--report", short, "--key", "acme.key"]).mistake("too short");
    assert!(told.contains("was made with 10 actions, but 1000 are required"), "{told}");
}

/// A file precompiled by wasmtime would run without the sandbox's checks.
#[test]
fn a_precompiled_file_is_not_run_by_any_way() {
    let market = Market::new();
    let elf = [b"\x7fELF\x02\x01\x01\0".as_slice(), &[0; 4096]].concat();
    market.desk.write("elf.wasm", &elf);
    market.desk.write("report.json", serde_json::to_string(&report_of(&searcher("1.0.0", "[]"))).expect("JSON"));
    let told =
        market.host(&["publish", "elf.wasm", "--report", "report.json", "--key", "acme.key"]).mistake("published");
    assert!(told.contains("not WebAssembly"), "{told}");
    let told = market.desk.run("elf.wasm", &[]).mistake("run");
    assert!(told.contains("not WebAssembly"), "{told}");
}

#[test]
fn a_mirror_of_the_server_is_a_registry_of_its_own() {
    let market = Market::new();
    market.publish_built("calculator");
    let told = market.host(&["registry", "mirror", "shop", "mirror"]).succeeded();
    assert!(told.contains("holds 1 plugin in 1 version, 1 downloaded now"), "{told}");
    let config = std::fs::read_to_string(market.desk.path(USERS_REGISTRIES)).expect("a file");
    let root = config.lines().find(|line| line.starts_with("root")).expect("a root");
    let config = format!("[registries.near]\nfolder = 'mirror'\n{root}\n[namespaces]\ngymkhana = 'near'\n");
    market.desk.write("gymkhana-registries.toml", config);
    market.host(&["add", "calculator"]).succeeded();
    let told = market.host(&["registry", "init", "shop", "--root", "root.key"]).mistake("taken");
    assert!(told.contains("the folder is not empty"), "{told}");
    let listed = market.host(&["registry", "token", "shop"]).succeeded();
    assert!(listed.contains("for `acme`, `guest`, `gymkhana`"), "{listed}");
    let number = listed.split(' ').next().expect("a number").to_owned();
    market.host(&["registry", "token", "shop", "--revoke", &number]).succeeded();
    assert_eq!(market.host(&["registry", "token", "shop"]).succeeded(), "");
    market.host(&["registry", "sign", "shop", "--root", "root.key", "--days", "7"]).succeeded();
}

/// A killed server always restarts with a complete registry: the version exists or it does not.
#[test]
fn a_server_that_is_killed_while_it_takes_a_release_leaves_a_whole_registry() {
    let mut market = Market::new();
    for round in 0..6_u64 {
        let component = searcher(&format!("1.{round}.0"), r#"["log"]"#);
        market.desk.write("next.wasm", &component);
        market.desk.write("next.json", serde_json::to_string(&report_of(&component)).expect("JSON"));
        let publish = ["publish", "next.wasm", "--report", "next.json", "--key", "acme.key"];
        let mut command = market.desk.command(&publish);
        let command = command.env("GYMKHANA_SHOP_TOKEN", &market.token).stdout(Stdio::null()).stderr(Stdio::null());
        let mut publishing = command.spawn().expect("a publisher");
        std::thread::sleep(std::time::Duration::from_millis(40 + 25 * round));
        market.restart();
        publishing.wait().expect("it ends");
        let again = market.host(&publish);
        assert!(again.code == Some(0) || again.talk.contains("is already published"), "{again:?}");
        market.host(&["add", &format!("searcher@=1.{round}.0")]).succeeded();
    }
}

/// Commands that change one project at once wait for each other.
#[test]
fn six_plugins_added_at_once_are_all_kept() {
    let market = Market::new();
    let names = ["abacus", "beacon", "canyon", "dolphin", "ember", "falcon"];
    for name in names {
        market.publish(name, &tool(name, "1.0.0", r#"["log"]"#)).succeeded();
    }
    let add = |name: &&str| {
        let mut command = market.desk.command(&["add", name]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a command")
    };
    let running: Vec<Child> = names.iter().map(add).collect();
    for child in running {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let project = std::fs::read_to_string(market.desk.path("gymkhana.toml")).expect("a project");
    let lock = market.lock();
    for name in names {
        assert!(project.contains(&format!("\"acme/{name}\"")), "{name} is missing in {project}");
        assert!(lock.contains(&format!("\"acme/{name}\"")), "{name} is missing in {lock}");
    }
}

/// Opening a named pipe waits for a writer, so whoever can write in a registry's folder could stop its readers.
#[test]
fn a_named_pipe_in_a_registry_stops_no_command() {
    let market = Market::new();
    market.publish("one", &searcher("1.0.0", r#"["log"]"#)).succeeded();
    let config = std::fs::read_to_string(market.desk.path(USERS_REGISTRIES)).expect("a file");
    let root = config.lines().find(|line| line.starts_with("root")).expect("a root");
    let config = format!("[registries.near]\nfolder = 'shop'\n{root}\n[namespaces]\nacme = 'near'\n");
    market.desk.write("gymkhana-registries.toml", config);
    let folder = market.desk.path("shop/index/acme/searcher");
    let index = std::fs::read_dir(folder).expect("a folder").next().expect("an index file").expect("an entry").path();
    let aside = market.desk.path("aside");
    std::fs::rename(&index, &aside).expect("moved aside");
    assert!(Command::new("mkfifo").arg(&index).status().expect("mkfifo").success());
    let told = market.host(&["add", "searcher"]).mistake("a pipe");
    assert!(told.contains("it is not a regular file"), "{told}");
    std::fs::rename(&aside, &index).expect("moved back");
    market.host(&["add", "searcher"]).succeeded();
}

/// A client chooses the path that the server logs, and with it marks that reverse the reading direction.
#[test]
fn log_lines_stay_json() {
    let desk = Desk::new();
    desk.host(&["keygen", "root.key"]).succeeded();
    desk.host(&["registry", "init", "shop", "--root", "root.key"]).succeeded();
    let (_served, url, mut log) = start(&desk);
    for path in ["/\u{202e}txt\u{61c}", "/plain"] {
        let mut stream =
            TcpStream::connect(url.trim_start_matches("http://").trim_end_matches('/')).expect("connected");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        let mut line = String::new();
        log.read_line(&mut line).expect("a line");
        assert!(!line.contains(['\u{202e}', '\u{61c}']), "{line}");
        let entry: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(entry["path"], path);
    }
}
