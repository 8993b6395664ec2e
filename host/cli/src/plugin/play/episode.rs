//! An environment's episode, played by hand.

use std::path::Path;
use std::sync::Arc;

use gymkhana_driver::{
    BoundPlugin, DEFAULT_EPISODE_BYTES, DescribedEnvironment, Episode, EpisodeData, EpisodeSeeds, EpisodeSnapshot,
    Hooks, NoHooks, Reply, TimedCall,
};
use gymkhana_record::{
    Call, CallSite, Ending, Failure, FailureKind, NamedValue, Seed, TaskRef, Turn, WrittenCall, text_of,
};
use gymkhana_sandbox::{
    Advice, CallError, EnvironmentEpisode, Image, OptionalInterface, Plugin, StepResult, Trajectory,
};

use super::lines::{Typed, TypedLines};
use super::scores;
use crate::args::plugin::PlayArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::companions::Companions;
use crate::units::size;

const HELP: &str = "any text           say it\nsay TEXT           say it, even if it is one of these words\ncall NAME {json}   call a function of the environment or a tool\nfunctions          the functions that may be called\noracle             what the oracle would do\nfollow             do what the oracle would do\nprivileged         what rewards and teachers see\nrender [FILE.svg]  a picture\nundo               take the last turn back\nquit               end";

/// Context of a failure that ended the episode.
const LOST: &str = "the environment failed, and the episode is lost";

/// An episode in front of a person.
struct InteractiveEpisode<'a> {
    episode: Episode,
    seats: Vec<String>,
    /// Seat that the person plays; `None` plays all seats.
    own: Option<u32>,
    /// States before earlier turns, for `undo`.
    before: Vec<Earlier>,
    /// Turns before those of the episode's data, which holds the last ones only.
    transcript: Vec<Turn>,
    seeds: EpisodeSeeds,
    companions: &'a Companions,
    /// Shows the privileged view with each observation.
    privileged: bool,
    lines: &'a TypedLines<'a>,
}

/// State before a turn.
struct Earlier {
    snapshot: EpisodeSnapshot,
    data: EpisodeData,
    /// Length of the transcript.
    told: usize,
}

/// Keeps the rewards of the last step.
#[derive(Default)]
struct LastRewards(Vec<(u32, f64)>);

impl Hooks for LastRewards {
    type Timer = ();

    fn time(&self, _call: TimedCall) {}

    fn stepped(&mut self, result: &StepResult) {
        self.0.clone_from(&result.rewards);
    }
}

/// Plays one episode.
pub(super) async fn play(
    plugin: &Plugin,
    options: &[NamedValue],
    companions: &Companions,
    args: &PlayArgs,
    lines: &TypedLines<'_>,
) -> CliResult<()> {
    let mut table = InteractiveEpisode::begin(plugin, options, companions, args, lines).await?;
    table.others_move().await?;
    while !table.over() {
        let Some(typed) = lines.next()? else { break };
        if typed == Typed::Quit {
            break;
        }
        table.obey(typed).await?;
        table.others_move().await?;
    }
    table.score().await
}

fn check_seat(plugin: &Plugin, seats: &[String], seat: u32) -> CliResult<()> {
    if seat as usize >= seats.len() {
        let listed: Vec<String> = seats.iter().enumerate().map(|(seat, name)| format!("{seat} for `{name}`")).collect();
        let message = format!("--seat is {seat}, but environment `{}` has no such seat", plugin.name());
        return Err(CliError::user(message).with_hint(format!("use {}", listed.join(", "))));
    }
    if !plugin.offers(OptionalInterface::Oracle) {
        let message = "--seat needs an oracle that plays the other seats, but the environment has none";
        return Err(CliError::user(message).with_hint("leave --seat out to play every seat"));
    }
    Ok(())
}

