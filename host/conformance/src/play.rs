//! Plays an episode to its end with tools, by the oracle or by arbitrary actions, and records what a reward sees.

use gymkhana_record::{
    Call, Ending, FailureKind, Function, NamedValue, Part, SeatRewards, Seed, Stream, TaskRef, Turn, text_of,
};
use gymkhana_sandbox::{Action, Advice, EnvironmentEpisode, OptionalInterface, Plugin, StepResult, ToolSession};

use crate::FinishedEpisode;
use crate::examples::Examples;
use crate::finding::{CheckPhase, Stop, stop};

/// Turns after which an episode is left.
const MOST_TURNS: u32 = 300;

/// What to change about an oracle that cannot go on.
const ORACLES_TOOL: &str = "have it get on with the functions that it is told of, or give the tool that it needs with --with \
                            TOOL.wasm";

/// Who plays.
#[derive(Debug)]
pub(crate) enum Player {
    /// The environment's oracle, for every seat.
    Oracle,
    /// Somebody who says and calls anything.
    Fool(Box<Stream>),
}

/// A plugin with its options.
pub(crate) type Chosen<'a> = (&'a Plugin, &'a [NamedValue]);

struct Tool {
    name: String,
    functions: Vec<Function>,
    session: ToolSession,
    final_view: bool,
}

struct EpisodeDriver<'a> {
    episode: EnvironmentEpisode,
    tools: Vec<Tool>,
    /// What each seat may call of the environment.
    own: Vec<(u32, Vec<Function>)>,
    /// What each seat's last calls were answered.
    results: Vec<Vec<String>>,
    seat: u32,
    calls: u64,
    place: &'a str,
    finished: FinishedEpisode,
    over: bool,
}

