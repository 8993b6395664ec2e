//! Reward for success that prefers short episodes: each additional message reduces it.
//!
//! Replace this rule by your own. The host relies on three properties: each seat that made a turn has one score, scores
//! stay inside the range of Cargo.toml, and components follow the declaration order of `info`.

use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory, Turn, each_seat};
use gymkhana_sdk::{Error, PluginOptions, Value, plugin};

/// Options that a run file may set. Their descriptions are the doc comments.
#[derive(PluginOptions)]
pub struct Options {
    /// Maximum cost of additional messages, in points
    #[option(default = 0.2, range = 0.0..=1.0)]
    brevity: f64,
}

/// Reward for success, reduced by the number of messages.
pub struct ShortSuccess;

impl Reward for ShortSuccess {
    type Options = Options;

    fn info() -> Info {
        Info::new("1 for success in one message, less for each additional message, 0 for failure")
            .component("success", "1 if the environment reports success, else 0")
            .component("messages", "number of messages of the seat")
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let &Options { brevity } = options;
        each_seat(group, |trajectory, seat| {
            let success = f64::from(u8::from(succeeded(trajectory)));
            let messages = messages(trajectory, seat) as f64;
            // The first message is free, and further messages cost at most `brevity` in total.
            let total = success * (1.0 - brevity * (1.0 - 1.0 / messages.max(1.0)));
            Ok(Score::new(seat, total).component("success", success).component("messages", messages))
        })
    }
}

/// Whether the environment's last step reported `success`.
fn succeeded(trajectory: &Trajectory) -> bool {
    trajectory.extras.iter().any(|extra| extra.name == "success" && matches!(extra.value, Value::Flag(true)))
}

fn messages(trajectory: &Trajectory, seat: u32) -> usize {
    trajectory.turns.iter().filter(|turn| matches!(turn, Turn::Message(said) if said.seat == seat)).count()
}

plugin! { reward: ShortSuccess }

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_sdk::reward::{Ending, SeatMessage, score};
    use gymkhana_sdk::{Task, named, text};

    fn total(messages: usize, success: bool) -> f64 {
        let said = |_| Turn::Message(SeatMessage { seat: 0, content: text("yes") });
        let trajectory = Trajectory {
            task: Task { split: "train".to_owned(), index: 0 },
            turns: (0..messages).map(said).collect(),
            ending: Ending::Terminated,
            environment_rewards: vec![],
            extras: vec![named("success", success)],
            privileged: vec![],
            views: vec![],
        };
        let scores = score::<ShortSuccess>(&[trajectory], vec![], 0).expect("nothing is lacking");
        scores[0][0].total
    }

    #[test]
    fn short_successes_are_worth_most() {
        assert_eq!(total(1, true), 1.0);
        assert_eq!(total(2, true), 0.9);
        assert_eq!(total(1, false), 0.0);
        assert!(total(100, true) > 0.8);
    }
}
