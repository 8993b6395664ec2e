//! Functions: their parameters are a JSON Schema, and matching arguments are answered.

use std::collections::BTreeSet;

use gymkhana_record::Function;
use serde_json::Value;

use crate::action::call;
use crate::driver::{Driver, Start};
use crate::examples::{Examples, SchemaError};
use crate::finding::{Finding, Stop, passed, short, skipped, stop};
use crate::fixture::Fixture;
use crate::path::Path;

/// Examples per function.
const EXAMPLES: usize = 12;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let starts = fixture.starts();
    if starts.is_empty() {
        return skipped(fixture.nothing_to_play());
    }
    let (mut names, mut calls, mut failures) = (BTreeSet::new(), 0, 0);
    for start in &starts {
        let (_, driver) = begin(fixture, start, 0).await?;
        let functions: Vec<Function> = driver.functions().to_vec();
        if driver.is_session() && functions.is_empty() {
            return Err(stop("the tool offers no function", "offer at least one in `functions`"));
        }
        for function in functions {
            let examples = schema(&function)?;
            if names.insert(function.name.clone()) {
                let (made, failed) = try_examples(fixture, start, &function, &examples).await?;
                (calls, failures) = (calls + made, failures + failed);
            }
        }
    }
    if names.is_empty() {
        return skipped("it does not offer functions");
    }
    let names: Vec<String> = names.into_iter().collect();
    let names = names.join(", ");
    passed(format!("{names}: {calls} calls made from the JSON Schemas were answered, {failures} of them as failed"))
}

async fn begin(fixture: &Fixture, start: &Start, number: usize) -> Result<(Path, Driver), Stop> {
    Path::begin(fixture, &fixture.plugin, start, &fixture.options, fixture.seed("parameters").child(number)).await
}

/// Parses a function's schema, which must describe an object and each of its properties.
fn schema(function: &Function) -> Result<Examples, Stop> {
    let name = &function.name;
    let examples = Examples::of(&function.parameters).map_err(|error| {
        let hint = match error {
            SchemaError::Invalid(_) => "write them as JSON Schema",
            SchemaError::TooLarge => "lower `minItems` and `minLength`, or require fewer parts",
        };
        stop(format!("the parameters of `{name}`: {error}"), hint)
    })?;
    if examples.schema().get("type").and_then(Value::as_str) != Some("object") {
        let seen = format!("the parameters of `{name}` are not of type `object`");
        return Err(stop(
            seen,
            "write {\"type\": \"object\", \"properties\": {…}}, because calls have named arguments",
        ));
    }
    let properties = examples.schema().get("properties").and_then(Value::as_object);
    let lacking =
        examples.required().into_iter().find(|name| !properties.is_some_and(|known| known.contains_key(name)));
    if let Some(lacking) = lacking {
        let seen = format!("`{name}` requires the argument `{lacking}`, which its `properties` lack");
        return Err(stop(seen, "describe it under `properties`, or remove it from `required`"));
    }
    Ok(examples)
}

/// Makes calls with arguments that the schema allows. Returns the number of calls and of failed ones. A call may fail,
/// because a schema does not express every rule about a text.
async fn try_examples(
    fixture: &Fixture,
    start: &Start,
    function: &Function,
    examples: &Examples,
) -> Result<(usize, usize), Stop> {
    let mut stream = fixture.seed("examples").child(&function.name).stream();
    let (mut made, mut failures) = (0, 0);
    for number in (0..EXAMPLES).filter(|number| fixture.makes(*number)) {
        let Some(arguments) = examples.make(&mut stream) else { continue };
        made += 1;
        let (mut path, mut driver) = begin(fixture, start, number).await?;
        path.act(fixture, &mut driver, call(&function.name, arguments.to_string())).await?;
        failures += usize::from(driver.failed);
        if driver.is_session() && driver.shown.trim().is_empty() {
            let seen = format!("`{}` gives an empty answer to {}", function.name, short(&arguments.to_string()));
            return Err(stop(seen, "answer with a text, even if only that it is done: agents read only text"));
        }
    }
    Ok((made, failures))
}
