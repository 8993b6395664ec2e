//! Trial of the environment's oracle before a run: the functions that it calls, the facts of its end, and failures of
//! plugins.

use gymkhana_config::{RunFile, SeatBinding, Stage};
use gymkhana_orchestration::{Reporter, RunError, RunResult, rewards};
use gymkhana_record::{Boundary, CallSite, Failure, Seed, TaskRef};
use gymkhana_rollout::Rollout;

/// Functions of the first-party tools, each with its tool.
const FIRST_PARTY: [(&str, &str); 6] = [
    ("calculate", "calculator"),
    ("fetch", "search"),
    ("python", "python"),
    ("query", "sql"),
    ("schema", "sql"),
    ("search", "search"),
];

/// Refuses an oracle that calls a function that no plugin offers, and warns of one that would call a function of a
/// first-party tool. Runs without an oracle are not checked.
pub(crate) async fn has_functions(
    file: &RunFile,
    rollout: &Rollout,
    task: &TaskRef,
    reporter: &dyn Reporter,
) -> RunResult<()> {
    if !asks_oracle(file) {
        return Ok(());
    }
    let (environment, seed) = (rollout.plugins().environment().plugin.name(), Seed(file.seed));
    let missing = rollout.missing_functions(task, seed, &[]).await;
    if !missing.is_empty() {
        return Err(RunError::user(format!(
            "the oracle of environment `{environment}` calls {}, which no plugin of the run offers",
            listed(&missing)
        ))
        .with_hint(remedy(&missing)));
    }
    let known = FIRST_PARTY.map(|(function, _)| function);
    let unused = rollout.missing_functions(task, seed, &known).await;
    if !unused.is_empty() {
        reporter.warn(&format!(
            "the oracle of environment `{environment}` would call {}, which no plugin of the run offers, and acts \
             without it\nhint: {}, or ignore this if the model needs no tool",
            listed(&unused),
            remedy(&unused)
        ));
    }
    Ok(())
}

/// Plays a task by the oracle. Refuses a success rule or a gate with a fact that the end lacks, and warns of plugins that
/// fail: the recorded episodes decide whether they fail too often.
pub(crate) async fn can_play(
    file: &RunFile,
    rollout: &Rollout,
    task: &TaskRef,
    reporter: &dyn Reporter,
) -> RunResult<()> {
    let Some(trial) = rollout.oracle_trial(task, Seed(file.seed)).await else { return Ok(()) };
    rollout.check_trial_facts(&trial).map_err(|error| rewards::with_nearest_name(&error))?;
    // An oracle that the run does not ask may fail, and one that writes no summaries does.
    let matters = |failure: &&Failure| asks_oracle(file) || failure.call_site != CallSite::Advise;
    for failure in trial.failures.iter().filter(matters) {
        reporter.warn(&format!("in a trial of task {task}, {failure}\nhint: {}", advice(failure)));
    }
    Ok(())
}

/// Advice on a plugin that fails in a trial.
fn advice(failure: &Failure) -> &'static str {
    match failure.at {
        Boundary::Reward(_) => "use rewards that can score this environment; see `host plugin inspect`",
        Boundary::Environment(_) | Boundary::Tool(_) => "find the cause with `host plugin test`",
        Boundary::Agent | Boundary::Model | Boundary::Host => "run `host doctor`",
    }
}

/// Whether the oracle gives demonstrations or plays a seat.
fn asks_oracle(file: &RunFile) -> bool {
    file.stages.iter().any(Stage::has_demonstrations)
        || file.rules.seats.values().any(|seat| seat.policy == SeatBinding::Oracle)
}

/// Advice on a run that lacks these functions.
pub(crate) fn remedy(functions: &[String]) -> String {
    let tool = |function: &String| FIRST_PARTY.iter().find(|(known, _)| known == function).map(|(_, tool)| *tool);
    let mut tools: Vec<String> = functions.iter().filter_map(tool).map(str::to_owned).collect();
    tools.sort();
    tools.dedup();
    match &tools[..] {
        [] => "add the tool that offers it to --plugins".to_owned(),
        [tool] => format!("add the tool `{tool}` to --plugins"),
        tools => format!("add the tools {} to --plugins", listed(tools)),
    }
}

/// Names in backquotes, separated by commas.
pub(crate) fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_first_party_tool() {
        for (functions, expected) in [
            (&["calculate"][..], "add the tool `calculator` to --plugins"),
            (&["search", "fetch"], "add the tool `search` to --plugins"),
            (&["query", "calculate"], "add the tools `calculator`, `sql` to --plugins"),
            (&["calculat"], "add the tool that offers it to --plugins"),
        ] {
            let functions: Vec<String> = functions.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(remedy(&functions), expected);
        }
    }

    /// The list is written by hand; each function is a text in the source of its tool.
    #[test]
    fn the_first_party_tools_offer_these_functions() {
        let tools = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/tools");
        for (function, tool) in FIRST_PARTY {
            let source = match tool {
                "python" => "src/interpreter/tool.py",
                _ => "src/lib.rs",
            };
            let text = std::fs::read_to_string(tools.join(tool).join(source)).expect("the source of a tool");
            assert!(text.contains(&format!("\"{function}\"")), "{tool} offers no `{function}`");
        }
    }
}
