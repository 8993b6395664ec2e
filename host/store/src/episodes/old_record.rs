//! Parses the JSON of a record of the current schema or of schema 5 to 7, which it translates to the current one.
//!
//! Schema 7 had no logs.
//!
//! Schema 6 wrote bytes as lists of numbers, which `gymkhana-record` still reads. Its first version recorded a malformed call as a
//! call without a name.
//!
//! Schema 5 identified a call by a text, `during`. It also named an early stop `hopeless` and a turn's probe score
//! `reading`, and recorded a malformed call as a call without a name. Only this module knows these forms.

use gymkhana_record::{CallSite, EPISODE_SCHEMA, EpisodeRecord, Turn};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Value, json};

/// Schema with texts in place of call sites.
const TEXT_SITES: u32 = 5;

/// Schema with lists of numbers in place of base64.
const NUMBER_LISTS: u32 = 6;

/// Schema without logs.
const WITHOUT_LOGS: u32 = 7;

/// Reason why JSON is not a record.
#[derive(Debug)]
pub(crate) enum BadRecord {
    /// The JSON has an unexpected structure.
    Json(serde_json::Error),
    /// The schema is not supported.
    Schema(u32),
}

impl From<serde_json::Error> for BadRecord {
    fn from(source: serde_json::Error) -> Self {
        Self::Json(source)
    }
}

/// Parses a record. Returns it in the current schema, with the schema number of the JSON.
pub(crate) fn parse(json: &[u8]) -> Result<(EpisodeRecord, u32), BadRecord> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u32,
    }
    let Schema { schema } = serde_json::from_slice(json)?;
    match schema {
        EPISODE_SCHEMA => Ok((serde_json::from_slice(json)?, schema)),
        NUMBER_LISTS | WITHOUT_LOGS => {
            let record: EpisodeRecord = serde_json::from_slice(json)?;
            Ok((EpisodeRecord { schema: EPISODE_SCHEMA, ..record }, schema))
        }
        TEXT_SITES => {
            // A list with the number 5 is read as a `Schema` too.
            let mut record = Value::Object(serde_json::from_slice(json)?);
            translate(&mut record)?;
            Ok((serde_json::from_value(record)?, schema))
        }
        other => Err(BadRecord::Schema(other)),
    }
}

/// Parses the transcript of a record of this schema. Returns it in the current form.
pub(crate) fn parse_turns(json: &[u8], schema: u32) -> Result<Vec<Turn>, serde_json::Error> {
    if schema > NUMBER_LISTS {
        return serde_json::from_slice(json);
    }
    let mut turns: Vec<Value> = serde_json::from_slice(json)?;
    turns.iter_mut().for_each(translate_turn);
    serde_json::from_value(Value::Array(turns))
}

/// Whether records of this schema hold the seat once per segment, and not once per token.
pub(crate) fn has_seat_per_segment(schema: u32) -> bool {
    schema != TEXT_SITES
}

/// Translates a record of schema 5 to the current schema, without its transcript, which is stored apart.
fn translate(record: &mut Value) -> Result<(), serde_json::Error> {
    record["schema"] = EPISODE_SCHEMA.into();
    if record["ending"] == "hopeless" {
        record["ending"] = "early-stopped".into();
    }
    for list in ["failures", "exchanges", "costs"] {
        for entry in record[list].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            let during = entry.remove("during").unwrap_or_default();
            let text = during.as_str().ok_or_else(|| serde_json::Error::missing_field("during"))?;
            let boundary = entry.get("boundary").and_then(Value::as_str).unwrap_or_default();
            let site = call_site(boundary, text).ok_or_else(|| {
                serde_json::Error::custom(format!("`{text}` is not the name of a call of boundary `{boundary}`"))
            })?;
            entry.insert("call_site".to_owned(), serde_json::to_value(site)?);
        }
    }
    for turn in record["policy_turns"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(score) = turn.remove("reading") {
            turn.insert("probe_score".to_owned(), score);
        }
    }
    Ok(())
}

/// Translates a call without a name to a malformed call.
fn translate_turn(turn: &mut Value) {
    if turn["turn"] == "call" && turn["call"]["name"] == "" {
        let (id, text) = (turn["call"]["id"].take(), turn["call"]["arguments"].take());
        *turn = json!({ "turn": "malformed-call", "seat": turn["seat"], "id": id, "text": text });
    }
}

