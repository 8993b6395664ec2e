//! Actions that the rules forbid: they are answered, and the episode or session goes on.

use gymkhana_record::Function;
use gymkhana_registry::Kind;

use crate::acts::{Act, call, strange_arguments, strange_messages};
use crate::bench::Bench;
use crate::examples::Examples;
use crate::finding::{Finding, Stop, passed, skipped, stop};
use crate::path::Path;
use crate::stage::{Beginning, Stage};

pub(crate) async fn check(bench: &Bench) -> Finding {
    let beginnings = bench.beginnings();
    if beginnings.is_empty() {
        return skipped(bench.nothing_to_play());
    }
    // Rules do not depend on the task; a tool's may on what was prepared.
    let sessions = beginnings.iter().filter(|beginning| matches!(beginning, Beginning::Session(_))).take(2);
    let episodes = beginnings.iter().filter(|beginning| matches!(beginning, Beginning::Episode(_))).take(2);
    let mut answered = 0;
    for beginning in sessions.chain(episodes) {
        let seed = bench.seed("invalid");
        let (_, stage) = Path::begin(bench, &bench.plugin, beginning, &bench.options, seed).await?;
        let functions: Vec<Function> = stage.functions().cloned().collect();
        for (act, must_fail) in strange_acts(&functions, stage.is_session()) {
            // Each on its own: some end the episode.
            let (mut path, mut stage) = Path::begin(bench, &bench.plugin, beginning, &bench.options, seed).await?;
            path.act(bench, &mut stage, act.clone()).await?;
            answered += 1;
            told(&stage, &act, must_fail)?;
        }
    }
    let what = if bench.is(Kind::Environment) { "messages and calls" } else { "calls" };
    passed(format!("{answered} strange {what} were answered"))
}

fn strange_acts(functions: &[Function], session: bool) -> Vec<(Act, bool)> {
    let mut acts = Vec::new();
    if session {
        acts.extend([("no-such-function", "{}"), ("", "{}")].map(|(name, arguments)| (call(name, arguments), true)));
    } else {
        acts.extend(strange_messages().into_iter().map(|act| (act, false)));
    }
    for function in functions {
        if let Ok(examples) = Examples::of(&function.parameters) {
            acts.extend(strange_arguments(function, &examples));
        }
    }
    acts
}

/// A session's answer to a call that cannot have worked says so, in words.
fn told(stage: &Stage, act: &Act, must_fail: bool) -> Result<(), Stop> {
    if !stage.is_session() || !must_fail {
        return Ok(());
    }
    if !stage.failed {
        let seen = format!("{act} was answered as if it had worked: {:?}", crate::finding::short(&stage.shown));
        return Err(stop(seen, "answer what an agent did wrong with `failed`, and say what to write instead"));
    }
    if stage.shown.trim().is_empty() {
        return Err(stop(format!("{act} failed without a word"), "say in the answer what to write instead"));
    }
    Ok(())
}