impl<'a> InteractiveEpisode<'a> {
    async fn begin(
        plugin: &Plugin,
        options: &[NamedValue],
        companions: &'a Companions,
        args: &PlayArgs,
        lines: &'a TypedLines<'a>,
    ) -> CliResult<Self> {
        let bound = BoundPlugin { plugin: plugin.clone(), options: options.to_vec() };
        let environment = DescribedEnvironment::describe(bound, Arc::clone(&companions.tools)).await.user_error()?;
        let seats = environment.info().seats.clone();
        if let Some(seat) = args.seat {
            check_seat(plugin, &seats, seat)?;
        }
        let split = environment.split(args.split.as_deref()).user_error()?;
        let task = TaskRef { split: split.name.clone(), index: args.task };
        let seeds = EpisodeSeeds::same(Seed(args.seed));
        let cannot_start = || format!("task {task} cannot be started\nhint: choose another --task or --option");
        let opened = environment.open(task.clone(), seeds, DEFAULT_EPISODE_BYTES).await;
        let episode = opened.map_err(|failed| CallError::from(failed.failure)).user_context(cannot_start())?;
        let (own, privileged) = (args.seat, args.privileged);
        let (before, transcript) = (vec![], vec![]);
        let mut table = Self { episode, seats, own, before, transcript, seeds, companions, privileged, lines };
        lines.show(format!("task {task}"));
        table.show().await?;
        Ok(table)
    }

    fn over(&self) -> bool {
        self.episode.data.ending.is_some()
    }

    fn seat(&self) -> u32 {
        self.episode.data.seat
    }

    fn name(&self, seat: u32) -> &str {
        self.seats.get(seat as usize).map_or("no seat", String::as_str)
    }

    /// Shows the last observations of the person's seats, and the privileged view if it is wanted.
    async fn show(&mut self) -> CliResult<()> {
        let shown = self.episode.data.last_observations().into_iter();
        for (seat, content) in shown.filter(|(seat, _)| self.own.is_none_or(|own| own == *seat)) {
            let to = if self.seats.len() > 1 { format!("to {}: ", self.name(seat)) } else { String::new() };
            self.lines.show(format!("{to}{}", text_of(content)));
        }
        if self.privileged { self.show_privileged().await } else { Ok(()) }
    }

    async fn show_privileged(&mut self) -> CliResult<()> {
        match self.privileged_view().await {
            None => self.lines.show("the environment has no privileged view"),
            Some(Ok(view)) => {
                self.lines.show("privileged view:");
                view.iter().for_each(|field| self.lines.show_fact(field));
            }
            Some(Err(failure)) => self.refused(failure.into())?,
        }
        Ok(())
    }

    /// The environment's privileged view; `None` if it has none.
    async fn privileged_view(&mut self) -> Option<Result<Vec<NamedValue>, Failure>> {
        let (interface, read) = (OptionalInterface::Privileged, EnvironmentEpisode::privileged);
        self.episode.read(&NoHooks, interface, CallSite::Privileged, read).await
    }

    async fn obey(&mut self, typed: Typed) -> CliResult<()> {
        match typed {
            Typed::Say(message) => self.take_turn(Reply { thoughts: None, message, calls: vec![] }).await?,
            Typed::Call { name, arguments } => self.call(vec![Call { id: String::new(), name, arguments }]).await?,
            Typed::Functions => self.lines.show_functions(self.episode.data.functions(self.seat()).iter()),
            Typed::Oracle { .. } if !self.episode.offers(OptionalInterface::Oracle) => {
                self.lines.show("the environment has no oracle");
            }
            Typed::Oracle { take } => match (self.episode.advise(&NoHooks).await, take) {
                (Ok(advice), true) => self.follow(advice).await?,
                (Ok(advice), false) => self.lines.show(in_words(&advice)),
                (Err(failure), _) => self.refused(failure.into())?,
            },
            Typed::Privileged => self.show_privileged().await?,
            Typed::Render { .. } if !self.episode.offers(OptionalInterface::Render) => {
                self.lines.show("the environment draws no pictures");
            }
            Typed::Render { file } => match self.episode.environment().render().await {
                Ok(image) => self.show_image(image, file.as_deref()),
                Err(error) => self.refused(error)?,
            },
            Typed::Undo if !self.episode.can_be_copied() => {
                self.lines.show("nothing can be taken back: a plugin offers no snapshots");
            }
            Typed::Undo => self.undo().await?,
            Typed::Help => self.lines.show(HELP),
            Typed::Quit => {}
        }
        Ok(())
    }

