//! Output of `host plugin inspect`.

use crate::common::Desk;
use gymkhana_registry::Digest;

fn check(name: &str, text: &str) {
    insta::with_settings!({
        filters => vec![
            (r"[0-9a-f]{64}", "[DIGEST]"),
            (r"\d+ bytes", "[SIZE] bytes"),
            (r#""bytes": \d+"#, r#""bytes": [SIZE]"#),
        ],
    }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn for_people_and_for_programs() {
    let desk = Desk::new();
    let file = "plugins/frozen-lake.wasm";
    let people = desk.host(&["plugin", "inspect", file]).succeeded();
    let digest = Digest::of(&std::fs::read(desk.path(file)).expect("a plugin")).to_string();
    assert!(people.contains(&digest), "{people}");
    check("inspect", &people);
    let programs = desk.host(&["plugin", "inspect", file, "--json"]).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&programs).expect("JSON");
    assert_eq!((&parsed["digest"], &parsed["runs_here"]), (&digest.into(), &true.into()));
    check("inspect-json", &programs);
}