/// Call that schema 5 identified by this text.
fn call_site(boundary: &str, text: &str) -> Option<CallSite> {
    let numbered = |prefix: &str| text.strip_prefix(prefix)?.parse::<u32>().ok();
    Some(match (boundary, text) {
        ("environment", "start") => CallSite::Reset,
        ("environment", "advise") => CallSite::Advise,
        ("environment", "probe") => CallSite::Probe,
        ("environment", "the end by a limit") => CallSite::LimitCheck,
        ("environment", "privileged") => CallSite::Privileged,
        ("environment", "guidance") => CallSite::Guidance,
        ("environment", _) => match numbered("step ") {
            Some(number) => CallSite::Step(number),
            None => CallSite::StateKey(numbered("state key ")?),
        },
        ("tool", "final view") => CallSite::FinalView,
        ("tool", id) => CallSite::tool(id),
        ("reward", "score") => CallSite::Score,
        ("reward", _) => CallSite::Scoring(numbered("scoring ")?),
        ("model", _) => CallSite::Generate(numbered("turn ")?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use gymkhana_record::NamedValue;

    use super::*;

    #[test]
    fn bytes_of_schema_6_are_lists_of_numbers() {
        let secret = NamedValue { name: "secret".to_owned(), value: gymkhana_record::Value::Bytes(vec![1, 255]) };
        let record = EpisodeRecord { extras: vec![secret], ..crate::common::record(3) };
        let mut json = serde_json::to_value(&record).unwrap();
        assert_eq!(json["extras"][0]["value"], json!({ "bytes": "Af8=" }));
        json["extras"][0]["value"] = json!({ "bytes": [1, 255] });
        json["schema"] = NUMBER_LISTS.into();
        assert_eq!(parse(json.to_string().as_bytes()).unwrap(), (record.clone(), NUMBER_LISTS));
        json["schema"] = 4.into();
        assert!(matches!(parse(json.to_string().as_bytes()), Err(BadRecord::Schema(4))));
    }

    /// Found by the fuzz target `journal`.
    #[test]
    fn a_list_with_the_number_of_a_schema_is_no_record() {
        for json in ["[5]", "[6]", "[7]", "[8]"] {
            assert!(matches!(parse(json.as_bytes()), Err(BadRecord::Json(_))), "{json}");
        }
    }

    #[test]
    fn a_record_of_schema_7_has_no_logs() {
        let record = EpisodeRecord { logs: vec![], ..crate::common::record(3) };
        let mut json = serde_json::to_value(&record).unwrap();
        assert!(json.get("logs").is_none(), "an empty log is left out");
        json["schema"] = 7.into();
        assert_eq!(parse(json.to_string().as_bytes()).unwrap(), (record, 7));
        // A later schema is refused.
        json["schema"] = 9.into();
        assert!(matches!(parse(json.to_string().as_bytes()), Err(BadRecord::Schema(9))));
    }

    /// Since schema 7, a call without a name is a call that a policy wrote without a name.
    #[test]
    fn calls_of_schema_7_are_kept() {
        let call = json!([{ "turn": "call", "seat": 1, "cost": 0.0, "call": { "id": "call-3", "name": "", "arguments": "{}" } }]);
        let turns = parse_turns(call.to_string().as_bytes(), WITHOUT_LOGS).unwrap();
        assert_eq!(serde_json::to_value(&turns).unwrap(), call);
    }

    /// Schema 5 recorded a malformed call as a call without a name.
    #[test]
    fn a_call_without_a_name_becomes_a_malformed_call() {
        let call = |name: &str| {
            json!({ "turn": "call", "seat": 1, "cost": 0.0,
            "call": { "id": "call-3", "name": name, "arguments": "{nonsense" } })
        };
        let transcript = json!([call(""), call("add")]).to_string();
        let turns = parse_turns(transcript.as_bytes(), TEXT_SITES).unwrap();
        let malformed = Turn::MalformedCall { seat: 1, id: "call-3".to_owned(), text: "{nonsense".to_owned() };
        assert_eq!(turns[0], malformed);
        assert_eq!(serde_json::to_value(&turns[1]).unwrap(), call("add"));
    }

    #[test]
    fn every_text_of_schema_5_identifies_a_call() {
        for (boundary, text) in [
            ("environment", "start"),
            ("environment", "advise"),
            ("environment", "probe"),
            ("environment", "the end by a limit"),
            ("environment", "privileged"),
            ("environment", "guidance"),
            ("environment", "step 12"),
            ("environment", "state key 3"),
            ("tool", "final view"),
            ("tool", "call-7"),
            ("reward", "score"),
            ("reward", "scoring 2"),
            ("model", "turn 4"),
        ] {
            // `Display` writes the same text.
            assert_eq!(call_site(boundary, text).map(|site| site.to_string()).as_deref(), Some(text));
        }
        for (boundary, text) in
            [("environment", "step"), ("environment", "call-0"), ("reward", "scoring x"), ("host", "start")]
        {
            assert_eq!(call_site(boundary, text), None, "{boundary} {text}");
        }
    }
}
