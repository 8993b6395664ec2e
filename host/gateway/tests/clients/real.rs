//! The official clients against the gateway. With `GYMKHANA_RECORD=1` the test writes `exchanges.json` anew.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::process::Command;

use crate::recorded::without_time;
use crate::served::serve;

/// The programs of clients: the variable that names the interpreter, and the program.
const PROGRAMS: [(&str, &str); 2] =
    [("GYMKHANA_CLIENTS_PYTHON", "clients.py"), ("GYMKHANA_CLIENTS_NODE", "clients.mjs")];

#[tokio::test]
#[ignore = "needs the official clients: cargo xtask test --reference clients"]
async fn official_clients_get_what_they_expect() {
    let mut exchanges: Vec<Json> = vec![];
    for (variable, program) in PROGRAMS {
        let Ok(interpreter) = std::env::var(variable) else { panic!("{variable} names no interpreter") };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
        let ((output, key), outcome) = serve(Duration::ZERO, |place| async move {
            let mut command = Command::new(interpreter);
            command.arg(beside_packages(folder, program)).envs(place.variables).stderr(Stdio::inherit());
            (command.output().await.expect("the client starts"), place.key)
        })
        .await;
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{program}: {text}");
        let recorded: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let turns = recorded.iter().filter(|exchange| exchange["turn"] == true).count();
        assert_eq!(outcome.policy_turns.len(), turns, "{program}");
        exchanges.extend(recorded.into_iter().map(|exchange| anonymous(exchange, &key)));
    }
    if std::env::var_os("GYMKHANA_RECORD").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/exchanges.json");
        let text = serde_json::to_string_pretty(&exchanges).expect("JSON");
        std::fs::write(path, text + "\n").expect("the recordings are writable");
    }
}

/// The program's path. Node.js looks for packages beside the program, so that it is copied there.
pub fn beside_packages(folder: &str, program: &str) -> PathBuf {
    let path = Path::new(folder).join(program);
    match std::env::var_os("GYMKHANA_CLIENTS_NPM") {
        Some(packages) if program.ends_with(".mjs") => {
            let copy = Path::new(&packages).join(program);
            std::fs::copy(&path, &copy).expect("the folder of the packages is writable");
            copy
        }
        _ => path,
    }
}

/// An exchange without keys, addresses and times.
fn anonymous(mut exchange: Json, key: &str) -> Json {
    let path = exchange["path"].as_str().unwrap_or_default();
    let path = path.splitn(4, '/').nth(3).map_or_else(String::new, |rest| format!("/{rest}"));
    exchange["path"] = path.into();
    exchange["answer"] = without_time(exchange["answer"].as_str().unwrap_or_default()).into();
    let kept = ["authorization", "x-api-key", "anthropic-version", "content-type", "x-stainless-retry-count"];
    let headers = exchange["headers"].as_object().cloned().unwrap_or_default().into_iter();
    let headers = headers.filter(|(name, _)| kept.contains(&name.to_lowercase().as_str()));
    let headers = headers.map(|(name, value)| {
        let value = value.as_str().unwrap_or_default().replace(key, "KEY");
        (name.to_lowercase(), json!(value))
    });
    exchange["headers"] = Json::Object(headers.collect());
    exchange
}
