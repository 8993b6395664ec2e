//! The environment inside a wrapper, as the wrapper calls it.
//!
//! A failure of the environment inside ends the wrapper's call as a failure of the plugin inside. Errors that the plugin
//! inside returned are returned to the wrapper.

use gymkhana_record::{Call, NamedValue, Part, Seed, TaskRef, Value};
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Error, Result};

use super::granted::parts;
use crate::bindings::gymkhana::plugin::{environment, environment_oracle, environment_render, types};
use crate::bindings::gymkhana::wrapper::inner;
use crate::instance::inner::{Inner, InnerFailure, InnerLink};
use crate::instance::store_data::StoreData;
use crate::{
    Action, Advice, CallError, CallFuture, EnvironmentInfo, Image, OptionInfo, ResetResult, StepResult, convert,
};

/// Result of a call that the wrapper receives.
type Returned<T> = Result<Result<T, types::Error>>;

/// Links it.
pub(super) fn link(linker: &mut Linker<StoreData>) -> Result<()> {
    inner::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)
}

impl StoreData {
    /// Calls the environment inside while the guest waits.
    async fn call_inner<'a, T>(&'a mut self, call: impl FnOnce(&'a mut dyn Inner) -> CallFuture<'a, T>) -> Returned<T> {
        let Self { inner, timer, .. } = self;
        let Some(InnerLink { plugin, environment }) = inner else {
            return Ok(Err(types::Error::Denied("no environment is inside".to_owned())));
        };
        match timer.wait_inner(call(environment.as_mut())).await {
            Ok(done) => Ok(Ok(done)),
            Err(error) => match error.into_returned() {
                Ok(returned) => Ok(Err(returned)),
                Err(failure) => Err(Error::new(InnerFailure(failure.inside(plugin)))),
            },
        }
    }
}

/// The result of a function that returns no errors; one that the environment inside returned is its failure.
fn infallible<T>(result: Result<T, types::Error>, plugin: Option<&str>) -> Result<T> {
    result.map_err(|error| Error::new(InnerFailure(CallError::refused(error).inside(plugin.unwrap_or_default()))))
}

impl inner::Host for StoreData {
    async fn describe(&mut self) -> Result<environment::Info> {
        if self.inner.is_none() {
            return Ok(any_environment());
        }
        let name = self.inner.as_ref().map(|link| link.plugin.clone());
        let info = self.call_inner(|inner| inner.describe()).await?;
        Ok(info_of(&*infallible(info, name.as_deref())?))
    }

    async fn splits(&mut self) -> Returned<Vec<environment::SplitInfo>> {
        let split = |split: crate::SplitInfo| environment::SplitInfo { name: split.name, tasks: split.tasks };
        let splits = self.call_inner(|inner| inner.splits()).await?;
        Ok(splits.map(|splits| splits.into_iter().map(split).collect()))
    }

    async fn reset(&mut self, task: types::TaskResult, seed: u64) -> Returned<environment::ResetResult> {
        let task = TaskRef { split: task.split, index: task.index };
        let result = self.call_inner(|inner| inner.reset(&task, Seed(seed))).await?;
        Ok(result.map(|(episode, result)| reset_result(episode, result)))
    }

    async fn step(&mut self, episode: u32, action: environment::Action) -> Returned<environment::StepResult> {
        let environment::Action { seat, body } = action;
        let result = match body {
            environment::ActionBody::Message(parts) => {
                let content = convert::content(parts);
                self.call_inner(|inner| inner.step(episode, seat, Action::Message(&content))).await?
            }
            environment::ActionBody::Call(types::CallResult { id, name, arguments }) => {
                let call = Call { id, name, arguments };
                self.call_inner(|inner| inner.step(episode, seat, Action::Call(&call))).await?
            }
            environment::ActionBody::Other(parts) => {
                let content = convert::content(parts);
                self.call_inner(|inner| inner.step(episode, seat, Action::Other(&content))).await?
            }
        };
        Ok(result.map(step_result))
    }

    async fn close(&mut self, episode: u32) -> Result<()> {
        let name = self.inner.as_ref().map(|link| link.plugin.clone());
        let closed = self.call_inner(|inner| inner.close(episode)).await?;
        infallible(closed, name.as_deref())
    }

    async fn snapshot(&mut self, episode: u32) -> Returned<Vec<u8>> {
        self.call_inner(|inner| inner.snapshot(episode)).await
    }

    async fn restore(&mut self, snapshot: Vec<u8>) -> Returned<u32> {
        self.call_inner(|inner| inner.restore(&snapshot)).await
    }

