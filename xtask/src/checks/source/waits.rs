//! Waits: code waits for others by `gymkhana-waits`, which names the counterpart and the duration.

use std::path::Path;

use anyhow::Context as _;

use crate::checks::{layout, report};
use crate::step::step;
use crate::workspace::Workspace;

/// Folders of the checked crates.
const FOLDERS: [&str; 2] = ["host", "registry"];

/// The crate that waits.
const OWN: &str = "host/waits";

/// Calls that wait without a name, or without a bound: the call, and what replaces it.
const REFUSED: [(&str, &str); 6] = [
    ("time::timeout(", "within"),
    ("timeout_at(", "until"),
    (".recv_timeout(", "receive"),
    (".wait_timeout(", "receive"),
    (".wait_with_output(", "output"),
    ("use tokio::time::timeout;", "within"),
];

/// Code that may read the wall clock, which jumps: its file, and what the time is for.
const WALL_CLOCK: [(&str, &str); 8] = [
    ("host/cli/src/commands/cache.rs", "ages that a user sees"),
    ("host/cli/src/registry/mod.rs", "validity of signed states"),
    ("host/gateway/src/session/answer.rs", "a field of OpenAI's protocol"),
    ("host/sandbox/src/cache/folder.rs", "ages of files"),
    ("host/sandbox/src/cache/mod.rs", "ages of files"),
    ("host/store/src/metrics.rs", "the time in metrics"),
    ("registry/client/src/client.rs", "validity of signed states"),
    ("registry/server/src/request_log.rs", "the log, and validity of signed states"),
];

/// Fails on calls that wait without a name.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("waits", || {
        let mut findings = Vec::new();
        for file in workspace.files(&["host/*.rs", "registry/*.rs"])? {
            if !is_checked(&file) {
                continue;
            }
            let text = std::fs::read_to_string(workspace.root.join(&file))
                .with_context(|| format!("cannot read `{}`", file.display()))?;
            if !layout::is_generated(&text) {
                findings.extend(check(&file, &text));
            }
        }
        report(&findings, "waits", "wait by `gymkhana_waits`, and add a row to host/cli/src/waits/table.rs")
    })
}

/// Whether the file is code of a program or a library, and not a test.
fn is_checked(file: &Path) -> bool {
    let is_in = |folder: &str| file.iter().any(|part| part == folder);
    let is_test = file.file_stem().is_some_and(|stem| stem == "tests") || is_in("tests") || is_in("benches");
    FOLDERS.iter().any(|folder| file.starts_with(folder)) && !file.starts_with(OWN) && is_in("src") && !is_test
}

/// Findings for a file.
fn check(file: &Path, text: &str) -> Vec<String> {
    let code = super::without_tests(&super::code(text));
    let found = REFUSED.iter().filter(|(call, _)| code.contains(call));
    let found = found.map(|(call, by)| format!("{}: `{call}`: use `gymkhana_waits::{by}`", file.display()));
    let may_read = WALL_CLOCK.iter().any(|(known, _)| file == Path::new(known));
    let wall = (code.contains("SystemTime::now(") && !may_read)
        .then(|| format!("{}: `SystemTime::now(`: the wall clock jumps; use `Instant`", file.display()));
    found.chain(wall).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(Path::new("host/hub/src/lib.rs"), text)
    }

    #[test]
    fn waits_without_a_name_are_found() {
        assert_eq!(
            found("fn f() { tokio::time::timeout(BOUND, future).await; receiver.recv_timeout(BOUND); }"),
            [
                "host/hub/src/lib.rs: `time::timeout(`: use `gymkhana_waits::within`",
                "host/hub/src/lib.rs: `.recv_timeout(`: use `gymkhana_waits::receive`",
            ]
        );
        assert_eq!(found("use tokio::time::timeout;\n").len(), 1);
    }

    #[test]
    fn a_wall_clock_that_no_list_names_is_found() {
        let text = "fn f() { let since = SystemTime::now(); }";
        assert_eq!(found(text), ["host/hub/src/lib.rs: `SystemTime::now(`: the wall clock jumps; use `Instant`"]);
        assert_eq!(check(Path::new("host/store/src/metrics.rs"), text), [""; 0]);
    }

    #[test]
    fn comments_texts_and_tests_may_name_them() {
        for text in [
            "// As tokio::time::timeout(BOUND, future) does.",
            "fn f() { \"tokio::time::timeout(\"; within(Counterpart::Hub, BOUND, future); }",
            "#[cfg(test)]\nmod tests { fn f() { receiver.recv_timeout(BOUND); } }",
            "builder.connect_timeout(BOUND).read_timeout(BOUND)",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn tests_and_the_crate_itself_are_left_out() {
        let checked = |file: &str| is_checked(Path::new(file));
        assert!(checked("host/hub/src/lib.rs") && checked("registry/client/src/remote.rs"));
        for file in ["host/waits/src/lib.rs", "host/hub/tests/hub.rs", "xtask/src/main.rs", "host/tinker/src/tests.rs"]
        {
            assert!(!checked(file), "{file}");
        }
    }
}
