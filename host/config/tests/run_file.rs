//! The JSON Schema of the run file: it agrees with the parser on keys and ranges, and every run file here follows it.

mod leaves;

use std::path::{Path, PathBuf};

use gymkhana_config::{RunFile, json_schema, run_file_page};
use jsonschema::Validator;
use serde_json::json;

use leaves::{limits, places};

const SMALLEST: &str = "success = \"environment.success\"\n[[stages]]\nkind = \"rl\"\n";

fn validator() -> Validator {
    jsonschema::validator_for(&json_schema()).expect("a JSON Schema")
}

/// The messages of a schema about the text of a run file.
fn problems(validator: &Validator, text: &str) -> Vec<String> {
    let table: toml::Table = toml::from_str(text).expect(text);
    let value = serde_json::to_value(table).expect("JSON");
    validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files below a folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let wanted = files.into_iter().filter(|path| path.extension().is_some_and(|found| found == extension));
    wanted.chain(folders.iter().flat_map(|inner| self::files(inner, extension))).collect()
}

#[test]
fn the_schema_is_one() {
    jsonschema::meta::validate(&json_schema()).expect("a JSON Schema");
}

#[test]
fn examples_follow_the_schema() {
    let (validator, examples) = (validator(), files(&root().join("examples/runs"), "toml"));
    assert!(examples.len() >= 5, "{examples:?}");
    for path in examples {
        assert_eq!(problems(&validator, &read(&path)), [""; 0], "{}", path.display());
    }
}

/// A block that is not a whole run file shows sections, which extend the smallest run file. Other TOML files are those
/// that the parser refuses.
#[test]
fn blocks_of_the_documentation_follow_the_schema() {
    let validator = validator();
    let mut count = 0;
    for path in files(&root().join("docs"), "md") {
        let page = read(&path);
        for block in page.split("```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next()) {
            let Ok(mut table) = toml::from_str::<toml::Table>(block) else { continue };
            let smallest: toml::Table = toml::from_str(SMALLEST).expect("TOML");
            for (key, value) in smallest {
                table.entry(key).or_insert(value);
            }
            let text = table.to_string();
            if parse(&text).is_ok() {
                count += 1;
                assert_eq!(problems(&validator, &text), [""; 0], "{}\n{block}", path.display());
            }
        }
    }
    assert!(count >= 15, "{count} blocks");
}

#[test]
fn misspelt_keys_and_words_are_refused() {
    let validator = validator();
    assert_eq!(problems(&validator, SMALLEST), [""; 0]);
    for (text, word) in [
        (format!("sed = 1\n{SMALLEST}"), "sed"),
        (format!("{SMALLEST}group_sizes = 4\n"), "'group_sizes' was unexpected"),
        (format!("{SMALLEST}settings = {{ entropy_bonsu = 0.3 }}\n"), "entropy_bonsu"),
        (format!("{SMALLEST}settings = {{ surrogate = {{ hihg = 0.3 }} }}\n"), "hihg"),
        (format!("{SMALLEST}settings = {{ baseline = \"meen\" }}\n"), "meen"),
        (format!("{SMALLEST}groups = 0\n"), "/stages/0/groups: 0"),
        (format!("{SMALLEST}algorithm = \"grop\"\n"), "grop"),
        (SMALLEST.replace("\"rl\"", "\"sftt\""), "sftt"),
        (format!("{SMALLEST}[limits]\nturns = 0\n"), "turns"),
        (format!("{SMALLEST}[limits]\nturns = \"eight\"\n"), "turns"),
        (format!("{SMALLEST}[policy]\ndevice = \"gpu\"\n"), "gpu"),
        (SMALLEST.replace("success =", "succes ="), "succes"),
    ] {
        let found = problems(&validator, &text);
        assert!(found.iter().any(|problem| problem.contains(word)), "{text}\n{found:?}");
    }
}

/// A stage's table of flags extends its preset's, and `"off"` removes a flag.
#[test]
fn flags_may_extend_a_preset() {
    let validator = validator();
    for settings in [
        "{ surrogate = { high = 0.28 } }",
        "{ credit = { kind = \"outcome\" } }",
        "{ kl = \"off\", epochs = 2 }",
        "{ kl = { beta = 0.1 } }",
    ] {
        assert_eq!(problems(&validator, &format!("{SMALLEST}settings = {settings}\n")), [""; 0], "{settings}");
    }
}

/// The error of a run file.
fn parse(text: &str) -> Result<(), String> {
    RunFile::parse(text, "run.toml", &[]).map(drop).map_err(|error| error.to_string())
}

/// Parser and schema accept the limits of every range, and refuse the next number outside.
#[test]
fn ranges_of_the_schema_are_those_of_the_parser() {
    let (schema, validator) = (json_schema(), validator());
    let (mut count, mut failures) = (0, Vec::new());
    for place in places(&schema).0 {
        let key = place.path.rsplit('.').next().unwrap_or_default();
        for (value, inside) in limits(&place.schema).into_iter().filter(|(value, _)| !place.is_stricter(value)) {
            let text = place.with(value.clone());
            let (parsed, found) = (parse(&text), problems(&validator, &text));
            let named = parsed.as_ref().err().is_none_or(|message| message.contains(key));
            if parsed.is_ok() != inside || found.is_empty() != inside || !named {
                failures.push(format!("{} = {value}\nparser: {parsed:?}\nschema: {found:?}\n{text}", place.path));
            }
            count += 1;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count >= 250, "{count} values");
}

/// Parser and schema refuse unknown keys in every table.
#[test]
fn unknown_keys_are_refused_everywhere() {
    let (schema, validator) = (json_schema(), validator());
    let tables = places(&schema).1;
    assert!(tables.len() >= 60, "{} tables", tables.len());
    for place in tables {
        let (text, path) = (place.with(json!(true)), &place.path);
        assert_eq!(place.schema["additionalProperties"], false, "{path}");
        assert!(!problems(&validator, &text).is_empty(), "{path}\n{text}");
        let message = parse(&text).expect_err(&text);
        assert!(message.contains("unheard-of"), "{path}: {message}\n{text}");
    }
}

/// A key that the page leaves out is a section without a heading in the page's list.
#[test]
fn the_page_has_every_key() {
    let (schema, page) = (json_schema(), run_file_page());
    let tables = places(&schema).1;
    for (key, _) in tables.iter().flat_map(|place| place.schema["properties"].as_object().into_iter().flatten()) {
        let cells = [format!("`{key}`"), format!("`{key}."), format!(".{key}`")];
        assert!(cells.iter().any(|cell| page.contains(cell)), "{key}");
    }
}
