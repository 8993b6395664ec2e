//! The uses from other programs, with the commands of README.md.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value as Json, json};

use crate::common::Desk;
use crate::common::server::Server;

/// Arguments of the command of the section that begins with these words. Paths are those of a desk.
fn command(begin: &str) -> Vec<String> {
    let readme = fs::read_to_string(gymkhana_tests::root().join("README.md")).expect("README.md");
    let (_, section) = readme.split_once("\n## From other programs\n").expect("the section");
    let section = section.split("\n## ").next().expect("a section");
    let line = section.lines().find_map(|line| line.strip_prefix("$ host ").filter(|line| line.starts_with(begin)));
    let line = line.unwrap_or_else(|| panic!("no command `{begin}` in {section}"));
    line.replace("$P/", "plugins/").split_whitespace().map(str::to_owned).collect()
}

fn words<'a>(command: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    command.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// Body of the answer to a request.
fn get(address: &str, path: &str) -> Json {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON")
}

#[test]
fn a_trainer_finds_the_environment() {
    let desk = Desk::new();
    let command = command("serve $P");
    let mut server = Server::start(&desk, &words(&command, &["--listen", "127.0.0.1:0"]));
    assert_eq!(get(&server.address, "/health"), json!({ "status": "healthy" }));
    assert!(get(&server.address, "/list_environments").to_string().contains("word-problems"));
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ended");
}

#[test]
fn an_agent_program_is_trained() {
    let desk = Desk::new();
    let examples = gymkhana_tests::root().join("examples");
    for (folder, file) in [("agents", "two_drafts.py"), ("runs", "agent-program.toml")] {
        fs::create_dir_all(desk.path("examples").join(folder)).expect("a folder");
        let text = fs::read_to_string(examples.join(folder).join(file)).expect("an example");
        // The plugins beside the desk are those of the registry that the set-up makes.
        let local = |line: &str| match line.split_once(" = \"^0.1\"") {
            Some((name, _)) => format!("{name} = \"../../plugins/{name}.wasm\"\n"),
            None => format!("{line}\n"),
        };
        let text: String = text.lines().map(local).collect();
        desk.write(&format!("examples/{folder}/{file}"), text);
    }
    let smaller = [
        "policy.tiny={ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }",
        "evaluation.tasks=1",
        "stages.rl.steps=1",
        "stages.rl.groups=1",
        "stages.rl.group_size=2",
    ];
    let sets: Vec<&str> = smaller.into_iter().flat_map(|set| ["--set", set]).collect();
    let command = command("run");
    desk.host(&words(&command, &sets)).succeeded();
    let shown = desk.host(&["show", "out/agent-program"]).succeeded();
    assert!(shown.contains("episodes"), "{shown}");
}

#[test]
fn a_client_of_mcp_sees_the_tool() {
    let desk = Desk::new();
    let command = command("serve --stdio");
    let mut started = desk.command(&words(&command, &[]));
    let mut child =
        started.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let client =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let mut requests = child.stdin.take().expect("it is piped");
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ] {
        writeln!(requests, "{message}").expect("it reads");
    }
    let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut answers = answers.map(|line| serde_json::from_str::<Json>(&line.expect("a line")).expect("JSON"));
    let listed = answers.find(|answer| answer["id"] == 2).expect("an answer");
    assert_eq!(listed["result"]["tools"][0]["name"], "calculate", "{listed}");
    drop(requests);
    assert!(child.wait().expect("it ended").success());
}
