//! The environment of episodes that consist of tool calls alone: it shows nothing, offers nothing and gives no rewards.
//!
//! It is the host's own code, so that a session of tools without an environment is an episode like any other: recorded,
//! replayed and scored by the same code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gymkhana_record::{Call, FailureKind, NamedValue, Seed, TaskRef};
use gymkhana_registry::{ContractStamp, Digest, Kind, Manifest, PluginName};
use gymkhana_sandbox::unsandboxed::{PluginResult, Unsandboxed, contract};
use gymkhana_sandbox::{Action, CallError, OptionalInterface, Plugin, Trajectory};

use crate::error::{Classify, RunResult};

/// Short name of the environment.
pub const TOOLS_ONLY: &str = "tools-only";

/// Name of its only split, which has one task.
pub const TOOLS_ONLY_SPLIT: &str = "train";

/// First observation of its only seat.
const OPENING: &str = "Call the tools.";

/// The environment.
///
/// # Errors
/// Never: its name is well-formed.
pub fn tools_only() -> RunResult<Plugin> {
    let manifest = Manifest {
        name: PluginName::new("gymkhana", TOOLS_ONLY).internal()?,
        version: "0.1.0".parse().internal()?,
        kinds: [Kind::Environment].into(),
        contract: ContractStamp::of_this_host(),
        license: "Apache-2.0".to_owned(),
        description: "Tool calls without an environment".to_owned(),
        capabilities: [].into(),
        optional: [].into(),
        deterministic: true,
        thoughts: false,
        reward_range: None,
        quick: false,
    };
    Ok(Plugin::unsandboxed(manifest, Digest::of(OPENING.as_bytes()), Arc::new(ToolsOnly::default())))
}

/// Whether this is the full name of the environment, which needs no sandbox.
#[must_use]
pub fn is_tools_only(full_name: &str) -> bool {
    full_name.strip_prefix("gymkhana/") == Some(TOOLS_ONLY)
}

/// Its code. Episodes have no state beside their handle.
#[derive(Default)]
struct ToolsOnly {
    next: AtomicU32,
}

impl ToolsOnly {
    fn handle(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

fn lacks<T>(what: &str) -> PluginResult<T> {
    Err(CallError::new(FailureKind::Refused, format!("the environment `{TOOLS_ONLY}` offers no {what}")))
}

impl Unsandboxed for ToolsOnly {
    fn offers(&self, interface: OptionalInterface) -> bool {
        interface == OptionalInterface::Snapshot
    }

    fn describe_environment(&self) -> PluginResult<contract::EnvironmentInfo> {
        Ok(contract::EnvironmentInfo {
            summary: "Tool calls without an environment".to_owned(),
            seats: vec!["agent".to_owned()],
            options: vec![],
            reward_range: contract::Range { low: 0.0, high: 0.0 },
        })
    }

    fn splits(&self, _options: &[NamedValue]) -> PluginResult<Vec<contract::SplitInfo>> {
        Ok(vec![contract::SplitInfo { name: TOOLS_ONLY_SPLIT.to_owned(), tasks: Some(1) }])
    }

    fn reset(&self, task: &TaskRef, _options: &[NamedValue], _seed: Seed) -> PluginResult<contract::ResetResult> {
        if task.split != TOOLS_ONLY_SPLIT || task.index != 0 {
            return Err(CallError::refused(contract::Error::NotFound(format!("there is no task {task}"))));
        }
        let opening = contract::Observation { seat: 0, content: vec![contract::Part::Text(OPENING.to_owned())] };
        Ok(contract::ResetResult {
            episode: self.handle(),
            observations: vec![opening],
            functions: vec![],
            tool_setups: vec![],
            next_seat: 0,
        })
    }

    /// A message ends the episode; calls go to the tools.
    fn step(&self, _episode: u32, _seat: u32, _action: Action<'_>) -> PluginResult<contract::StepResult> {
        Ok(contract::StepResult {
            observations: vec![],
            rewards: vec![],
            terminated: true,
            truncated: false,
            extras: vec![],
            next_seat: 0,
        })
    }

    fn state_key(&self, _episode: u32) -> PluginResult<Vec<u8>> {
        lacks("state key")
    }

    fn privileged(&self, _episode: u32) -> PluginResult<Vec<contract::NamedValue>> {
        lacks("privileged view")
    }

    fn advise(&self, _episode: u32, _tools: &[String], _results: &[String]) -> PluginResult<contract::Advice> {
        lacks("oracle")
    }

    fn guidance(&self, _episode: u32) -> PluginResult<Vec<contract::Part>> {
        lacks("guidance")
    }

    fn render(&self, _episode: u32) -> PluginResult<contract::Picture> {
        lacks("rendering")
    }

    fn describe_tool(&self) -> PluginResult<contract::ToolInfo> {
        lacks("tool")
    }

    fn functions(&self, _options: &[NamedValue]) -> PluginResult<Vec<contract::Function>> {
        lacks("tool")
    }

    fn open(&self, _setup: Option<&[u8]>, _options: &[NamedValue], _seed: Seed) -> PluginResult<u32> {
        lacks("tool")
    }

    fn call(&self, _session: u32, _call: &Call) -> PluginResult<contract::Answer> {
        lacks("tool")
    }

    fn final_view(&self, _session: u32) -> PluginResult<Vec<contract::NamedValue>> {
        lacks("tool")
    }

    fn describe_reward(&self) -> PluginResult<contract::RewardInfo> {
        lacks("reward")
    }

    fn score(
        &self,
        _group: &[Trajectory<'_>],
        _options: &[NamedValue],
        _training_step: u64,
    ) -> PluginResult<Vec<Vec<contract::SeatScore>>> {
        lacks("reward")
    }

    fn snapshot(&self, _handle: u32) -> PluginResult<Vec<u8>> {
        Ok(vec![])
    }

    fn restore(&self, _snapshot: &[u8]) -> PluginResult<u32> {
        Ok(self.handle())
    }

    fn close(&self, _handle: u32) -> PluginResult<()> {
        Ok(())
    }

    fn forget(&self, _handle: u32) {}
}
