//! Manifest of a plugin (identity and capabilities), read from the author's `Cargo.toml`.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use toml::Table;

use crate::advice;
use crate::contract;
use crate::declaration::Kind;

/// Version of the manifest's JSON layout.
const SCHEMA: u32 = 1;
/// First bytes of the section.
const MAGIC: &[u8; 4] = b"GYMK";
const KEYS: [&str; 6] = ["namespace", "capabilities", "optional", "deterministic", "range", "thoughts"];
/// Imports that a plugin must declare. `log`, `random` and `clock` are always available.
const CAPABILITIES: [&str; 4] = ["assets", "model", "tools", "http"];
/// Import that every wrapper has, and no other plugin.
const INNER: &str = "inner-environment";
const FREE: [&str; 3] = ["log", "random", "clock"];

/// The author's package as reported by Cargo, with inherited fields resolved.
pub struct Package {
    pub name: String,
    pub version: String,
    pub license: String,
    pub description: String,
    /// `[package.metadata.gymkhana]`, if present.
    pub metadata: Option<Table>,
}

impl Package {
    /// Reads the package that is being compiled.
    pub fn from_cargo() -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let path = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let manifest: Table = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
        let table = |from: &Table, key: &str| from.get(key).and_then(toml::Value::as_table).cloned();
        let metadata = table(&manifest, "package")
            .and_then(|package| table(&package, "metadata"))
            .and_then(|metadata| table(&metadata, "gymkhana"));
        Ok(Self {
            name: variable("CARGO_PKG_NAME"),
            version: variable("CARGO_PKG_VERSION"),
            license: variable("CARGO_PKG_LICENSE"),
            description: variable("CARGO_PKG_DESCRIPTION"),
            metadata,
        })
    }
}

/// Validated manifest.
#[derive(Debug)]
pub struct Manifest {
    json: String,
    /// Range of a reward's totals; `None` for plugins without a reward.
    pub reward_range: Option<[f64; 2]>,
}

impl Manifest {
    /// Validates the package. The error names the key and suggests a fix.
    pub fn new(package: &Package, kinds: &[Kind]) -> Result<Self, String> {
        let metadata = package.metadata.as_ref().ok_or_else(|| missing("namespace", "namespace = \"your-name\""))?;
        if let Some(unknown) = metadata.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("unknown key `{unknown}` in [package.metadata.gymkhana]; {}", advice(unknown, &KEYS)));
        }
        let namespace = namespace(metadata)?;
        if !is_name(&package.name) {
            return Err(format!(
                "package name `{}` is not a valid plugin name: use lower-case letters, digits and inner single `-`",
                package.name
            ));
        }
        for (key, value) in [("license", &package.license), ("description", &package.description)] {
            if value.is_empty() {
                return Err(format!(
                    "`{key}` in [package] is missing, which the manifest requires: add `{key} = \"…\"`"
                ));
            }
        }
        let reward_range = reward_range(metadata, kinds)?;
        let mut fields = Map::new();
        let mut field = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        field("schema", json!(SCHEMA));
        field("namespace", json!(namespace));
        field("name", json!(package.name));
        field("version", json!(package.version));
        field("kinds", kinds.iter().map(|kind| kind.interface()).collect());
        field("contract", json!({"version": contract::VERSION, "digest": contract::digest()}));
        field("license", json!(package.license));
        field("description", json!(package.description));
        let (mut asked, optional) = (capabilities(metadata, "capabilities")?, capabilities(metadata, "optional")?);
        if let Some(unasked) = optional.iter().find(|name| !asked.contains(name)) {
            return Err(format!("`{unasked}` is in `optional`, not in `capabilities`: add it to `capabilities` too"));
        }
        if kinds.contains(&Kind::Wrapper) {
            asked.push(INNER.to_owned());
        }
        field("capabilities", asked.into());
        if !optional.is_empty() {
            field("optional", optional.into());
        }
        field("deterministic", deterministic(metadata)?.into());
        if let Some(range) = reward_range {
            field("reward-range", json!(range));
        }
        if thoughts(metadata, kinds)? {
            field("thoughts", json!(true));
        }
        Ok(Self { json: Value::Object(fields).to_string(), reward_range })
    }

    /// Bytes of the section: magic, length of the JSON (u32, little-endian), JSON.
    pub fn frame(&self) -> Vec<u8> {
        let length = u32::try_from(self.json.len()).unwrap_or(u32::MAX);
        [MAGIC.as_slice(), &length.to_le_bytes(), self.json.as_bytes()].concat()
    }
}

