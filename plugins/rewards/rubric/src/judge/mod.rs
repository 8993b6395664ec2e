//! Items that a model judges, with its cost and the disagreement between its judgements.
//!
//! An item about the whole episode is one question with a bare verdict. Items about turns or thoughts are asked
//! together, and the model answers with JSON. Each prompt quotes the agent's texts between lines with 128 random bits of
//! the host's stream. The agent cannot know the bits, so it cannot close the quotation and continue in the role of the
//! user. This separates roles, but does not protect a judge from persuasion: with enough training, an agent finds texts
//! that persuade it. Monitor judged items, and use rules where possible.

mod prompt;
mod verdict;

use gymkhana_sdk::Error;
use gymkhana_sdk::model::{Reply, Request};

use crate::checklist::{Item, Rule};
pub use prompt::Block;

/// Source of replies: the run's model, or a test.
pub type Ask<'a> = &'a mut dyn FnMut(&Request) -> Result<Reply, Error>;

/// Settings of a judge.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Maximum length of the quoted texts in a prompt, in bytes.
    pub quote_bytes: usize,
    /// Number of judgements of which the mean counts; at least 1.
    pub judges: u32,
    /// Number of further requests after a reply without a verdict.
    pub retries: u32,
    /// Sampling temperature.
    pub temperature: f32,
}

/// Requests and verdicts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Account {
    /// Number of replies of the model.
    pub calls: u32,
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Tokens of the replies.
    pub reply_tokens: u64,
    /// Number of verdicts; several judgements give one verdict.
    verdicts: u32,
    /// Sum of the standard deviations between the judgements of a verdict.
    deviation: f64,
    /// Number of verdicts on whose two sides judgements are.
    disputed: u32,
}

impl Account {
    /// Mean standard deviation between the judgements of a verdict, from 0 to 0.5; 0 without verdicts.
    pub fn disagreement(&self) -> f64 {
        self.deviation / f64::from(self.verdicts.max(1))
    }

    /// Share of the verdicts for which some judgements are at least 0.5 and others are not.
    pub fn disputed(&self) -> f64 {
        f64::from(self.disputed) / f64::from(self.verdicts.max(1))
    }

    /// Adds the judgements of one verdict and returns their mean.
    fn settle(&mut self, judgements: &[f64]) -> f64 {
        let count = judgements.len() as f64;
        let mean = judgements.iter().sum::<f64>() / count;
        let variance = judgements.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
        let holding = judgements.iter().filter(|one| **one >= 0.5).count();
        self.verdicts += 1;
        self.deviation += variance.sqrt();
        self.disputed += u32::from(holding > 0 && holding < judgements.len());
        mean
    }
}

/// A model that judges.
pub struct Judge<'a> {
    ask: Ask<'a>,
    settings: Settings,
    account: Account,
}

impl<'a> Judge<'a> {
    /// A judge without requests so far.
    pub fn new(ask: Ask<'a>, settings: Settings) -> Self {
        Self { ask, settings, account: Account::default() }
    }

    /// Account since the last call of this function.
    pub fn take_account(&mut self) -> Account {
        std::mem::take(&mut self.account)
    }

    /// Degree to which an item about the whole episode is met, from 0 to 1.
    ///
    /// # Errors
    /// Errors of the model (failed or denied), and replies other than a verdict.
    pub fn whole(&mut self, item: &Item, said: &str) -> Result<f64, Error> {
        let Settings { quote_bytes, temperature, .. } = self.settings;
        let prompt = || prompt::whole(item, said, quote_bytes, temperature);
        let read = |text: &str| {
            let verdict = match item.rule {
                Rule::Grade(_) => verdict::grade(text),
                _ => verdict::yes_or_no(text),
            };
            let refused = || format!("the model replied `{}`, not {}", verdict::start(text), prompt::answers(item));
            verdict.map(|verdict| vec![verdict]).ok_or_else(refused)
        };
        let agreed = self.agreed(prompt, read).map_err(|error| named(&[item], error))?;
        Ok(agreed[0])
    }

    /// Degrees to which each of the items is met in each of the numbered parts of the quoted conversation: one list per
    /// item, in order, with one number per part.
    ///
    /// # Errors
    /// Errors of the model (failed or denied), and replies without a verdict on each item and part.
    pub fn parts(&mut self, items: &[&Item], quoted: &[Block], parts: usize) -> Result<Vec<Vec<f64>>, Error> {
        let Settings { quote_bytes, temperature, .. } = self.settings;
        let prompt = || prompt::parts(items, quoted, parts, quote_bytes, temperature);
        let read = |text: &str| verdict::table(text, items, parts).map(|table| table.concat());
        let agreed = self.agreed(prompt, read).map_err(|error| named(items, error))?;
        Ok(agreed.chunks(parts.max(1)).map(<[f64]>::to_vec).collect())
    }

    /// Mean of the judgements, for each verdict.
    fn agreed(
        &mut self,
        prompt: impl Fn() -> Request,
        read: impl Fn(&str) -> Result<Vec<f64>, String>,
    ) -> Result<Vec<f64>, Error> {
        let mut judgements: Vec<Vec<f64>> = Vec::new();
        for _ in 0..self.settings.judges.max(1) {
            judgements.push(self.usable(&prompt, &read)?);
        }
        let verdicts = judgements[0].len();
        let of = |place: usize| judgements.iter().map(|one| one[place]).collect::<Vec<_>>();
        Ok((0..verdicts).map(|place| self.account.settle(&of(place))).collect())
    }

    /// First usable reply, within the limit of retries. Each request has a new fence.
    fn usable(
        &mut self,
        prompt: impl Fn() -> Request,
        read: impl Fn(&str) -> Result<Vec<f64>, String>,
    ) -> Result<Vec<f64>, Error> {
        let mut retries = self.settings.retries;
        loop {
            let reply = (self.ask)(&prompt())?;
            self.account.calls += 1;
            self.account.prompt_tokens += u64::from(reply.usage.prompt_tokens);
            self.account.reply_tokens += u64::from(reply.usage.completion_tokens);
            match read(&reply.text) {
                Ok(verdicts) => return Ok(verdicts),
                Err(why) if retries == 0 => return Err(Error::Other(why)),
                Err(_) => retries -= 1,
            }
        }
    }
}

/// Adds the items' names to an error.
fn named(items: &[&Item], error: Error) -> Error {
    let names: Vec<String> = items.iter().map(|item| format!("`{}`", item.name)).collect();
    let noun = if names.len() == 1 { "item" } else { "items" };
    let name = |message: String| format!("cannot judge the {noun} {}: {message}", names.join(", "));
    match error {
        Error::Denied(message) => Error::Denied(name(message)),
        Error::Invalid(message) => Error::Invalid(name(message)),
        Error::NotFound(message) => Error::NotFound(name(message)),
        Error::BadSnapshot(message) => Error::BadSnapshot(name(message)),
        Error::Other(message) => Error::Other(name(message)),
    }
}

#[cfg(test)]
mod tests;
