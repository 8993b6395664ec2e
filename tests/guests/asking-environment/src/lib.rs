//! Conversation with a user simulated by a model: the agent's messages go to the model, and its replies come back.

use gymkhana_sdk::environment::{Action, Advice, Environment, Info, Oracle, ResetResult, Split, StepResult};
use gymkhana_sdk::model::{self, Message, Role};
use gymkhana_sdk::{Error, Task, plugin, text};

/// Messages so far, in the model's view, where the agent is the user.
pub struct AskingEnvironment {
    messages: Vec<Message>,
}

impl AskingEnvironment {
    /// Requests a reply of the simulated user.
    fn user_says(&mut self) -> Result<String, Error> {
        let messages = self.messages.clone();
        let reply = model::complete(&model::Request { messages, max_tokens: 50, temperature: 0.0, stop: vec![] })?;
        self.messages.push(Message { role: Role::Assistant, content: text(reply.text.clone()) });
        Ok(reply.text)
    }
}

impl Environment for AskingEnvironment {
    type Options = ();

    fn info() -> Info {
        Info::new("A conversation with a simulated user", ["agent"]).reward_range(0.0, 1.0)
    }

    fn splits(_options: &()) -> Result<Vec<Split>, Error> {
        Ok(vec![Split::endless("train"), Split::of("test", 8)])
    }

    fn reset(task: &Task, _options: &(), _seed: u64) -> Result<(Self, ResetResult), Error> {
        let wish = format!("You want a table for {}. Say `thanks` once you have it.", task.index + 2);
        let mut started = Self { messages: vec![Message { role: Role::System, content: text(wish) }] };
        let words = started.user_says()?;
        Ok((started, ResetResult::default().show(0, text(words)).next_seat(0)))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.messages.push(Message { role: Role::User, content: text(action.text()) });
        let words = self.user_says()?;
        let served = words.contains("thanks");
        let stepped = StepResult::new().show(0, text(words)).next_seat(0);
        Ok(if served { stepped.reward_to(0, 1.0).extra("success", true).end() } else { stepped })
    }
}

/// The oracle also calls the model.
impl Oracle for AskingEnvironment {
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        let messages = self.messages.clone();
        let request = model::Request { messages, max_tokens: 5, temperature: 0.0, stop: vec![] };
        Ok(Advice::Message(format!("as {} would", model::complete(&request)?.text)))
    }
}

plugin! { environment: AskingEnvironment { oracle } }
