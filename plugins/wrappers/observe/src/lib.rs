//! Observations that are cut and masked before the agent sees them.
//!
//! Only text changes; other parts of an observation, functions and facts are passed on. Tokens are estimated: four bytes
//! of text are one token.

mod cut;
mod mask;

use gymkhana_sdk::environment::{Action, Info, Observation, ResetResult, StepResult};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper, inner_splits, only};
use gymkhana_sdk::{Error, OptionInfo, Options, Part, Task, plugin};

use cut::{Keep, cut};
use mask::Mask;

/// Bytes of text that count as one token.
const TOKEN_BYTES: usize = 4;
/// Text in place of observations after the budget of tokens.
const OMITTED: &str = "[observation omitted: the budget of tokens is used up]";

/// Option values of the run.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    /// Largest number of characters of one text; 0 for any number.
    characters: usize,
    keep: Keep,
    /// Largest number of tokens of all observations of a seat; 0 for any number.
    tokens: u64,
    mask: Mask,
    replacement: String,
}

impl Settings {
    fn of(options: &Options) -> Result<Self, Error> {
        Ok(Self {
            characters: options.integer("characters") as usize,
            keep: Keep::named(options.text("keep"))?,
            tokens: options.integer("tokens") as u64,
            mask: Mask::new(options.text("mask"))?,
            replacement: options.text("replacement").to_owned(),
        })
    }
}

/// Episode: the environment inside, and the tokens that each seat has seen.
pub struct Observe {
    inner: Inner,
    settings: Settings,
    seen: Vec<u64>,
}

impl Observe {
    /// The observation as the agent sees it.
    fn shown(&mut self, Observation { seat, content }: Observation) -> Observation {
        let Self { settings, seen, .. } = self;
        let Some(seen) = seen.get_mut(seat as usize) else { return Observation { seat, content } };
        let part = |part| match part {
            Part::Text(words) => {
                let masked = settings.mask.apply(&words, &settings.replacement);
                let words = cut(&masked, settings.characters, settings.keep);
                if settings.tokens > 0 && *seen >= settings.tokens {
                    return Part::Text(OMITTED.to_owned());
                }
                // The text that reaches the budget is shown in part.
                let left = settings.tokens.saturating_sub(*seen) as usize;
                *seen += words.len().div_ceil(TOKEN_BYTES) as u64;
                let most = if settings.tokens == 0 { 0 } else { left.saturating_mul(TOKEN_BYTES) };
                Part::Text(cut(&words, most, settings.keep))
            }
            other => other,
        };
        Observation { seat, content: content.into_iter().map(part).collect() }
    }
}

impl Wrapper for Observe {
    fn info(inner: &InnerInfo) -> Info {
        let characters = "Largest number of characters of an observation's text; 0 for any number";
        let tokens = "Largest number of tokens of all observations of a seat, four bytes each; 0 for any number";
        let mask = "Patterns to mask, one a line; `*` is any text within a line, `#` a digit";
        inner
            .described(format!("{}; observations are cut and masked", inner.summary()))
            .option(OptionInfo::new("characters", characters, 0).within(0.0, 1e9))
            .option(OptionInfo::new("keep", "Part of a long text that is kept", "start").one_of(&Keep::NAMES))
            .option(OptionInfo::new("tokens", tokens, 0).within(0.0, 1e9))
            .option(OptionInfo::new("mask", mask, ""))
            .option(OptionInfo::new("replacement", "Text in place of what is masked", "[masked]"))
    }

    fn splits(options: &Options) -> Result<Vec<gymkhana_sdk::environment::Split>, Error> {
        Settings::of(options)?;
        inner_splits()
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        let settings = Settings::of(options)?;
        let (inner, mut started) = Inner::reset(task, seed)?;
        let mut episode = Self { inner, settings, seen: vec![0; InnerInfo::read().seats().len()] };
        started.observations = started.observations.into_iter().map(|shown| episode.shown(shown)).collect();
        Ok((episode, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        let mut stepped = self.inner.step(&action)?;
        stepped.observations = stepped.observations.into_iter().map(|shown| self.shown(shown)).collect();
        Ok(stepped)
    }

    fn inner(&self) -> &Inner {
        &self.inner
    }

    fn snapshot(&self) -> Vec<u8> {
        let Settings { characters, keep, tokens, mask, replacement } = &self.settings;
        let settings = Writer::new().integer(*characters as u64).integer(*keep as u64).integer(*tokens);
        let head = settings.text(mask.text()).text(replacement).integer(self.seen.len() as u64);
        self.seen.iter().fold(head, |writer, seen| writer.integer(*seen)).finish()
    }

    fn restore(state: &[u8], inner: Vec<Inner>) -> Result<Self, Error> {
        let mut reader = Reader::new(state);
        let characters = usize::try_from(reader.integer()?).unwrap_or(usize::MAX);
        let (keep, tokens) = (Keep::read(&mut reader)?, reader.integer()?);
        let mask = Mask::new(reader.text()?).map_err(|_| Error::bad_snapshot("the snapshot's mask is invalid"))?;
        let replacement = reader.text()?.to_owned();
        let seen = (0..reader.integer()?).map(|_| reader.integer()).collect::<Result<_, Error>>()?;
        reader.end()?;
        let settings = Settings { characters, keep, tokens, mask, replacement };
        Ok(Self { inner: only(inner)?, settings, seen })
    }
}

plugin! { wrapper: Observe }
