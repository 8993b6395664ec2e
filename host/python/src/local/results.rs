//! Results of `gymkhana_rl._local_code` in the types of the contract. A value of another type is an exception of the
//! author's code.

use gymkhana_sandbox::unsandboxed::contract::{
    Advice, Answer, Call, Component, ComponentInfo, EnvironmentInfo, Evidence, Function, Media, NamedValue,
    Observation, OptionInfo, Part, Picture, Range, ResetResult, RewardInfo, SeatFunctions, SeatReward, SeatScore,
    SplitInfo, StepResult, ToolInfo, ToolSetup, Value,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

/// A part of a content, which extracts from a text or from kind, MIME type and bytes.
struct PartOf(Part);

/// A value, which extracts from bool, int, float, str, bytes, or a tuple with JSON text.
struct ValueOf(Value);

type Named = Vec<(String, ValueOf)>;
type SeatObservations = Vec<(u32, Vec<PartOf>)>;
type Offered = (String, String, String, f64);
type Setup = Vec<(String, Vec<u8>)>;
type OptionTuple = (String, String, ValueOf);

impl<'a, 'py> FromPyObject<'a, 'py> for PartOf {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if given.is_instance_of::<PyString>() {
            return Ok(Self(Part::Text(given.extract()?)));
        }
        let (kind, mime, bytes): (String, String, Vec<u8>) = given.extract()?;
        let media = Media { mime, bytes };
        Ok(Self(match kind.as_str() {
            "image" => Part::Image(media),
            "audio" => Part::Audio(media),
            "video" => Part::Video(media),
            _ => Part::Other(media),
        }))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for ValueOf {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // A bool is an int, too.
        Ok(Self(if given.is_instance_of::<PyBool>() {
            Value::Flag(given.extract()?)
        } else if given.is_instance_of::<PyInt>() {
            Value::Integer(given.extract()?)
        } else if given.is_instance_of::<PyFloat>() {
            Value::Number(given.extract()?)
        } else if given.is_instance_of::<PyString>() {
            Value::Text(given.extract()?)
        } else if given.is_instance_of::<PyBytes>() {
            Value::Bytes(given.extract()?)
        } else {
            let (json,): (String,) = given.extract()?;
            Value::Other(json)
        }))
    }
}

fn content(parts: Vec<PartOf>) -> Vec<Part> {
    parts.into_iter().map(|part| part.0).collect()
}

fn named(values: Named) -> Vec<NamedValue> {
    values.into_iter().map(|(name, value)| NamedValue { name, value: value.0 }).collect()
}

fn observations(seen: SeatObservations) -> Vec<Observation> {
    seen.into_iter().map(|(seat, parts)| Observation { seat, content: content(parts) }).collect()
}

fn offer(functions: Vec<Offered>) -> Vec<Function> {
    let one = |(name, description, parameters, cost)| Function { name, description, parameters, cost };
    functions.into_iter().map(one).collect()
}

fn declared(options: Vec<OptionTuple>) -> Vec<OptionInfo> {
    let one = |(name, description, default): OptionTuple| OptionInfo { name, description, default: default.0 };
    options.into_iter().map(one).collect()
}

fn range((low, high): (f64, f64)) -> Range {
    Range { low, high }
}

/// Summary, seats, options and range of rewards.
pub fn environment_info(given: Given<'_, '_>) -> PyResult<EnvironmentInfo> {
    let (summary, seats, options, rewards): (_, _, Vec<OptionTuple>, _) = given.extract()?;
    Ok(EnvironmentInfo { summary, seats, options: declared(options), reward_range: range(rewards) })
}

/// Name and number of tasks of each split.
pub fn splits(given: Given<'_, '_>) -> PyResult<Vec<SplitInfo>> {
    let splits: Vec<(String, Option<u64>)> = given.extract()?;
    Ok(splits.into_iter().map(|(name, tasks)| SplitInfo { name, tasks }).collect())
}

/// Handle, observations, functions, set-up of tools and seat to move.
pub fn reset_result(given: Given<'_, '_>) -> PyResult<ResetResult> {
    let (episode, seen, functions, setup, seat): (_, _, Vec<(u32, Vec<Offered>)>, Setup, _) = given.extract()?;
    Ok(ResetResult {
        episode,
        observations: observations(seen),
        functions: functions.into_iter().map(|(seat, own)| SeatFunctions { seat, functions: offer(own) }).collect(),
        tool_setups: setup.into_iter().map(|(tool, bytes)| ToolSetup { tool, bytes }).collect(),
        next_seat: seat,
    })
}

/// Observations, rewards, end, facts and seat to move.
pub fn step_result(given: Given<'_, '_>) -> PyResult<StepResult> {
    let (seen, rewards, terminated, truncated, extras, seat): (_, Vec<(u32, f64)>, _, _, _, _) = given.extract()?;
    Ok(StepResult {
        observations: observations(seen),
        rewards: rewards.into_iter().map(|(seat, reward)| SeatReward { seat, reward }).collect(),
        terminated,
        truncated,
        extras: named(extras),
        next_seat: seat,
    })
}

/// Bytes.
pub fn bytes(given: Given<'_, '_>) -> PyResult<Vec<u8>> {
    given.extract()
}

/// Handle of an episode or a session.
pub fn handle(given: Given<'_, '_>) -> PyResult<u32> {
    given.extract()
}

/// Pairs of name and value.
pub fn named_values(given: Given<'_, '_>) -> PyResult<Vec<NamedValue>> {
    given.extract().map(named)
}

/// Content.
pub fn parts(given: Given<'_, '_>) -> PyResult<Vec<Part>> {
    given.extract().map(content)
}

/// A text, or calls.
pub fn advice(given: Given<'_, '_>) -> PyResult<Advice> {
    if given.is_instance_of::<PyString>() {
        return Ok(Advice::Message(given.extract()?));
    }
    let calls: Vec<(String, String, String)> = given.extract()?;
    Ok(Advice::Calls(calls.into_iter().map(|(id, name, arguments)| Call { id, name, arguments }).collect()))
}

/// Whether the picture is SVG, and its text.
pub fn picture(given: Given<'_, '_>) -> PyResult<Picture> {
    let (is_svg, picture) = given.extract()?;
    Ok(if is_svg { Picture::Svg(picture) } else { Picture::Text(picture) })
}

/// Summary and options.
pub fn tool_info(given: Given<'_, '_>) -> PyResult<ToolInfo> {
    let (summary, options) = given.extract()?;
    Ok(ToolInfo { summary, options: declared(options) })
}

/// Name, description, schema and cost of each function.
pub fn functions(given: Given<'_, '_>) -> PyResult<Vec<Function>> {
    given.extract().map(offer)
}

/// Content, and whether the call failed.
pub fn answer(given: Given<'_, '_>) -> PyResult<Answer> {
    let (parts, failed) = given.extract()?;
    Ok(Answer { content: content(parts), failed })
}

/// Summary, components, range and options.
pub fn reward_info(given: Given<'_, '_>) -> PyResult<RewardInfo> {
    let (summary, components, ends, options): (_, Vec<(String, String)>, _, _) = given.extract()?;
    let component = |(name, description)| ComponentInfo { name, description };
    let components = components.into_iter().map(component).collect();
    Ok(RewardInfo { summary, components, range: range(ends), options: declared(options) })
}

/// Scores of each trajectory's seats.
pub fn scores(given: Given<'_, '_>) -> PyResult<Vec<Vec<SeatScore>>> {
    type Scored = (u32, f64, Vec<(String, f64)>, Vec<f64>, Vec<(u32, u32, u32, String)>);
    let group: Vec<Vec<Scored>> = given.extract()?;
    let one = |(seat, total, components, turns, evidence): Scored| SeatScore {
        seat,
        total,
        components: components.into_iter().map(|(name, value)| Component { name, value }).collect(),
        turns,
        evidence: evidence.into_iter().map(|(turn, start, end, note)| Evidence { turn, start, end, note }).collect(),
    };
    Ok(group.into_iter().map(|scores| scores.into_iter().map(one).collect()).collect())
}
