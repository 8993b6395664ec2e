//! Observations that are cut and masked before the agent sees them.
//!
//! Only text changes; other parts of an observation, functions and facts are passed on. Tokens are estimated: four bytes
//! of text are one token.

mod cut;
mod mask;

use gymkhana_sdk::environment::{Action, Info, Observation, ResetResult, Split, StepResult};
use gymkhana_sdk::wrapper::{Episode, Inner, InnerInfo, Wrapper, inner_splits};
use gymkhana_sdk::{Error, Part, PluginOptions, Task, plugin};

use cut::{Keep, cut};
use mask::Mask;

/// Bytes of text that count as one token.
const TOKEN_BYTES: usize = 4;
/// Text in place of observations after the budget of tokens.
const OMITTED: &str = "[observation omitted: the budget of tokens is used up]";

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Largest number of characters of an observation's text; 0 for any number
    #[option(default = 0, range = 0..=1_000_000_000)]
    characters: usize,
    /// Part of a long text that is kept
    #[option(default = Keep::Start)]
    keep: Keep,
    /// Largest number of tokens of all observations of a seat, four bytes each; 0 for any number
    #[option(default = 0, range = 0..=1_000_000_000)]
    tokens: u64,
    /// Patterns to mask, one a line; `*` is any text within a line, `#` a digit
    #[option(default = "")]
    mask: String,
    /// Text in place of what is masked
    #[option(default = "[masked]")]
    replacement: String,
}

impl Options {
    /// Observations as the agent sees them. `seen` counts the tokens that each seat has seen.
    fn shown(&self, all: Vec<Observation>, seen: &mut [u64]) -> Result<Vec<Observation>, Error> {
        let mask = Mask::new(&self.mask)?;
        let shown = |Observation { seat, content }| {
            let Some(seen) = seen.get_mut(seat as usize) else { return Observation { seat, content } };
            let part = |part| match part {
                Part::Text(words) => Part::Text(self.shown_text(&mask.apply(&words, &self.replacement), seen)),
                other => other,
            };
            Observation { seat, content: content.into_iter().map(part).collect() }
        };
        Ok(all.into_iter().map(shown).collect())
    }

    /// A masked text as the agent sees it.
    fn shown_text(&self, masked: &str, seen: &mut u64) -> String {
        let words = cut(masked, self.characters, self.keep);
        if self.tokens > 0 && *seen >= self.tokens {
            return OMITTED.to_owned();
        }
        // The text that reaches the budget is shown in part.
        let left = self.tokens.saturating_sub(*seen) as usize;
        *seen += words.len().div_ceil(TOKEN_BYTES) as u64;
        let most = if self.tokens == 0 { 0 } else { left.saturating_mul(TOKEN_BYTES) };
        cut(&words, most, self.keep)
    }
}

/// Cut and masked observations. The state of an episode is the number of tokens that each seat has seen.
pub struct Observe;

impl Wrapper for Observe {
    type Options = Options;
    type State = Vec<u64>;

    fn info(inner: &InnerInfo) -> Info {
        inner.described(format!("{}; observations are cut and masked", inner.summary()))
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        Mask::new(&options.mask)?;
        inner_splits()
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Vec<u64>, Vec<Inner>, ResetResult), Error> {
        let (inner, mut result) = Inner::reset(task, seed)?;
        let mut seen = vec![0; InnerInfo::read().seats().len()];
        result.observations = options.shown(result.observations, &mut seen)?;
        Ok((seen, vec![inner], result))
    }

    fn step(episode: &mut Episode<Self>, action: Action) -> Result<StepResult, Error> {
        let mut result = episode.inner().step(&action)?;
        result.observations = episode.options.shown(result.observations, &mut episode.state)?;
        Ok(result)
    }
}

plugin! { wrapper: Observe }
