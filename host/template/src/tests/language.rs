//! Renderings of small templates, compared with those of Jinja2.

use serde_json::Value as Json;

use crate::{RenderLimits, Template, TemplateError, Value};

const GOLDEN: &str = include_str!("../../../../tests/golden/template/language.json");

/// Templates whose result differs, with the reason.
const DIFFERENT: [(&str, &str); 3] = [
    ("{{ d|pprint }}", "the filter is not supported"),
    ("{{ none[1:] }}", "Jinja folds constants and prints nothing; it fails for a variable"),
    ("{{ 3.14.real }}", "numbers have no attributes"),
];

fn render(template: &str, variables: &Json, is_outside: bool) -> Result<String, TemplateError> {
    let mut sources = 0;
    let mut next = |_: &str| {
        sources += 1;
        is_outside.then_some(sources)
    };
    let variables = variables.as_object().unwrap().iter();
    let variables = variables.map(|(name, value)| (name.clone(), Value::from_json_with(value, &mut next)));
    let rendering = Template::parse(template)?.render(variables.collect(), &RenderLimits::default())?;
    let covered = rendering.text.runs().last().map_or(0, |run| run.end);
    assert_eq!(covered, rendering.text.as_str().len(), "{template}");
    Ok(rendering.text.as_str().to_owned())
}

#[test]
fn renderings_equal_those_of_jinja() {
    let golden: Json = serde_json::from_str(GOLDEN).unwrap();
    let mut differences = Vec::new();
    for case in golden["cases"].as_array().unwrap() {
        let template = case["template"].as_str().unwrap();
        if DIFFERENT.iter().any(|(known, _)| *known == template) {
            continue;
        }
        for is_outside in [false, true] {
            let found = render(template, &golden["variables"], is_outside);
            if found.as_ref().ok().map(String::as_str) != case["text"].as_str() {
                let found = found.map_err(|error| error.to_string());
                let wanted = case["text"].as_str().ok_or_else(|| case["error"].as_str().unwrap_or_default());
                differences.push(format!("{template:?}\n  wanted {wanted:?}\n  found  {found:?}"));
                break;
            }
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
