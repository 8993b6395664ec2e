//! Construction of a rollout from a run file, shared by runs, evaluations, replays and rescoring.

use gymkhana_chat::ChatFormat;
use gymkhana_config::{EpisodeRules, PolicySection, RunFile};
use gymkhana_rollout::{PluginSet, RewardSum, Rollout, StartAgent};

use crate::error::{Classify, RunError, RunResult};
use crate::seats::bindings;

/// A rollout of an environment of the run under its rules. `places` orders episodes for deterministic generation, see
/// [`Rollout::with_deterministic_places`].
///
/// # Errors
/// If a tool or the probe collides with the context strategy.
pub fn of_run(
    file: &RunFile,
    rules: &EpisodeRules,
    set: PluginSet,
    chat: ChatFormat,
    rewards: RewardSum,
    places: Option<usize>,
) -> RunResult<Rollout> {
    let chat = chosen(chat, &file.policy)?;
    let rollout = rollout(rules, set, chat, rewards, file.policy.system.clone())?;
    let rollout = rollout.with_probe(file.probe.clone()).user_error()?;
    Ok(match places {
        Some(places) => rollout.with_deterministic_places(places),
        None => rollout,
    })
}

/// A rollout under rules; `system` is the first message of seats without one of their own.
///
/// # Errors
/// If a tool collides with the context strategy.
pub fn rollout(
    rules: &EpisodeRules,
    set: PluginSet,
    chat: ChatFormat,
    rewards: RewardSum,
    system: Option<String>,
) -> RunResult<Rollout> {
    let seats = bindings(&rules.seats, set.seat_names()).into_iter().map(|seat| seat.section.rules()).collect();
    let rollout = Rollout::new(set, chat, (&rules.limits).into(), rewards, system, rules.failures.retries);
    let rollout = rollout.with_seat_rules(seats).with_stop_texts(&rules.limits.stop);
    rollout.with_context(rules.context.clone()).user_error()
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
/// If this program starts no agent programs, or the gateway cannot start.
pub fn with_agent(
    rollout: Rollout,
    file: &RunFile,
    rules: &EpisodeRules,
    start: Option<StartAgent>,
) -> RunResult<Rollout> {
    starts_agents(file, start.is_some())?;
    let (Some(agent), Some(start)) = (&file.agent, start) else { return Ok(rollout) };
    Ok(rollout.with_agent(start(agent.settings(&rules.limits.stop)).map_err(RunError::user)?))
}

/// Rejects a run file with an agent program in a program that starts none.
///
/// # Errors
/// If the run file has `[agent]` and `starts` is false.
pub fn starts_agents(file: &RunFile, starts: bool) -> RunResult<()> {
    let Some(agent) = file.agent.as_ref().filter(|_| !starts) else { return Ok(()) };
    let program = agent.command.first().map_or("", String::as_str);
    Err(RunError::left_out(format!("[agent] names the program `{program}`"), "agent programs"))
}

/// Rejects a run whose plugins an agent program cannot play: it plays one seat, calls tools of the run by MCP alone, and
/// its file must exist.
///
/// # Errors
/// The first problem.
pub fn check_agent(file: &RunFile, set: &PluginSet) -> RunResult<()> {
    let Some(agent) = &file.agent else { return Ok(()) };
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