    /// Shows a picture in text, and writes one in SVG to a file.
    fn show_image(&self, image: Image, file: Option<&Path>) {
        match (image, file) {
            (Image::Text(text) | Image::Other(text), _) => self.lines.show(text),
            (Image::Svg(svg), None) => {
                let bytes = size(svg.len() as u64);
                self.lines.show(format!("an SVG picture of {bytes}; save it with `render FILE.svg`"));
            }
            (Image::Svg(svg), Some(file)) => self.lines.show(match std::fs::write(file, svg) {
                Ok(()) => format!("the picture is in `{}`", file.display()),
                Err(error) => format!("cannot write `{}`: {error}", file.display()),
            }),
        }
    }

    fn has_function(&self, name: &str) -> bool {
        self.episode.data.functions(self.seat()).iter().any(|function| function.name == name)
    }

    /// A refusal leaves the episode as it is; anything else ended it.
    fn refused(&self, error: CallError) -> CliResult<()> {
        if error.kind == FailureKind::Refused {
            self.lines.show_refusal(&error);
            return Ok(());
        }
        Err(error).user_context(LOST)
    }

    async fn call(&mut self, calls: Vec<Call>) -> CliResult<()> {
        if let Some(Call { name, .. }) = calls.iter().find(|call| !self.has_function(&call.name)) {
            let message = match self.companions.tools.tools() {
                [] => format!("the environment offers no function `{name}` now; `functions` lists those it does"),
                _ => format!("no function `{name}` can be called now; `functions` lists those that can"),
            };
            self.lines.show(message);
            return Ok(());
        }
        self.take_turn(reply(calls)).await
    }

    /// Takes a turn of the seat to move and shows its result. A refusal leaves the episode as it was.
    async fn take_turn(&mut self, reply: Reply) -> CliResult<()> {
        let kept = self.keep().await;
        let (before, told) = (self.episode.data.clone(), self.transcript.len());
        // Only the last turn is shown, so that what is kept of each turn does not grow.
        let data = &mut self.episode.data;
        self.transcript.append(&mut data.turns);
        (data.costs, data.exchanges) = (vec![], vec![]);
        data.logs.clear();
        let mut rewards = LastRewards::default();
        let ending = self.episode.take_turn(&mut rewards, reply, u32::MAX).await;
        if let Some(failure) = self.take_failures() {
            self.episode.data = before;
            self.transcript.truncate(told);
            if kept {
                self.before.pop();
            }
            return self.refused(failure.into());
        }
        self.show_result(&rewards.0, ending).await
    }

    /// Takes the failures of the last turn: those of tools are shown, since the agent plays on; that of the environment
    /// is returned.
    fn take_failures(&mut self) -> Option<Failure> {
        let at = self.episode.boundary();
        let failures = std::mem::take(&mut self.episode.data.failures);
        let (mut own, others): (Vec<_>, Vec<_>) = failures.into_iter().partition(|failure| failure.at == at);
        others.iter().for_each(|failure| self.lines.show(format!("[{failure}]")));
        own.pop()
    }

    async fn follow(&mut self, advice: Advice) -> CliResult<()> {
        self.lines.show(format!("{}: {}", self.name(self.seat()), in_words(&advice)));
        match advice {
            Advice::Message(message) => self.take_turn(Reply { thoughts: None, message, calls: vec![] }).await,
            Advice::Calls(calls) => self.call(calls).await,
        }
    }

    /// Keeps the state before a turn, if the environment offers snapshots. Returns whether it was kept.
    async fn keep(&mut self) -> bool {
        if !self.episode.can_be_copied() {
            return false;
        }
        let Ok(snapshot) = self.episode.snapshot().await else { return false };
        self.before.push(Earlier { snapshot, data: self.episode.data.clone(), told: self.transcript.len() });
        true
    }

    /// Takes back the last turn of a seat that the person plays.
    async fn undo(&mut self) -> CliResult<()> {
        while let Some(Earlier { snapshot, data, told }) = self.before.pop() {
            if self.own.is_some_and(|own| own != data.seat) {
                continue;
            }
            let restored = Episode::restore(&snapshot, data, self.seeds).await;
            self.episode = restored.map_err(CallError::from).user_error()?;
            self.transcript.truncate(told);
            self.lines.show("the last turn is taken back");
            return self.show().await;
        }
        self.lines.show("there is nothing to take back");
        Ok(())
    }

