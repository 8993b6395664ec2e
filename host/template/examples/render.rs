//! Renders templates for comparisons with other implementations. Reads lines of JSON with `template` and `variables`;
//! writes a line of JSON for each: `error`, or `text`, `pieces` (text, number of the source or null, form) and `inspected`
//! sources. Each string and key of the variables is a source of its own, numbered from 1 in the order of the JSON text.

use std::io::{BufRead as _, Write as _};

use gymkhana_template::{Origin, RenderLimits, Template, Value};
use serde_json::{Value as Json, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let case: Json = serde_json::from_str(&line?)?;
        let result = match render(&case) {
            Ok(result) => result,
            Err(error) => json!({ "error": error.to_string() }),
        };
        writeln!(output, "{result}")?;
    }
    Ok(())
}

/// The result of a case.
fn render(case: &Json) -> Result<Json, Box<dyn std::error::Error>> {
    let template = Template::parse(case["template"].as_str().unwrap_or_default())?;
    let mut sources = 0;
    let mut next = |_: &str| {
        sources += 1;
        sources
    };
    let variables = case["variables"].as_object().into_iter().flatten();
    let variables = variables.map(|(name, value)| (name.clone(), Value::from_json_outside(value, &mut next)));
    let rendering = template.render(variables.collect(), &RenderLimits::default())?;
    let pieces = rendering.text.pieces().map(|piece| match piece.origin {
        Origin::Template => json!([piece.text, null, null]),
        Origin::Source(source) => json!([piece.text, source, format!("{:?}", piece.form)]),
    });
    let pieces: Vec<Json> = pieces.collect();
    Ok(json!({ "text": rendering.text.as_str(), "pieces": pieces, "inspected": rendering.inspected_sources }))
}
