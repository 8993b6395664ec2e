//! A wrapper that counts the turns of the environment inside, says the count, and ends an episode with too many.

use gymkhana_sdk::environment::{Action, Info, ResetResult, StepResult};
use gymkhana_sdk::wrapper::{Episode, Inner, InnerInfo, Wrapper};
use gymkhana_sdk::{Error, PluginOptions, Task, plugin, text};

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Most turns of an episode
    #[option(default = 20, range = 1..=1000)]
    most: u64,
}

impl Options {
    /// Words about the turns that are left.
    fn words(&self, used: u64) -> String {
        format!("[{} of {} turns left]", self.most.saturating_sub(used), self.most)
    }
}

/// The wrapper.
pub struct Counting;

impl Wrapper for Counting {
    type Options = Options;
    /// Turns so far. The SDK keeps it beside the options and the episode inside.
    type State = u64;

    fn info(inner: &InnerInfo) -> Info {
        inner.described(format!("{}; turns are counted", inner.summary()))
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(u64, Vec<Inner>, ResetResult), Error> {
        let (inner, result) = Inner::reset(task, seed)?;
        let seat = result.next_seat;
        Ok((0, vec![inner], result.show(seat, text(options.words(0)))))
    }

    fn step(episode: &mut Episode<Self>, action: Action) -> Result<StepResult, Error> {
        let result = episode.inner().step(&action)?;
        episode.state += 1;
        if result.terminated || result.truncated {
            return Ok(result);
        }
        if episode.state >= episode.options.most {
            return Ok(result.truncate());
        }
        let (seat, words) = (result.next_seat, episode.options.words(episode.state));
        Ok(result.show(seat, text(words)))
    }
}

plugin! { wrapper: Counting }

// The environment inside exists in a host alone: `host plugin test --with ENVIRONMENT.wasm` runs around one.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_left_are_told() {
        let options = Options { most: 3 };
        assert_eq!(options.words(0), "[3 of 3 turns left]");
        assert_eq!(options.words(2), "[1 of 3 turns left]");
        assert_eq!(options.words(9), "[0 of 3 turns left]");
    }
}
