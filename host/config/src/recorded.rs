//! Run files in recorded folders, also those that earlier versions wrote.

use toml::{Table, Value};

use crate::error::RunFileError;
use crate::run_file::RunFile;

/// Names of the stages `rl` that programs of version 0.1 wrote and did not play, with the words of their recorders.
const STAGES: [(&str, &str); 3] = [("served", "server"), ("gateway", "gateway"), ("play", "program")];

impl RunFile {
    /// As [`RunFile::parse`], for the resolved file in the folder of a run or a server. Reads those of earlier versions.
    ///
    /// # Errors
    /// If the text is malformed or contradicts itself.
    pub fn parse_recorded(text: &str, origin: &str, sets: &[String]) -> Result<Self, RunFileError> {
        let upgraded = text.parse::<Table>().ok().and_then(upgrade);
        let text = upgraded.map_or_else(|| text.to_owned(), |table| table.to_string());
        Self::parse(&text, origin, sets)
    }
}

/// A file of version 0.1 in present keys; `None` for a present file. The earlier one had options of tools and rewards in
/// `[tools]` and `[rewards]`, and servers wrote a stage that they did not play.
fn upgrade(mut file: Table) -> Option<Table> {
    let of_server = recorder_of(&file);
    if let Some(recorder) = of_server {
        file.remove("stages");
        file.insert("recorder".to_owned(), recorder.into());
    }
    let mut moved = move_into_plugins(&mut file);
    let environments = file.get_mut("environments").and_then(Value::as_array_mut).into_iter().flatten();
    for environment in environments.filter_map(Value::as_table_mut) {
        moved |= move_into_plugins(environment);
    }
    (moved || of_server.is_some()).then_some(file)
}

/// Key of stages `rl` in all resolved files since 0.2.
const SINCE_0_2: &str = "step_divergence";

/// The server that wrote a file: the name of its only stage, which a user may also have given to one of a present file.
fn recorder_of(file: &Table) -> Option<&'static str> {
    let [stage] = &file.get("stages")?.as_array()?[..] else { return None };
    let is_forged = stage.get("steps").and_then(Value::as_integer) == Some(1)
        && stage.get("kind").and_then(Value::as_str) == Some("rl")
        && stage.get(SINCE_0_2).is_none();
    let name = stage.get("name")?.as_str().filter(|_| is_forged)?;
    STAGES.into_iter().find_map(|(stage, recorder)| (stage == name).then_some(recorder))
}

/// Moves the entries of `tools` and `rewards` into `plugins`.
fn move_into_plugins(file: &mut Table) -> bool {
    let mut moved = false;
    for section in ["tools", "rewards"] {
        let Some(Value::Table(entries)) = file.remove(section) else { continue };
        moved = true;
        let plugins = file.entry("plugins").or_insert_with(|| Value::Table(Table::new()));
        for (name, keys) in entries {
            let own =
                plugins.as_table_mut().map(|plugins| plugins.entry(name).or_insert_with(|| Value::Table(Table::new())));
            if let (Some(Value::Table(own)), Value::Table(keys)) = (own, keys) {
                own.extend(keys);
            }
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorder;

    const OLD: &str = r#"
        success = "answer-match.correct"
        [tools.calculator.options]
        digits = 3
        [tools.clock.mcp]
        command = ["clock"]
        [rewards.answer-match]
        weight = 2.0
        options = { per-call-cost = 0.5 }
        [plugins.answer-match]
        shared = false
        memory_mib = 9
    "#;

    #[test]
    fn sections_of_version_0_1_are_those_of_plugins() {
        let stages = "[[stages]]\nkind = 'sft'\nname = 'served'\nsteps = 3";
        let file = RunFile::parse_recorded(&format!("{OLD}\n{stages}"), "run.toml", &[]).unwrap();
        let plugins = &file.rules.plugins;
        assert_eq!((plugins["answer-match"].weight, plugins["answer-match"].memory_mib), (2.0, Some(9)));
        assert_eq!(plugins["answer-match"].options["per-call-cost"].as_float(), Some(0.5));
        assert_eq!(plugins["calculator"].options["digits"].as_integer(), Some(3));
        assert!(plugins["clock"].mcp.is_some());
        assert_eq!((file.stages.len(), file.recorder), (1, None));
        // A present file stays as it is.
        let again = RunFile::parse_recorded(&file.resolved().unwrap(), "run.toml", &[]).unwrap();
        assert_eq!(again, file);
    }

    #[test]
    fn environments_of_version_0_1_name_their_plugins() {
        let environments = "[[environments]]\nplugin = 'lake'\ntools = {}\nrewards = { style = { weight = 3.0 } }\n\
                            [[environments]]\nplugin = 'stories'\n[[stages]]\nkind = 'sft'";
        let file = RunFile::parse_recorded(environments, "run.toml", &[]).unwrap();
        let [lake, stories] = &file.environment_settings()[..] else { panic!("two environments") };
        assert_eq!(lake.plugins.as_ref().map(|names| names.iter().cloned().collect()), Some(vec!["style".to_owned()]));
        assert_eq!((lake.rules.plugins["style"].weight, &stories.plugins), (3.0, &None));
    }

    #[test]
    fn servers_of_version_0_1_wrote_a_stage() {
        for (name, recorder) in
            [("served", Recorder::Server), ("gateway", Recorder::Gateway), ("play", Recorder::Program)]
        {
            let stage = format!("{OLD}\n[[stages]]\nkind = 'rl'\nname = '{name}'\nsteps = 1");
            let file = RunFile::parse_recorded(&stage, "run.toml", &[]).unwrap();
            assert_eq!((file.stages.len(), file.recorder), (0, Some(recorder)), "{name}");
            // A user's stage of that name, in a present folder.
            let present =
                format!("success = 'environment.success'\n[[stages]]\nkind = 'rl'\nname = '{name}'\nsteps = 1");
            let resolved = RunFile::parse(&present, "run.toml", &[]).unwrap().resolved().unwrap();
            let file = RunFile::parse_recorded(&resolved, "run.toml", &[]).unwrap();
            assert_eq!((file.stages.len(), file.recorder), (1, None), "{name}");
        }
    }
}
