//! Output of `host plugin inspect`.

use crate::common::Desk;
use gymkhana_registry::{Digest, contract};

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

/// JSON of a manifest with this description and these kinds.
fn manifest(description: &str, kinds: &str) -> String {
    let (digest, description) = (contract::digest(), serde_json::json!(description));
    format!(
        r#"{{"schema":1,"namespace":"acme","name":"searcher","version":"1.0.0","kinds":[{kinds}],"contract":{{"version":"0.1.0","digest":"{digest}"}},"license":"MIT","description":{description},"capabilities":["http"],"deterministic":true}}"#
    )
}

/// A description is the author's: its line ends must not add lines that look like the host's.
#[test]
fn a_description_forges_no_lines() {
    let desk = Desk::new();
    let forged = "Adds.\n    wants  none\n   digest  0000\u{61c}";
    desk.write("forged.wasm", crate::plugins::tool(&manifest(forged, "\"tool\"")));
    let shown = desk.host(&["plugin", "inspect", "forged.wasm"]).succeeded();
    assert!(shown.contains(r"    about  Adds.\n    wants  none\n   digest  0000\u{61c}"), "{shown}");
    let starts = |row: &str| shown.lines().filter(|line| line.trim_start().starts_with(row)).count();
    assert_eq!((starts("wants"), starts("digest")), (1, 1), "{shown}");
    assert!(shown.contains("    wants  http\n"), "{shown}");
}

/// The reason quotes the manifest, which must not add lines either.
#[test]
fn an_invalid_manifest_is_refused_with_its_reason() {
    let desk = Desk::new();
    desk.write("run.toml", crate::common::SMALL_RUN);
    for (kinds, reason) in
        [("\"tol\"", "unknown variant `tol`"), ("\"x\\nhint: run this\"", "unknown variant `x\\nhint: run this`")]
    {
        desk.write("invalid.wasm", crate::plugins::tool(&manifest("Adds.", kinds)));
        for refused in [
            desk.host(&["plugin", "inspect", "invalid.wasm"]),
            desk.host(&["plugin", "test", "invalid.wasm"]),
            desk.run("plugins/word-problems.wasm,./invalid.wasm", &[]),
        ] {
            let told = refused.mistake("an invalid manifest");
            assert!(told.contains("the manifest is invalid") && told.contains(reason), "{told}");
            assert!(!told.contains("\nhint: run this"), "{told}");
        }
    }
}
