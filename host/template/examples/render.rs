//! Renders templates for comparisons with other implementations. Reads lines of JSON with `template` and `variables`;
//! writes a line of JSON with `text` or `error` for each.

use std::io::{BufRead as _, Write as _};

use gymkhana_template::{Limits, Template, Value};
use serde_json::{Value as Json, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let case: Json = serde_json::from_str(&line?)?;
        let result = match render(&case) {
            Ok(text) => json!({ "text": text }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        writeln!(output, "{result}")?;
    }
    Ok(())
}

/// The text of a case. Each string of its variables is a source of its own, so that origins are followed, too.
fn render(case: &Json) -> Result<String, Box<dyn std::error::Error>> {
    let template = Template::parse(case["template"].as_str().unwrap_or_default())?;
    let mut sources = 0;
    let mut next = |_: &str| {
        sources += 1;
        sources
    };
    let variables = case["variables"].as_object().into_iter().flatten();
    let variables = variables.map(|(name, value)| (name.clone(), Value::from_json_outside(value, &mut next)));
    let rendering = template.render(variables.collect(), &Limits::default())?;
    Ok(rendering.text.as_str().to_owned())
}
