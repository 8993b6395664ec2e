//! Construction of a rollout from a run file, shared by runs, evaluations, replays and rescoring.

use gymkhana_chat::ChatFormat;
use gymkhana_config::{PolicySection, RunFile};
use gymkhana_rollout::{AgentSettings, PluginSet, RewardSum, Rollout};

use crate::error::{Classify, RunError, RunResult};
use crate::seats::bindings;

/// A rollout under the run file's rules. `places` orders episodes for deterministic generation, see
/// [`Rollout::with_deterministic_places`].
///
/// # Errors
/// If a tool or the probe collides with the context strategy.
pub fn rollout(
    file: &RunFile,
    set: PluginSet,
    chat: ChatFormat,
    rewards: RewardSum,
    places: Option<usize>,
) -> RunResult<Rollout> {
    let chat = chosen(chat, &file.policy)?;
    let limits = (&file.limits).into();
    let rules = bindings(&file.seats, set.seat_names()).into_iter().map(|seat| seat.section.rules()).collect();
    let rollout = Rollout::new(set, chat, limits, rewards, file.policy.system.clone(), file.failures.retries);
    let rollout = rollout.with_seat_rules(rules);
    let rollout = rollout.with_stop_texts(&file.limits.stop);
    let rollout =
        rollout.with_context(file.context.clone()).user_error()?.with_probe(file.probe.clone()).user_error()?;
    Ok(match places {
        Some(places) => rollout.with_deterministic_places(places),
        None => rollout,
    })
}

/// A model's chat format with the choices of the run file.
///
/// # Errors
/// If the model has no chat template of the name that the run file chooses.
pub fn chosen(chat: ChatFormat, policy: &PolicySection) -> RunResult<ChatFormat> {
    let mut chat = chat.with_tools_place(policy.tools_in_prompt.into());
    if let Some(name) = &policy.template_name {
        chat = chat.with_template_named(name).user_context("policy.template_name".to_owned())?;
    }
    if !policy.template.is_empty() {
        chat = chat.with_switches(policy.template.clone());
    }
    if let Some(format) = policy.tool_format.format() {
        chat = chat.with_tool_format(format);
    }
    Ok(match policy.thoughts.marks() {
        Some(marks) => chat.with_thoughts(marks),
        None => chat,
    })
}

/// The rollout with the agent program of the run file, if it has one. Starts the gateway.
///
/// # Errors
/// If the program does not exist, or the gateway cannot start.
pub fn with_agent(rollout: Rollout, file: &RunFile) -> RunResult<Rollout> {
    let Some(agent) = &file.agent else { return Ok(rollout) };
    played_by(rollout, agent.settings(&file.limits.stop))
}

#[cfg(feature = "agents")]
fn played_by(rollout: Rollout, settings: AgentSettings) -> RunResult<Rollout> {
    Ok(rollout.with_agent(gymkhana_gateway::AgentHarness::start(settings).user_error()?))
}

#[cfg(not(feature = "agents"))]
#[allow(clippy::needless_pass_by_value, reason = "the signature of the build that starts programs")]
fn played_by(_rollout: Rollout, settings: AgentSettings) -> RunResult<Rollout> {
    Err(left_out(&settings))
}

fn left_out(settings: &AgentSettings) -> RunError {
    let program = settings.command.first().map_or("", String::as_str);
    RunError::left_out(format!("[agent] names the program `{program}`"), "agent programs")
}

/// Rejects a run whose plugins an agent program cannot play: it plays one seat, calls tools of the run by MCP alone, and
/// its file must exist.
///
/// # Errors
/// The first problem.
pub fn check_agent(file: &RunFile, set: &PluginSet) -> RunResult<()> {
    let Some(agent) = &file.agent else { return Ok(()) };
    if cfg!(not(feature = "agents")) {
        return Err(left_out(&agent.settings(&file.limits.stop)));
    }
    let environment = set.environment().plugin.name();
    if set.seats() > 1 {
        let message = format!("[agent] plays one seat, and environment `{environment}` has {}", set.seats());
        return Err(RunError::user(message).with_hint("remove [agent], or choose another environment"));
    }
    if let Some(tool) = set.tool_names().next().filter(|_| !agent.mcp) {
        let message = format!("[agent] cannot call tools of the run, such as `{tool}`: the program has its own");
        let hint = "set agent.mcp = true to offer them by MCP, or remove the tools from --plugins";
        return Err(RunError::user(message).with_hint(hint));
    }
    match agent.command.first() {
        Some(program) if !exists(program) => {
            let message = format!("agent.command: there is no program `{program}`");
            Err(RunError::user(message).with_hint("name a file, or a program of PATH"))
        }
        _ => Ok(()),
    }
}

/// Whether a program is a file, or in a folder of PATH.
fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join(program));
    if program.contains('/') { std::path::Path::new(program).is_file() } else { candidates.any(|file| file.is_file()) }
}
