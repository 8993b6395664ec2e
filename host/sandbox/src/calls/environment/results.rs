//! Actions and results of an environment: their types, and their checks against the contract and the environment's
//! description.

use std::collections::BTreeSet;

use gymkhana_record::{Call, Content, NamedValue, Opening, Part, SeatFunctions};
use serde::{Deserialize, Serialize};

use crate::bindings::exports::gymkhana::plugin::{environment, environment_oracle, environment_render};
use crate::{EnvironmentInfo, convert, info};

/// Action of the seat to move.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    /// Message without a call of the environment's functions.
    Message(&'a [Part]),
    /// Call of a function that the environment offered to this seat.
    Call(&'a Call),
    /// Anything else.
    Other(&'a [Part]),
}

/// Next turn of the expert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// A message.
    Message(String),
    /// Calls in one turn. Ids are empty.
    Calls(Vec<Call>),
}

/// Rendering of a state for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Image {
    /// Plain text.
    Text(String),
    /// SVG.
    Svg(String),
    /// Another format, described in text.
    Other(String),
}

/// Start of an episode: result of the contract's `reset`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetResult {
    /// Initial observations, offered functions and tool set-ups.
    pub opening: Opening,
    /// Seat to move.
    pub seat: u32,
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// Observations: seat and content.
    pub observations: Vec<(u32, Content)>,
    /// Rewards: seat and reward.
    pub rewards: Vec<(u32, f64)>,
    /// Whether the episode has terminated.
    pub terminated: bool,
    /// Whether the episode was truncated.
    pub truncated: bool,
    /// Facts for records and rewards; policies do not receive them.
    pub extras: Vec<NamedValue>,
    /// Seat to move; any number after the end of the episode.
    pub seat: u32,
}

pub(crate) fn accept_reset(
    result: environment::ResetResult,
    info: &EnvironmentInfo,
) -> Result<(u32, ResetResult), String> {
    let environment::ResetResult { episode, observations, functions, tool_setups, next_seat: seat } = result;
    check_seat(seat, info)?;
    if !observations.iter().any(|observation| observation.seat == seat) {
        return Err(format!("seat {seat} is to move and received no observation"));
    }
    let mut offered = BTreeSet::new();
    let functions = functions.into_iter().map(|offer| {
        check_seat(offer.seat, info)?;
        if !offered.insert(offer.seat) {
            return Err(format!("it lists the functions of seat {} twice", offer.seat));
        }
        Ok(SeatFunctions { seat: offer.seat, functions: info::functions(offer.functions)? })
    });
    let opening = Opening {
        functions: functions.collect::<Result<_, String>>()?,
        setup: tool_setups.into_iter().map(|setup| (setup.tool, setup.bytes)).collect(),
        observations: accept_observations(observations, info)?,
    };
    Ok((episode, ResetResult { opening, seat }))
}

pub(crate) fn accept_step(
    result: environment::StepResult,
    info: &EnvironmentInfo,
    totals: &mut [f64],
) -> Result<StepResult, String> {
    let environment::StepResult { observations, rewards, terminated, truncated, extras, next_seat: seat } = result;
    let over = terminated || truncated;
    if !over {
        check_seat(seat, info)?;
    }
    let mut earned = if rewards.is_empty() { Vec::new() } else { vec![0.0; totals.len()] };
    for environment::SeatReward { seat, reward } in &rewards {
        check_seat(*seat, info)?;
        let (earned, total) = (&mut earned[*seat as usize], &mut totals[*seat as usize]);
        *earned += reward;
        *total += reward;
        // A sum in range does not bound its parts, and huge parts would make advantages infinite.
        if let Some(wrong) = [*reward, *earned, *total].iter().find(|number| !info.rewards.allows_part(**number)) {
            return Err(format!("seat {seat} earned {wrong} before the end, too much for the range {}", info.rewards));
        }
    }
    if over {
        check_totals(totals, info)?;
    }
    Ok(StepResult {
        observations: accept_observations(observations, info)?,
        rewards: rewards.into_iter().map(|reward| (reward.seat, reward.reward)).collect(),
        terminated,
        truncated,
        extras: convert::named_values(extras)?,
        seat,
    })
}

fn accept_observations(
    observations: Vec<environment::Observation>,
    info: &EnvironmentInfo,
) -> Result<Vec<(u32, Content)>, String> {
    for observation in &observations {
        check_seat(observation.seat, info)?;
    }
    Ok(observations.into_iter().map(|seen| (seen.seat, convert::content(seen.content))).collect())
}

pub(crate) fn check_totals(totals: &[f64], info: &EnvironmentInfo) -> Result<(), String> {
    match totals.iter().position(|total| !info.rewards.contains(*total)) {
        Some(seat) => Err(format!("seat {seat} earned {} in total, outside the range {}", totals[seat], info.rewards)),
        None => Ok(()),
    }
}

fn check_seat(seat: u32, info: &EnvironmentInfo) -> Result<(), String> {
    let seats = info.seats.len();
    if (seat as usize) < seats {
        Ok(())
    } else {
        Err(format!("seat {seat} does not exist; the environment has {seats}"))
    }
}

pub(crate) fn accept_advice(advice: environment_oracle::Advice) -> Advice {
    match advice {
        environment_oracle::Advice::Message(text) => Advice::Message(text),
        environment_oracle::Advice::Calls(calls) => Advice::Calls(convert::calls(calls)),
    }
}

pub(crate) fn accept_image(image: environment_render::Picture) -> Image {
    match image {
        environment_render::Picture::Text(text) => Image::Text(text),
        environment_render::Picture::Svg(text) => Image::Svg(text),
        environment_render::Picture::Other(text) => Image::Other(text),
    }
}
