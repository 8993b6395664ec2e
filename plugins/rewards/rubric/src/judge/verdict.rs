//! Verdicts in a model's reply.

use serde_json::Value;

use crate::checklist::{Item, Rule};

/// Best grade.
const BEST: u64 = 10;
/// Maximum length of a quoted reply in a message, in characters.
const QUOTED: usize = 60;

/// Start of a reply, for messages.
pub fn start(reply: &str) -> String {
    reply.chars().take(QUOTED).collect()
}

/// Verdict without case and final period.
fn bare(reply: &str) -> String {
    let reply = reply.trim();
    reply.strip_suffix('.').unwrap_or(reply).to_ascii_lowercase()
}

/// Bare verdict on a question.
pub fn yes_or_no(reply: &str) -> Option<f64> {
    match bare(reply).as_str() {
        "yes" => Some(1.0),
        "no" => Some(0.0),
        _ => None,
    }
}

/// Bare grade, as a share of the best one.
pub fn grade(reply: &str) -> Option<f64> {
    let reply = bare(reply);
    let plain = (1..=2).contains(&reply.len()) && reply.bytes().all(|byte| byte.is_ascii_digit());
    let grade: u32 = reply.parse().ok().filter(|grade| plain && u64::from(*grade) <= BEST)?;
    Some(f64::from(grade) / BEST as f64)
}

/// Verdicts on each item in each part, from a JSON object such as `{"1": [0, 1], "2": [7, 3]}`, alone or in the only
/// code block of the reply.
///
/// # Errors
/// What is wrong with the reply, with the item's name.
pub fn table(reply: &str, items: &[&Item], parts: usize) -> Result<Vec<Vec<f64>>, String> {
    let blocks: Vec<&str> = reply.split("```").collect();
    let inside = match blocks[..] {
        [_, block, _] => block.strip_prefix("json").unwrap_or(block),
        _ => reply,
    };
    let not_json = || format!("the model replied `{}`, not a JSON object of verdicts", start(reply));
    let object = match serde_json::from_str(inside.trim()) {
        Ok(Value::Object(object)) => object,
        _ => return Err(not_json()),
    };
    let row = |(number, item): (usize, &&Item)| {
        let name = &item.name;
        let list = match object.get(&(number + 1).to_string()) {
            Some(Value::Array(list)) => list,
            Some(_) => return Err(format!("the model's verdicts on the item `{name}` are not a list")),
            None => return Err(format!("the model gave no verdicts on the item `{name}`")),
        };
        if list.len() != parts {
            return Err(format!("the model gave {} verdicts on the item `{name}`, not {parts}", list.len()));
        }
        let best = if matches!(item.rule, Rule::Grade(_)) { BEST } else { 1 };
        let one = |verdict: &Value| match verdict.as_u64().filter(|verdict| *verdict <= best) {
            Some(verdict) => Ok(verdict as f64 / best as f64),
            None => {
                let verdict = start(&verdict.to_string());
                Err(format!(
                    "the model's verdict on the item `{name}` is {verdict}, not a whole number from 0 to {best}"
                ))
            }
        };
        list.iter().map(one).collect()
    };
    items.iter().enumerate().map(row).collect()
}
