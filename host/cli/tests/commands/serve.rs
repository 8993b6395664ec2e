//! `host serve` as a user starts, kills and ends it, and the commands that read its records.

use std::io::Read;
use std::time::{Duration, Instant};

use gymkhana_store::RunFolder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

use crate::common::server::Server;
use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, episodes, fill};

const CONFIG: &str = "[verltool]\nenvironment = \"frozen-lake\"\n";

/// A server of a frozen lake.
fn start(desk: &Desk) -> Server {
    Server::start(desk, &["serve", "plugins/frozen-lake.wasm", "--config", "serve.toml", "--listen", "127.0.0.1:0"])
}

/// The folder of an unused server has no episodes and is not a run.
#[test]
fn a_folder_without_episodes_is_shown_as_what_it_is() {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.write("serve.toml", CONFIG);
    let mut server = start(&desk);
    kill_process(Pid::from_child(&server.child), Signal::TERM).expect("it runs");
    assert!(server.child.wait().expect("it ended").success());
    let folder = "served/frozen-lake";
    let shown = desk.host(&["show", folder]).succeeded();
    assert!(shown.starts_with("served: no server has the folder open; `host serve … --out served` adds"), "{shown}");
    assert!(shown.contains("\nno episode is stored here yet\n") && !shown.contains("--resume"), "{shown}");
    for which in ["all", "failed", "unsolved"] {
        assert_eq!(desk.host(&["show", folder, "--episodes", which]).succeeded(), "no episode is stored here yet\n");
    }
    let told = desk.host(&["show", folder, "--json"]).succeeded();
    assert_eq!(serde_json::from_str::<Json>(&told).expect("JSON")["state"], "served");
    let above = desk.host(&["show", "served"]).mistake("the folder above that of an environment");
    assert!(above.contains("`served` does not hold a run, but `served/frozen-lake` does\nhint: give that"), "{above}");
    // Nor can it be resumed or replaced.
    let new = ["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", folder];
    for command in [&["run", "--resume", folder][..], &new, &[&new[..], &["--overwrite"]].concat()] {
        let told = desk.host(command).mistake("the folder of a server");
        assert!(told.contains("holds records of `host serve`, and no run\nhint: choose another folder"), "{told}");
        assert!(!told.contains("host run --resume"), "{told}");
    }
    // The twin: a run without episodes, whatever its stage is called, that was killed before it had any plugins.
    let stage = "[[stages]]\nkind = \"rl\"\nname = \"served\"\nsteps = 2\ngroups = 1\ngroup_size = 2\n";
    let run = SMALL_RUN.split("[[stages]]").next().expect("its sections").to_owned() + stage;
    drop(RunFolder::create(&desk.path("early"), &run).expect("a folder"));
    let shown = desk.host(&["show", "early"]).succeeded();
    let expected = "stopped; continue it with `host run --resume early`\nno episode is stored here yet\n";
    assert_eq!(shown, expected);
}

/// The answer to a turn of a trajectory.
fn observe(server: &Server, trajectory: &str, action: &str) -> Json {
    server.observe(trajectory, action, &json!({ "seed": 1, "index": 2 }))
}

#[test]
fn a_killed_server_says_what_it_kept_and_records_replay() {
    let desk = Desk::new();
    desk.write("serve.toml", CONFIG);
    let mut server = start(&desk);
    assert!(server.notes.concat().contains("recording sessions in `served`; --no-records keeps none"));
    assert_eq!(observe(&server, "a", "nonsense")["valids"], json!([true]));
    for path in ["/", "/nowhere"] {
        let answer = server.get(path);
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("there is nothing at `"), "{answer}");
        assert!(answer.contains("hint: /tasks lists the environments"), "{answer}");
    }
    let other = server.get("/get_observation");
    assert!(other.starts_with("HTTP/1.1 405 ") && other.contains("does not answer to GET"), "{other}");
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ended");
    let mut server = start(&desk);
    let notes = server.notes.concat();
    assert!(notes.contains("the last server was killed: 1 unfinished episode"), "{notes}");
    assert_eq!(observe(&server, "a", "nonsense")["valids"], json!([true]));
    let pid = Pid::from_child(&server.child);
    kill_process(pid, Signal::TERM).expect("it runs");
    let mut rest = String::new();
    server.errors.read_to_string(&mut rest).expect("the rest");
    assert!(server.child.wait().expect("it ended").success(), "{rest}");
    let shown = desk.host(&["show", "served/frozen-lake"]).succeeded();
    assert!(shown.contains("2 episodes like 0.served.0.0.0.0"), "{shown}");
    let replayed = desk.host(&["replay", "served/frozen-lake"]).succeeded();
    assert!(replayed.contains("1 episode replayed, every byte equal: 1"), "{replayed}");
    assert!(replayed.contains("1 episode skipped: dropped when recorded"), "{replayed}");
    let mut page = Server::start(&desk, &["page", "served/frozen-lake", "--listen", "127.0.0.1:0"]);
    let episodes = page.get("/runs/0/episodes");
    assert!(episodes.contains("200 OK") && episodes.contains("2 episodes, 1 to 2 shown"), "{episodes}");
    kill_process(Pid::from_child(&page.child), Signal::TERM).expect("it runs");
    assert!(page.child.wait().expect("it ended").success());
}

