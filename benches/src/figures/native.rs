//! The echo guest's code, called natively.

use anyhow::{Result, anyhow};
use guest_echo::Echo;
use gymkhana_record::{Part, text_of};
use gymkhana_sandbox::StepResult;
use gymkhana_sdk::environment::{self, Episode};

/// A step as a native trait call.
pub trait NativeEnvironment {
    /// Acts for a seat.
    ///
    /// # Errors
    /// If the environment refuses the action.
    fn step(&mut self, seat: u32, message: &[Part]) -> Result<StepResult>;
}

impl NativeEnvironment for Episode<Echo> {
    fn step(&mut self, seat: u32, message: &[Part]) -> Result<StepResult> {
        let body = environment::ActionBody::Message(gymkhana_sdk::text(text_of(message)));
        let stepped = Episode::step(self, environment::Action { seat, body }).map_err(|error| anyhow!("{error}"))?;
        let content = |content: gymkhana_sdk::Content| vec![Part::Text(gymkhana_sdk::text_of(&content))];
        Ok(StepResult {
            observations: stepped.observations.into_iter().map(|seen| (seen.seat, content(seen.content))).collect(),
            rewards: stepped.rewards.into_iter().map(|earned| (earned.seat, earned.reward)).collect(),
            terminated: stepped.terminated,
            truncated: stepped.truncated,
            extras: Vec::new(),
            seat: stepped.next_seat,
        })
    }
}

/// An episode of the echo environment behind a trait object.
///
/// # Errors
/// If it does not start.
pub fn echo() -> Result<Box<dyn NativeEnvironment>> {
    let task = gymkhana_sdk::Task { split: "train".to_owned(), index: 0 };
    let (echo, _) = Episode::<Echo>::reset(&task, Vec::new(), 1).map_err(|error| anyhow!("{error}"))?;
    Ok(std::hint::black_box(Box::new(echo)))
}