fn missing(key: &str, example: &str) -> String {
    format!("`{key}` is missing: add to Cargo.toml\n\n[package.metadata.gymkhana]\n{example}")
}

fn wrong(key: &str, wanted: &str, example: &str) -> String {
    format!("`{key}` in [package.metadata.gymkhana] must be {wanted}, such as `{example}`")
}

/// Whether a name has 1 to 64 lower-case letters, digits and `-`, with no `-` at either end.
fn is_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    (1..=64).contains(&name.len()) && letters && !name.starts_with('-') && !name.ends_with('-')
}

fn namespace(metadata: &Table) -> Result<&str, String> {
    let value = metadata.get("namespace").ok_or_else(|| missing("namespace", "namespace = \"your-name\""))?;
    value
        .as_str()
        .filter(|name| is_name(name))
        .ok_or_else(|| wrong("namespace", "a name of lower-case letters, digits and `-`", "namespace = \"your-name\""))
}

fn capabilities(metadata: &Table, key: &str) -> Result<Vec<String>, String> {
    let malformed = || wrong(key, "a list of names", &format!("{key} = [\"http\"]"));
    let Some(value) = metadata.get(key) else { return Ok(Vec::new()) };
    let mut names: Vec<String> = Vec::new();
    for item in value.as_array().ok_or_else(malformed)? {
        let name = item.as_str().ok_or_else(malformed)?;
        if FREE.contains(&name) {
            return Err(format!("capability `{name}` is always available: remove it from `{key}`"));
        }
        if !CAPABILITIES.contains(&name) {
            return Err(format!("unknown capability `{name}`; {}", advice(name, &CAPABILITIES)));
        }
        if names.iter().any(|other| other == name) {
            return Err(format!("capability `{name}` is listed twice in `{key}`: remove one"));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

fn deterministic(metadata: &Table) -> Result<bool, String> {
    match metadata.get("deterministic") {
        None => Ok(true),
        Some(value) => value.as_bool().ok_or_else(|| wrong("deterministic", "true or false", "deterministic = false")),
    }
}

/// Whether a reward reads the thoughts of seats.
fn thoughts(metadata: &Table, kinds: &[Kind]) -> Result<bool, String> {
    let Some(value) = metadata.get("thoughts") else { return Ok(false) };
    if !kinds.contains(&Kind::Reward) {
        let reason = "is for rewards, and this plugin has no reward: remove it";
        return Err(format!("`thoughts` in [package.metadata.gymkhana] {reason}"));
    }
    value.as_bool().ok_or_else(|| wrong("thoughts", "true or false", "thoughts = true"))
}

fn reward_range(metadata: &Table, kinds: &[Kind]) -> Result<Option<[f64; 2]>, String> {
    let has_reward = kinds.contains(&Kind::Reward);
    let Some(value) = metadata.get("range") else {
        return match has_reward {
            true => Err(missing("range", "range = [0.0, 1.0]  # smallest and largest total")),
            false => Ok(None),
        };
    };
    if !has_reward {
        return Err(
            "`range` in [package.metadata.gymkhana] is for rewards, and this plugin has no reward: remove it".into()
        );
    }
    let malformed = || wrong("range", "two finite numbers, low first", "range = [0.0, 1.0]");
    let number = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64));
    let numbers: Option<Vec<f64>> = value.as_array().ok_or_else(malformed)?.iter().map(number).collect();
    match numbers.as_deref() {
        Some([low, high]) if low.is_finite() && high.is_finite() && low <= high => Ok(Some([*low, *high])),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(metadata: &str) -> Package {
        Package {
            name: "calculator".into(),
            version: "0.1.0".into(),
            license: "Apache-2.0".into(),
            description: "Exact arithmetic".into(),
            metadata: Some(metadata.parse().expect("the test's TOML")),
        }
    }

    fn refusal(metadata: &str, kind: Kind) -> String {
        Manifest::new(&package(metadata), &[kind]).expect_err("a mistake")
    }

    #[test]
    fn frame_is_magic_length_and_json() {
        let manifest = Manifest::new(&package("namespace = 'gymkhana'"), &[Kind::Tool]).expect("a good manifest");
        let frame = manifest.frame();
        assert_eq!(&frame[..4], b"GYMK");
        assert_eq!(frame[4..8], u32::to_le_bytes(frame.len() as u32 - 8));
        let expected = format!(
            "{{\"schema\":1,\"namespace\":\"gymkhana\",\"name\":\"calculator\",\"version\":\"0.1.0\",\
             \"kinds\":[\"tool\"],\"contract\":{{\"version\":\"0.2.0\",\"digest\":\"{}\"}},\
             \"license\":\"Apache-2.0\",\"description\":\"Exact arithmetic\",\"capabilities\":[],\
             \"deterministic\":true}}",
            contract::digest()
        );
        assert_eq!(std::str::from_utf8(&frame[8..]), Ok(expected.as_str()));
    }

    #[test]
    fn a_reward_has_its_range_in_the_manifest() {
        let text = "namespace = 'a'\nrange = [-1, 1.5]\ncapabilities = ['model']\ndeterministic = false";
        let manifest = Manifest::new(&package(text), &[Kind::Reward]).expect("a good manifest");
        assert_eq!(manifest.reward_range, Some([-1.0, 1.5]));
        let tail = "\"capabilities\":[\"model\"],\"deterministic\":false,\"reward-range\":[-1.0,1.5]}";
        assert!(manifest.json.ends_with(tail), "{}", manifest.json);
    }

    #[test]
    fn a_wrapper_is_an_environment_that_asks_for_another() {
        let text = "namespace = 'a'\ncapabilities = ['model']";
        let manifest = Manifest::new(&package(text), &[Kind::Wrapper]).expect("a good manifest");
        assert!(manifest.json.contains("\"kinds\":[\"environment\"]"), "{}", manifest.json);
        assert!(manifest.json.contains("\"capabilities\":[\"model\",\"inner-environment\"]"), "{}", manifest.json);
        let listed = refusal("namespace = 'a'\ncapabilities = ['inner-environment']", Kind::Tool);
        assert!(listed.contains("unknown capability `inner-environment`"), "{listed}");
    }

    #[test]
    fn mistakes_name_the_key_and_show_the_fix() {
        let none = Package { metadata: None, ..package("") };
        let message = Manifest::new(&none, &[Kind::Tool]).expect_err("no metadata");
        assert!(message.contains("[package.metadata.gymkhana]\nnamespace = \"your-name\""), "{message}");
        assert!(refusal("", Kind::Tool).contains("`namespace` is missing"));
        assert!(refusal("namespace = 'A b'", Kind::Tool).contains("lower-case letters"));
        assert!(refusal("namespace = 7", Kind::Tool).contains("`namespace`"));
        assert!(refusal("namspace = 'a'", Kind::Tool).contains("did you mean `namespace`?"));
        assert!(refusal("namespace = 'a'\ndeterministic = 1", Kind::Tool).contains("true or false"));
        assert!(refusal("namespace = 'a'\ncapabilities = ['htp']", Kind::Tool).contains("did you mean `http`?"));
        assert!(refusal("namespace = 'a'\ncapabilities = ['log']", Kind::Tool).contains("is always available"));
        assert!(refusal("namespace = 'a'\nrange = [0, 1]", Kind::Tool).contains("is for rewards"));
        assert!(refusal("namespace = 'a'", Kind::Reward).contains("`range` is missing"));
        assert!(refusal("namespace = 'a'\nrange = [1, 0]", Kind::Reward).contains("low first"));
        assert!(refusal("namespace = 'a'\nrange = [0, nan]", Kind::Reward).contains("finite"));
        let unlicensed = Package { license: String::new(), ..package("namespace = 'a'") };
        assert!(Manifest::new(&unlicensed, &[Kind::Tool]).expect_err("no licence").contains("`license`"));
    }
}
