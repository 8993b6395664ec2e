//! Invalid actions: they are answered, and the episode or session continues.

use gymkhana_record::Function;
use gymkhana_registry::Kind;

use crate::action::{ScriptedAction, call, strange_arguments, strange_messages};
use crate::driver::{Driver, Start};
use crate::examples::Examples;
use crate::finding::{Finding, Stop, passed, skipped, stop};
use crate::fixture::Fixture;
use crate::path::Path;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let starts = fixture.starts();
    if starts.is_empty() {
        return skipped(fixture.nothing_to_play());
    }
    // Rules do not depend on the task; those of a tool can depend on its setup.
    let sessions = starts.iter().filter(|start| matches!(start, Start::Session(_))).take(2);
    let episodes = starts.iter().filter(|start| matches!(start, Start::Episode(_))).take(2);
    let mut answered = 0;
    for start in sessions.chain(episodes) {
        let seed = fixture.seed("invalid");
        let begin = || Path::begin(fixture, &fixture.plugin, start, &fixture.options, seed);
        let (mut path, mut driver) = begin().await?;
        let functions: Vec<Function> = driver.functions().to_vec();
        for (act, must_fail) in strange_acts(&functions, driver.is_session()) {
            // Separate episodes, unless they are costly: an action can change what the next one does.
            if path.over || (fixture.one_in() == 1 && !path.actions.is_empty()) {
                (path, driver) = begin().await?;
            }
            path.act(fixture, &mut driver, act.clone()).await?;
            answered += 1;
            check_answer(&driver, &act, must_fail)?;
        }
    }
    let what = if fixture.is(Kind::Environment) { "messages and calls" } else { "calls" };
    passed(format!("{answered} invalid {what} were answered"))
}

fn strange_acts(functions: &[Function], session: bool) -> Vec<(ScriptedAction, bool)> {
    let mut actions = Vec::new();
    if session {
        actions.extend([("no-such-function", "{}"), ("", "{}")].map(|(name, arguments)| (call(name, arguments), true)));
    } else {
        actions.extend(strange_messages().into_iter().map(|act| (act, false)));
    }
    for function in functions {
        if let Ok(examples) = Examples::of(&function.parameters) {
            actions.extend(strange_arguments(function, &examples));
        }
    }
    actions
}

/// A session's answer to a call that must fail is marked as failed and has a text.
fn check_answer(driver: &Driver, act: &ScriptedAction, must_fail: bool) -> Result<(), Stop> {
    if !driver.is_session() || !must_fail {
        return Ok(());
    }
    if !driver.failed {
        let seen = format!("{act} was answered as if it had worked: {:?}", crate::finding::short(&driver.shown));
        return Err(stop(seen, "answer what an agent did wrong with `failed`, and say what to write instead"));
    }
    if driver.shown.trim().is_empty() {
        return Err(stop(format!("{act} failed with an empty answer"), "say in the answer what to write instead"));
    }
    Ok(())
}
