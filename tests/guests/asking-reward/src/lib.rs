//! Reward that checks an answer with the calculator and asks a judge model.

use gymkhana_sdk::model::{self, Message, Role};
use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory, each_seat};
use gymkhana_sdk::tools;
use gymkhana_sdk::{Call, Error, plugin, text};

/// Half of the total for an answer that the tool confirms, half for the judge's opinion.
pub struct AskingReward;

impl Reward for AskingReward {
    type Options = ();

    fn info() -> Info {
        Info::new("Checks an answer with a tool and a judge model")
            .component("confirmed", "1 if the calculator says 42")
            .component("liked", "1 if the judge says yes")
    }

    fn score(group: &[Trajectory], _options: &(), _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        each_seat(group, |trajectory, seat| {
            let said = trajectory.last_message(seat).map(|(_, text)| text).unwrap_or_default();
            let confirmed = f64::from(u8::from(calculate(&said)? == "42"));
            let liked = f64::from(u8::from(judge(&said)?.starts_with("yes")));
            let total = (confirmed + liked) / 2.0;
            Ok(Score::new(seat, total).component("confirmed", confirmed).component("liked", liked))
        })
    }
}

/// Calculator's result of an expression.
fn calculate(expression: &str) -> Result<String, Error> {
    let Some(function) = tools::functions().into_iter().find(|function| function.name == "calculate") else {
        return Err(Error::NotFound("no tool calculates".to_owned()));
    };
    let expression = expression.replace(['"', '\\'], "");
    let arguments = format!("{{\"expression\": \"{expression}\"}}");
    let answer = tools::call(&Call { id: "check".to_owned(), name: function.name, arguments })?;
    Ok(gymkhana_sdk::text_of(&answer.content))
}

fn judge(answer: &str) -> Result<String, Error> {
    let message = Message { role: Role::User, content: text(answer) };
    let request = model::Request { messages: vec![message], max_tokens: 5, temperature: 0.0, stop: vec![] };
    Ok(model::complete(&request)?.text)
}

plugin! { reward: AskingReward }
