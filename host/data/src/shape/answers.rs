//! The answer of a record as rewards compare it: a text or a number, or a list of accepted texts.

use serde_json::{Map, Value as Json};

use super::chat::{is_reply, parsed};

/// Line with which the answers of GSM8K end.
const GSM8K_MARK: &str = "#### ";
/// Columns with accepted answers instead of `answer`: Search-R1's, SQuAD's and PopQA's.
const ACCEPTED: [&str; 3] = ["golden_answers", "answers", "possible_answers"];
/// Begins of columns that say which of several choices is right, as ReClor's `label`: the list is not of accepted answers.
const CHOSEN: [&str; 5] = ["label", "correct", "gold_", "answer_i", "options"];
/// Fields of an answer that is an object: verl's for searches, SQuAD's and TriviaQA's. Aliases follow the value.
const FIELDS: [&str; 4] = ["target", "text", "value", "aliases"];

/// Sets `answer`: from another column, if the record has none; the last message of a completion; the part after `####`, with
/// the whole as `solution`; or the accepted answers.
pub(super) fn settle(columns: &mut Map<String, Json>) {
    let is_absent = columns.get("answer").is_none_or(Json::is_null);
    let other = ACCEPTED.into_iter().find(|name| columns.get(*name).is_some_and(|value| !value.is_null()));
    let are_choices = columns.keys().any(|name| CHOSEN.iter().any(|begin| name.starts_with(begin)));
    if let Some(value) =
        other.filter(|name| is_absent && !(are_choices && *name == "answers")).and_then(|name| columns.remove(name))
    {
        columns.insert("answer".to_owned(), parsed(&value));
    }
    let Some(answer) = columns.get("answer") else { return };
    if let Json::Array(messages) = parsed(answer)
        && let Some(content) = messages.last().filter(|last| is_reply(last)).and_then(|last| last.get("content"))
    {
        columns.insert("answer".to_owned(), content.clone());
    } else if let Some(answers) = accepted(answer) {
        columns.insert("answer".to_owned(), answers);
    }
    let Some(Json::String(answer)) = columns.get("answer") else { return };
    let Some((_, last)) = answer.rsplit_once(GSM8K_MARK).filter(|(_, last)| !last.contains('\n')) else { return };
    let (last, whole) = (last.trim().to_owned(), answer.clone());
    columns.entry("solution").or_insert(whole.into());
    columns.insert("answer".to_owned(), last.into());
}

/// Accepted answers of a list or an object: `null` if it has none, the only one, or a list of different texts. `None` for
/// values of another form, such as a list of numbers, which may be one answer.
fn accepted(answer: &Json) -> Option<Json> {
    let found = match answer {
        Json::Array(answers) => answers.clone(),
        Json::Object(fields) if fields.keys().any(|name| FIELDS[..3].contains(&name.as_str())) => {
            let values = FIELDS.iter().filter_map(|name| fields.get(*name));
            values.flat_map(|value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])).collect()
        }
        _ => return None,
    };
    let mut answers: Vec<Json> = Vec::new();
    for one in found.into_iter().filter(|one| !one.is_null()) {
        if !answers.contains(&one) {
            answers.push(one);
        }
    }
    if answers.iter().any(|one| one.is_array() || one.is_object()) {
        return None;
    }
    match &answers[..] {
        [] => Some(Json::Null),
        [only] => Some(only.clone()),
        // Numbers beside texts are other forms of the same answer.
        several if several.iter().any(Json::is_string) => {
            Some(several.iter().map(|one| Json::from(gymkhana_rows::shown(one))).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settled(columns: Json) -> Json {
        let Json::Object(mut columns) = columns else { panic!("{columns}") };
        settle(&mut columns);
        columns.remove("answer").unwrap_or_default()
    }

    /// Rows of Search-R1, verl, HotpotQA, Natural Questions, SQuAD, TriviaQA and PopQA.
    #[test]
    fn accepted_answers_of_other_projects_are_a_list() {
        for (columns, answer) in [
            (
                json!({"golden_answers": ["Shakespeare", "William Shakespeare"]}),
                json!(["Shakespeare", "William Shakespeare"]),
            ),
            (json!({"answer": {"target": ["Paris"]}}), json!("Paris")),
            (json!({"answer": {"target": ["a", "b", "a"]}}), json!(["a", "b"])),
            (json!({"answer": ["4", "four"]}), json!(["4", "four"])),
            (json!({"answer": ["4", 4, 4.0, null]}), json!(["4", "4", "4.0"])),
            (json!({"answers": {"text": ["in 1998", "1998"], "answer_start": [3, 6]}}), json!(["in 1998", "1998"])),
            (json!({"answer": {"value": "Ag", "aliases": ["silver", "Ag"], "type": "x"}}), json!(["Ag", "silver"])),
            (json!({"possible_answers": "[\"a\", \"b\"]"}), json!(["a", "b"])),
            (json!({"answer": "c", "answers": ["a", "b"]}), json!("c")),
            (json!({"answer": null, "golden_answers": ["a"]}), json!("a")),
            (json!({"answer": [7]}), json!(7)),
            (json!({"answer": []}), Json::Null),
        ] {
            assert_eq!(settled(columns.clone()), answer, "{columns}");
        }
    }

    /// Choices of ReClor, of which one is right.
    #[test]
    fn choices_are_not_accepted_answers() {
        let row = json!({"answers": ["a", "b", "c", "d"], "label": 2});
        assert_eq!(settled(row), Json::Null);
    }

    /// What may be one answer stays as it is.
    #[test]
    fn other_lists_and_objects_are_not_alternatives() {
        for answer in
            [json!([1, 2]), json!([["a"], ["b"]]), json!({"x": 1}), json!("[\"a\", \"b\"]"), json!({"value": {}})]
        {
            assert_eq!(settled(json!({ "answer": answer })), answer);
        }
    }
}