/// While the disk is full, an answer waits until it is written, and nothing new begins; nothing is lost.
#[test]
fn a_full_disk_loses_no_answered_turn() {
    let desk = Desk::new();
    desk.write("serve.toml", CONFIG);
    let serve = ["serve", "plugins/frozen-lake.wasm", "--config", "serve.toml", "--listen", "127.0.0.1:0"];
    let mut server = Server::of(desk.command_on_small_disk(&serve));
    assert_eq!(observe(&server, "a", "nonsense")["valids"], json!([true]));
    fill(&server.child, true);
    let address = server.address.clone();
    let waiting = std::thread::spawn(move || Server::observe_at(&address, "a", "nonsense again", &json!({})));
    let line = server.wait_for("records cannot be written");
    assert!(line.contains("sessions wait") && line.contains("the disk is full"), "{line}");
    let refused = observe(&server, "b", "nonsense");
    assert_eq!((&refused["valids"], &refused["dones"]), (&json!([false]), &json!([true])), "{refused}");
    let why = refused["observations"][0]["obs"].as_str().expect("a reason");
    assert!(why.contains("cannot be recorded") && why.contains("hint: free space"), "{why}");
    let health = server.get("/health");
    assert!(health.starts_with("HTTP/1.1 503 ") && health.contains("records cannot be written"), "{health}");
    assert!(server.get("/metrics").contains("gymkhana_serve_records_writable 0"));
    assert!(!waiting.is_finished(), "the answer waits");
    fill(&server.child, false);
    assert_eq!(waiting.join().expect("an answer")["valids"], json!([true]));
    server.wait_for("records are written again");
    assert!(server.get("/health").starts_with("HTTP/1.1 200 "));
    assert!(server.get("/metrics").contains("gymkhana_serve_records_writable 1"));
    assert_eq!(observe(&server, "b", "nonsense")["valids"], json!([true]));
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ended");
    drop(start(&desk));
    let records = episodes(&desk.path("served/frozen-lake"));
    let said: Vec<_> = records.iter().map(|record| format!("{:?}", record.turns)).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("\"nonsense\"") && said[0].contains("nonsense again"), "{}", said[0]);
}

/// What a refused trajectory costs is gone with its answer.
#[test]
#[cfg(target_os = "linux")]
fn refused_trajectories_leave_nothing() {
    let desk = Desk::new();
    desk.write("serve.toml", format!("[sessions]\nmax = 1\n{CONFIG}"));
    let server = start(&desk);
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim_end_matches("kB").trim().parse::<u64>().expect("a number") / 1024
    };
    assert_eq!(observe(&server, "open", "nonsense")["valids"], json!([true]));
    let large = |letter: &str| letter.repeat(7 << 20);
    assert_eq!(observe(&server, "first", &large("a"))["valids"], json!([false]), "the one session is open");
    let before = resident();
    for number in 0..40 {
        let refused = observe(&server, &format!("refused-{number}"), &large("b"));
        assert_eq!(refused["observations"][0]["owner"], "host", "{refused}");
    }
    // 40 actions have 280 MiB.
    assert!(resident() < before + 70, "{before} MiB before and {} MiB after", resident());
    assert_eq!(observe(&server, "open", "nonsense")["valids"], json!([true]), "the open session goes on");
}

/// Variables of the host, which programs of the same user could read in `/proc`.
#[test]
#[cfg(target_os = "linux")]
fn the_environment_of_the_host_is_not_shown_to_other_processes() {
    let desk = Desk::new();
    desk.write("serve.toml", "[clients.a]\ntoken_env = \"GYMKHANA_TEST_TOKEN\"\n");
    let serve =
        ["serve", "plugins/calculator.wasm", "--config", "serve.toml", "--listen", "127.0.0.1:0", "--no-records"];
    let mut command = desk.command(&serve);
    command.env("GYMKHANA_TEST_TOKEN", "0123456789-secret-token");
    let server = Server::of(command);
    let shown = std::fs::read(format!("/proc/{}/environ", server.child.id())).expect("the file of a child");
    assert!(!String::from_utf8_lossy(&shown).contains("0123456789-secret-token"));
    assert!(server.get("/metrics").starts_with("HTTP/1.1 401 "), "the server itself has the token");
    let mut own = std::process::Command::new("sleep");
    let mut own = own.arg("60").env("GYMKHANA_TEST_TOKEN", "0123456789-secret-token").spawn().expect("sleep");
    let shows = || {
        let shown = std::fs::read(format!("/proc/{}/environ", own.id())).expect("the file of a child");
        String::from_utf8_lossy(&shown).contains("0123456789-secret-token")
    };
    // The block is there once the system has loaded the program.
    let since = Instant::now();
    while !shows() {
        assert!(since.elapsed() < Duration::from_secs(60), "other programs show theirs");
        std::thread::sleep(Duration::from_millis(5));
    }
    own.kill().expect("it runs");
    own.wait().expect("it ended");
}

#[test]
fn a_page_refuses_short_tokens_and_folders_without_runs() {
    let desk = Desk::new();
    desk.write("run.toml", "seed = 1\n");
    let short = desk.host(&["page", ".", "--token", "short"]).mistake("a short token");
    assert!(short.contains("the token is too short"), "{short}");
    let none = desk.host(&["page", "."]).mistake("a folder without a run");
    assert!(none.contains("does not hold a run"), "{none}");
}

#[test]
fn an_address_that_others_reach_needs_tokens() {
    let desk = Desk::new();
    let refused = desk.host(&["serve", "plugins/calculator.wasm", "--listen", "0.0.0.0:0", "--no-records"]);
    let text = refused.mistake("an open address");
    assert!(text.contains("no client has a token") && text.contains("[clients.NAME]"), "{text}");
}