    /// Shows the observations and rewards of a turn, and the totals if it ended the episode.
    async fn show_result(&mut self, rewards: &[(u32, f64)], ending: Option<Ending>) -> CliResult<()> {
        self.show().await?;
        for (seat, reward) in rewards {
            self.lines.show(format!("{} earns {reward}", self.name(*seat)));
        }
        let Some(ending) = ending else { return Ok(()) };
        let terminated = ending == Ending::Terminated;
        self.lines.show(if terminated { "the episode is over" } else { "the episode is cut off" });
        for earned in &self.episode.data.rewards {
            let total = earned.rewards.iter().fold(0.0, |sum, reward| sum + reward);
            self.lines.show(format!("{} earned {total} in all", self.name(earned.seat)));
        }
        for extra in &self.episode.data.extras {
            self.lines.show_fact(extra);
        }
        Ok(())
    }

    /// Scores the episode with the rewards beside it.
    async fn score(mut self) -> CliResult<()> {
        if self.companions.rewards.is_empty() {
            return Ok(());
        }
        let Some(ending) = self.episode.data.ending else {
            self.lines.show("not scored: the episode has not ended");
            return Ok(());
        };
        let privileged = match self.privileged_view().await {
            None => vec![],
            Some(view) => view.map_err(CallError::from).user_context(LOST)?,
        };
        let views = self.episode.final_views().await;
        self.take_failures();
        let data = &mut self.episode.data;
        self.transcript.append(&mut data.turns);
        let trajectory = Trajectory {
            task: &data.task,
            turns: &self.transcript,
            ending,
            environment_rewards: &data.rewards,
            extras: &data.extras,
            privileged: &privileged,
            views: &views,
        };
        let (setup, seed) = (&data.opening.setup, self.seeds.environment);
        scores::show(self.companions, trajectory, setup, seed, &self.seats, self.lines).await;
        Ok(())
    }

    /// Lets the oracle play the seats that the person does not play.
    async fn others_move(&mut self) -> CliResult<()> {
        while !self.over() && self.own.is_some_and(|own| own != self.seat()) {
            let mover = self.name(self.seat()).to_owned();
            let advice = self.episode.advise(&NoHooks).await.map_err(CallError::from);
            let advice = advice.user_context(format!("the oracle cannot play {mover}"))?;
            let Some(reply) = self.performable(advice) else {
                let message = format!("the oracle of {mover} calls a function that is not here");
                return Err(CliError::user(message).with_hint("add its tool --with, or leave --seat out"));
            };
            self.keep().await;
            let mut rewards = LastRewards::default();
            let ending = self.episode.take_turn(&mut rewards, reply, u32::MAX).await;
            if let Some(failure) = self.take_failures() {
                return Err(CallError::from(failure)).user_context(LOST);
            }
            self.show_result(&rewards.0, ending).await?;
        }
        Ok(())
    }

    /// The advice as a turn: a message, or calls that are all answered here.
    fn performable(&self, advice: Advice) -> Option<Reply> {
        match advice {
            Advice::Message(message) => Some(Reply { thoughts: None, message, calls: vec![] }),
            Advice::Calls(calls) => calls.iter().all(|call| self.has_function(&call.name)).then(|| reply(calls)),
        }
    }
}

/// A turn of calls. The episode numbers them.
fn reply(calls: Vec<Call>) -> Reply {
    let calls = calls.into_iter().map(|Call { name, arguments, .. }| WrittenCall::Sound { name, arguments });
    Reply { thoughts: None, message: String::new(), calls: calls.collect() }
}

fn in_words(advice: &Advice) -> String {
    match advice {
        Advice::Message(text) => text.clone(),
        Advice::Calls(calls) => {
            let call = |call: &Call| format!("call {} {}", call.name, call.arguments);
            calls.iter().map(call).collect::<Vec<_>>().join("\n")
        }
    }
}