    async fn state_key(&mut self, episode: u32) -> Returned<Vec<u8>> {
        self.call_inner(|inner| inner.state_key(episode)).await
    }

    async fn privileged(&mut self, episode: u32) -> Returned<Vec<types::NamedValueResult>> {
        let view = self.call_inner(|inner| inner.privileged(episode)).await?;
        Ok(view.map(named_values))
    }

    async fn advise(
        &mut self,
        episode: u32,
        tools: Vec<String>,
        results: Vec<String>,
    ) -> Returned<environment_oracle::Advice> {
        let advice = self.call_inner(|inner| inner.advise(episode, &tools, &results)).await?;
        let call = |call: Call| types::CallResult { id: call.id, name: call.name, arguments: call.arguments };
        Ok(advice.map(|advice| match advice {
            Advice::Message(text) => environment_oracle::Advice::Message(text),
            Advice::Calls(calls) => environment_oracle::Advice::Calls(calls.into_iter().map(call).collect()),
        }))
    }

    async fn guidance(&mut self, episode: u32) -> Returned<Vec<types::PartResult>> {
        Ok(self.call_inner(|inner| inner.guidance(episode)).await?.map(parts))
    }

    async fn render(&mut self, episode: u32) -> Returned<environment_render::Picture> {
        let image = self.call_inner(|inner| inner.render(episode)).await?;
        Ok(image.map(|image| match image {
            Image::Text(text) => environment_render::Picture::Text(text),
            Image::Svg(text) => environment_render::Picture::Svg(text),
            Image::Other(text) => environment_render::Picture::Other(text),
        }))
    }
}

/// Description of the environment inside while there is none, so that a wrapper can describe its own options.
fn any_environment() -> environment::Info {
    environment::Info {
        summary: "Any environment".to_owned(),
        seats: vec!["agent".to_owned()],
        options: vec![],
        reward_range: types::Range { low: 0.0, high: 1.0 },
    }
}

fn info_of(info: &EnvironmentInfo) -> environment::Info {
    let option = |option: &OptionInfo| types::OptionInfo {
        name: option.name.clone(),
        description: option.description.clone(),
        default: value(option.default.clone()),
    };
    environment::Info {
        summary: info.summary.clone(),
        seats: info.seats.clone(),
        options: info.options.iter().map(option).collect(),
        reward_range: types::Range { low: info.rewards.low, high: info.rewards.high },
    }
}

fn reset_result(episode: u32, ResetResult { opening, seat }: ResetResult) -> environment::ResetResult {
    let function = |function: gymkhana_record::Function| types::Function {
        name: function.name,
        description: function.description,
        parameters: function.parameters,
        cost: function.cost,
    };
    let functions = |offered: gymkhana_record::SeatFunctions| environment::SeatFunctions {
        seat: offered.seat,
        functions: offered.functions.into_iter().map(function).collect(),
    };
    environment::ResetResult {
        episode,
        observations: observations(opening.observations),
        functions: opening.functions.into_iter().map(functions).collect(),
        tool_setups: opening.setup.into_iter().map(|(tool, bytes)| environment::ToolSetup { tool, bytes }).collect(),
        next_seat: seat,
    }
}

fn step_result(step: StepResult) -> environment::StepResult {
    let StepResult { observations: seen, rewards, terminated, truncated, extras, seat } = step;
    environment::StepResult {
        observations: observations(seen),
        rewards: rewards.into_iter().map(|(seat, reward)| environment::SeatReward { seat, reward }).collect(),
        terminated,
        truncated,
        extras: named_values(extras),
        next_seat: seat,
    }
}

fn observations(observations: Vec<(u32, Vec<Part>)>) -> Vec<environment::Observation> {
    let observation = |(seat, content)| environment::Observation { seat, content: parts(content) };
    observations.into_iter().map(observation).collect()
}

fn named_values(values: Vec<NamedValue>) -> Vec<types::NamedValueResult> {
    let named = |named: NamedValue| types::NamedValueResult { name: named.name, value: value(named.value) };
    values.into_iter().map(named).collect()
}

fn value(value: Value) -> types::ValueResult {
    match value {
        Value::Flag(flag) => types::ValueResult::Flag(flag),
        Value::Integer(integer) => types::ValueResult::Integer(integer),
        Value::Number(number) => types::ValueResult::Number(number),
        Value::Text(text) => types::ValueResult::Text(text),
        Value::Bytes(bytes) => types::ValueResult::Bytes(bytes),
        Value::Other(json) => types::ValueResult::Other(json),
    }
}
