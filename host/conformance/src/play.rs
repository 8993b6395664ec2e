//! Plays an episode to its end with tools, by the oracle or by arbitrary actions, and records what a reward sees.

use std::sync::Arc;

use gymkhana_driver::{
    BoundPlugin, DEFAULT_EPISODE_BYTES, DescribedEnvironment, Episode, EpisodeSeeds, NoHooks, ORACLE_TURNS, Tool,
    ToolSet,
};
use gymkhana_record::{Call, CallSite, Ending, Failure, FailureKind, Function, NamedValue, Seed, Stream, TaskRef};
use gymkhana_sandbox::{Advice, CallError, EnvironmentEpisode, OptionalInterface, Plugin, ToolSession};

use crate::FinishedEpisode;
use crate::examples::Examples;
use crate::finding::{CheckPhase, Stop, stop};

/// Advice for an oracle that cannot continue.
const ORACLES_TOOL: &str = "let it use only the functions that it is offered, or give the tool that it needs with --with \
                            TOOL.wasm";

/// The player of an episode.
#[derive(Debug)]
pub(crate) enum Player {
    /// The environment's oracle, for every seat.
    Oracle,
    /// Arbitrary messages and calls.
    Random(Box<Stream>),
}

/// A plugin with its options.
pub(crate) type PluginWithOptions<'a> = (&'a Plugin, &'a [NamedValue]);

/// Plays one episode.
pub(crate) async fn play(
    environment: PluginWithOptions<'_>,
    tools: &[PluginWithOptions<'_>],
    task: &TaskRef,
    seed: Seed,
    mut player: Player,
) -> Result<FinishedEpisode, Stop> {
    let place = format!("task {task} with seed {}", seed.0);
    let mut episode = begin(environment, tools, task, seed, &place).await?;
    for _ in 0..ORACLE_TURNS {
        if episode.data.ending.is_some() {
            break;
        }
        let advice = match &mut player {
            Player::Oracle => ask(&mut episode, &place).await?,
            Player::Random(stream) => random(&episode, stream),
        };
        let turn = episode.data.turns.len();
        episode.take_turn(&mut NoHooks, advice.into(), u32::MAX).await;
        no_failure(&episode.data.failures, &format!("turn {turn} of {place}"))?;
    }
    finish(episode, &place).await
}

fn bound((plugin, options): PluginWithOptions<'_>) -> BoundPlugin {
    BoundPlugin { plugin: plugin.clone(), options: options.to_vec() }
}

/// Returns the first failure of an episode, if any, with the plugin's call.
fn no_failure(failures: &[Failure], during: &str) -> Result<(), Stop> {
    match failures.first() {
        None => Ok(()),
        Some(failure) => Err(CallError::from(failure.clone())).during(format!("{during}: {}", failure.at)),
    }
}

async fn begin(
    environment: PluginWithOptions<'_>,
    tools: &[PluginWithOptions<'_>],
    task: &TaskRef,
    seed: Seed,
    place: &str,
) -> Result<Episode, Stop> {
    let mut set = ToolSet::default();
    for tool in tools {
        let during = format!("the tool `{}` beside {place}", tool.0.name());
        let tool = Tool::describe(bound(*tool)).await.during(during)?;
        set.add(tool).map_err(|error| stop(error, "give only one of them with --with"))?;
    }
    let environment = DescribedEnvironment::describe(bound(environment), Arc::new(set)).await;
    let environment = environment.during("`describe` of the environment")?;
    let opened = environment.open(task.clone(), EpisodeSeeds::same(seed), DEFAULT_EPISODE_BYTES).await;
    let opened = opened.map_err(|failed| CallError::from(failed.failure));
    let episode = opened.during(format!("the start of {place}"))?;
    // A set-up that a tool cannot read is a defect, also if the oracle does not call the tool.
    for (plugin, options) in tools {
        let setup = episode.data.opening.setup.iter().find(|(name, _)| name == plugin.name());
        let during = format!("the tool `{}` beside {place}", plugin.name());
        ToolSession::open(plugin, setup.map(|(_, bytes)| &bytes[..]), options, seed).await.during(during)?;
    }
    Ok(episode)
}

/// Asks the oracle. Its advice must name functions that exist.
async fn ask(episode: &mut Episode, place: &str) -> Result<Advice, Stop> {
    let advice = episode.advise(&NoHooks).await.map_err(CallError::from);
    let place = format!("after {} turns of {place}", episode.data.turns.len());
    let advice = match advice {
        Err(error) if error.kind == FailureKind::Refused => {
            return Err(stop(format!("the oracle gave up {place}: {}", error.message), ORACLES_TOOL));
        }
        advice => advice.during(format!("the oracle's advice {place}"))?,
    };
    if let Some(call) = episode.unknown_call(&advice) {
        return Err(stop(format!("the oracle calls the unknown function `{}` {place}", call.name), ORACLES_TOOL));
    }
    match &advice {
        Advice::Calls(calls) if calls.is_empty() => {
            Err(stop(format!("the oracle does nothing {place}"), "have it say or call something"))
        }
        _ => Ok(advice),
    }
}

fn random(episode: &Episode, stream: &mut Stream) -> Advice {
    const MESSAGES: [&str; 6] = ["", "42", "yes", "I do not know.", "<answer>7</answer>", "accept"];
    let functions: &[Function] = episode.data.functions(episode.data.seat);
    if functions.is_empty() || stream.below(2) == 0 {
        return Advice::Message(MESSAGES[stream.below(MESSAGES.len() as u64) as usize].to_owned());
    }
    let function = &functions[stream.below(functions.len() as u64) as usize];
    let made = Examples::of(&function.parameters).ok().and_then(|examples| examples.make(stream));
    let arguments = made.map_or_else(|| "{}".to_owned(), |made| made.to_string());
    Advice::Calls(vec![Call { id: String::new(), name: function.name.clone(), arguments }])
}

async fn finish(mut episode: Episode, place: &str) -> Result<FinishedEpisode, Stop> {
    let read = EnvironmentEpisode::privileged;
    let privileged = match episode.read(&NoHooks, OptionalInterface::Privileged, CallSite::Privileged, read).await {
        Some(read) => read.map_err(CallError::from).during(format!("the privileged view of {place}"))?,
        None => vec![],
    };
    let views = episode.final_views().await;
    let data = episode.data;
    no_failure(&data.failures, &format!("the final views of {place}"))?;
    Ok(FinishedEpisode {
        task: data.task,
        turns: data.turns,
        ending: data.ending.unwrap_or(Ending::TurnLimit),
        environment_rewards: data.rewards,
        extras: data.extras,
        privileged,
        views,
    })
}