/// Plays one episode.
pub(crate) async fn play(
    environment: Chosen<'_>,
    tools: &[Chosen<'_>],
    task: &TaskRef,
    seed: Seed,
    mut player: Player,
) -> Result<FinishedEpisode, Stop> {
    let place = format!("task {task} with seed {}", seed.0);
    let mut game = EpisodeDriver::begin(environment, tools, task, seed, &place).await?;
    for _ in 0..MOST_TURNS {
        if game.over {
            break;
        }
        let advice = match &mut player {
            Player::Oracle => game.ask().await?,
            Player::Fool(stream) => game.fooled(stream),
        };
        game.follow(advice).await?;
    }
    game.end(environment.0).await
}

impl<'a> EpisodeDriver<'a> {
    async fn begin(
        (plugin, options): Chosen<'_>,
        tools: &[Chosen<'_>],
        task: &TaskRef,
        seed: Seed,
        place: &'a str,
    ) -> Result<Self, Stop> {
        let seats = plugin.environment_info().await.during("`describe` of the environment")?.seats.len() as u32;
        let (episode, started) =
            EnvironmentEpisode::start(plugin, task, options, seed).await.during(format!("the start of {place}"))?;
        let opening = started.opening;
        let mut open = Vec::new();
        for (tool, options) in tools {
            let setup = opening.setup.iter().find(|(name, _)| name == tool.name()).map(|(_, bytes)| bytes.as_slice());
            let during = format!("the tool `{}` beside {place}", tool.name());
            let functions = tool.functions(options).await.during(&during)?;
            let session = ToolSession::open(tool, setup, options, seed.child(tool.name())).await.during(&during)?;
            let final_view = tool.offers(OptionalInterface::FinalView);
            open.push(Tool { name: tool.name().to_owned(), functions, session, final_view });
        }
        let shown = opening.observations.into_iter().map(|(seat, content)| Turn::Observation { seat, content });
        let finished = FinishedEpisode {
            task: task.clone(),
            turns: shown.collect(),
            ending: Ending::TurnLimit,
            environment_rewards: (0..seats).map(|seat| SeatRewards { seat, rewards: vec![] }).collect(),
            extras: vec![],
            privileged: vec![],
            views: vec![],
        };
        let own = opening.functions.into_iter().map(|offer| (offer.seat, offer.functions)).collect();
        let results = vec![vec![]; seats as usize];
        Ok(Self { episode, tools: open, own, results, seat: started.seat, calls: 0, place, finished, over: false })
    }

    async fn ask(&mut self) -> Result<Advice, Stop> {
        let names: Vec<String> =
            self.tools.iter().flat_map(|tool| &tool.functions).map(|function| function.name.clone()).collect();
        let results = std::mem::take(&mut self.results[self.seat as usize]);
        let advice = self.episode.advise(&names, &results).await;
        let place = format!("after {} turns of {}", self.finished.turns.len(), self.place);
        let advice = match advice {
            Err(error) if error.kind == FailureKind::Refused => {
                return Err(stop(format!("the oracle gave up {place}: {}", error.message), ORACLES_TOOL));
            }
            advice => advice.during(format!("the oracle's advice {place}"))?,
        };
        let own = self.own.iter().filter(|(seat, _)| *seat == self.seat).flat_map(|(_, functions)| functions);
        let known: Vec<&str> =
            names.iter().map(String::as_str).chain(own.map(|function| function.name.as_str())).collect();
        match &advice {
            Advice::Calls(calls) => match calls.iter().find(|call| !known.contains(&call.name.as_str())) {
                Some(call) => {
                    Err(stop(format!("the oracle calls `{}`, which nobody offers, {place}", call.name), ORACLES_TOOL))
                }
                None if calls.is_empty() => {
                    Err(stop(format!("the oracle does nothing {place}"), "have it say or call something"))
                }
                None => Ok(advice),
            },
            Advice::Message(_) => Ok(advice),
        }
    }

    fn fooled(&self, stream: &mut Stream) -> Advice {
        const SAYINGS: [&str; 6] = ["", "42", "yes", "I do not know.", "<answer>7</answer>", "accept"];
        let own = self.own.iter().filter(|(seat, _)| *seat == self.seat).flat_map(|(_, functions)| functions);
        let functions: Vec<&Function> = own.chain(self.tools.iter().flat_map(|tool| &tool.functions)).collect();
        if functions.is_empty() || stream.below(2) == 0 {
            return Advice::Message(SAYINGS[stream.below(SAYINGS.len() as u64) as usize].to_owned());
        }
        let function = functions[stream.below(functions.len() as u64) as usize];
        let made = Examples::of(&function.parameters).ok().and_then(|examples| examples.make(stream));
        let arguments = made.map_or_else(|| "{}".to_owned(), |made| made.to_string());
        Advice::Calls(vec![Call { id: String::new(), name: function.name.clone(), arguments }])
    }

    async fn follow(&mut self, advice: Advice) -> Result<(), Stop> {
        let seat = self.seat;
        match advice {
            Advice::Message(text) => {
                let content = vec![Part::Text(text)];
                self.finished.turns.push(Turn::Message { seat, content: content.clone() });
                self.step(Action::Message(&content)).await.map(drop)
            }
            Advice::Calls(calls) => {
                for call in calls {
                    let call = Call { id: format!("call-{}", self.calls), ..call };
                    self.calls += 1;
                    self.answer(seat, call).await?;
                }
                Ok(())
            }
        }
    }

    /// A tool or the environment itself answers a call.
    async fn answer(&mut self, seat: u32, call: Call) -> Result<(), Stop> {
        let of =
            |functions: &[Function]| functions.iter().find(|function| function.name == call.name).map(|one| one.cost);
        let own = self.own.iter().filter(|(of, _)| *of == seat).find_map(|(_, functions)| of(functions));
        let tool = self.tools.iter_mut().find(|tool| of(&tool.functions).is_some());
        let cost = tool.as_ref().and_then(|tool| of(&tool.functions)).or(own).unwrap_or(0.0);
        self.finished.turns.push(Turn::Call { seat, call: call.clone(), cost });
        let (content, failed) = if let Some(tool) = tool {
            let answer = tool.session.call(&call).await;
            let answer = answer.during(format!("the call {}({}) in {}", call.name, call.arguments, self.place))?;
            (answer.content, answer.failed)
        } else if own.is_some() && !self.over && self.seat == seat {
            let stepped = self.step(Action::Call(&call)).await?;
            let shown = stepped.observations.into_iter().find(|(of, _)| *of == seat);
            (shown.map(|(_, content)| content).unwrap_or_default(), false)
        } else {
            (vec![Part::Text("there is no such function now".to_owned())], true)
        };
        self.results[seat as usize].push(text_of(&content));
        self.finished.turns.push(Turn::Answer { seat, id: call.id, content, failed });
        Ok(())
    }

    async fn step(&mut self, action: Action<'_>) -> Result<StepResult, Stop> {
        let is_call = matches!(action, Action::Call(_));
        let mover = self.seat;
        let turn = self.finished.turns.len();
        let stepped = self.episode.step(mover, action).await.during(format!("turn {turn} of {}", self.place))?;
        let mut answered = is_call;
        for (seat, content) in stepped.observations.clone() {
            // What the mover is shown first answers its call.
            if std::mem::take(&mut answered) && seat == mover {
                continue;
            }
            self.finished.turns.push(Turn::Observation { seat, content });
        }
        for rewards in &mut self.finished.environment_rewards {
            let earned = stepped.rewards.iter().filter(|(seat, _)| *seat == rewards.seat).map(|(_, reward)| reward);
            rewards.rewards.push(earned.sum());
        }
        self.finished.extras.clone_from(&stepped.extras);
        self.over = stepped.terminated || stepped.truncated;
        if self.over {
            self.finished.ending = if stepped.terminated { Ending::Terminated } else { Ending::Truncated };
        } else {
            self.seat = stepped.seat;
        }
        Ok(stepped)
    }

    async fn end(mut self, environment: &Plugin) -> Result<FinishedEpisode, Stop> {
        if environment.offers(OptionalInterface::Privileged) {
            let privileged = self.episode.privileged().await;
            self.finished.privileged = privileged.during(format!("the privileged view of {}", self.place))?;
        }
        for tool in self.tools.iter_mut().filter(|tool| tool.final_view) {
            let view = tool.session.final_view().await.during(format!("the final view of `{}`", tool.name))?;
            let named = |field: NamedValue| NamedValue { name: format!("{}.{}", tool.name, field.name), ..field };
            self.finished.views.extend(view.into_iter().map(named));
        }
        Ok(self.finished)
    }
}
