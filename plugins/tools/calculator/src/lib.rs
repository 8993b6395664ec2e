//! Calculator tool: exact integer and rational arithmetic.

mod expression;

use gymkhana_sdk::snapshot::Reader;
use gymkhana_sdk::tool::{Answer, Info, Snapshot, Tool};
use gymkhana_sdk::{Call, Error, Function, Parameters, plugin};

/// Stateless session.
pub struct Calculator;

impl Tool for Calculator {
    type Options = ();

    fn info() -> Info {
        Info::new("Exact integer and rational arithmetic")
    }

    fn functions(_options: &()) -> Result<Vec<Function>, Error> {
        let parameters = Parameters::new().text("expression", "such as (12+30)*45 or 7/3");
        Ok(vec![Function::new("calculate", "Exact arithmetic with + - * / ^ and parentheses.", parameters)])
    }

    fn open(_setup: Option<Vec<u8>>, _options: &(), _seed: u64) -> Result<Self, Error> {
        Ok(Self)
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        if call.name != "calculate" {
            return Ok(Answer::no_function(call));
        }
        let result = call.text("expression").and_then(|expression| expression::evaluate(&expression));
        Ok(result.into())
    }
}

impl Snapshot for Calculator {
    fn snapshot(&self) -> Vec<u8> {
        vec![]
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        Reader::new(snapshot).end()?;
        Ok(Self)
    }
}

plugin! { tool: Calculator { snapshot } }

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_sdk::text;
    use gymkhana_sdk::tool::Session;

    fn answer(arguments: &str) -> Answer {
        let mut session = Session::<Calculator>::open(None, Vec::new(), 0).expect("no options, no setup");
        session.call(&Call::advised("calculate", arguments)).expect("mistakes are answers")
    }

    #[test]
    fn calls_are_answered() {
        assert_eq!(answer(r#"{"expression": "37*84-59"}"#), Answer { content: text("3049"), failed: false });
        for wrong in ["", "{}", "[1]", r#"{"expression": 7}"#, r#"{"expression": "7+"}"#] {
            assert!(answer(wrong).failed, "{wrong}");
        }
    }
}
