//! Success, and a little more for short episodes: most of the point for what the environment calls a success, the rest
//! shrinks with each message.
//!
//! Replace the rule by your own. What the host relies on: one score for each seat that made a turn, inside the range
//! that Cargo.toml states, with the components in the order in which `info` declares them.

use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory, Turn, each_seat};
use gymkhana_sdk::{Error, OptionInfo, Options, Value, plugin};

/// The reward.
pub struct ShortSuccess;

impl Reward for ShortSuccess {
    fn info() -> Info {
        Info::new("1 for a success in one message, less for each message more, 0 for a failure")
            .component("success", "1 when the environment says so, else 0")
            .component("messages", "messages of the seat")
            .option(OptionInfo::new("brevity", "The share of the point that messages cost", 0.2).within(0.0, 1.0))
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let brevity = options.number("brevity");
        each_seat(group, |trajectory, seat| {
            let success = f64::from(u8::from(succeeded(trajectory)));
            let messages = messages(trajectory, seat) as f64;
            // One message costs nothing, and however many there are, they cost no more than the share.
            let total = success * (1.0 - brevity * (1.0 - 1.0 / messages.max(1.0)));
            Ok(Score::new(seat, total).component("success", success).component("messages", messages))
        })
    }
}

/// What the environment said last of `success`.
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
