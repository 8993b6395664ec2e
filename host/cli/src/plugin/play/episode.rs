//! An environment's episode, played by hand.

use std::sync::Arc;

use gymkhana_driver::{
    Bound, DEFAULT_EPISODE_BYTES, Episode, EpisodeData, EpisodeSeeds, EpisodeSetup, EpisodeSnapshot, Hooks, NoHooks,
    Reply, TimedCall,
};
use gymkhana_record::{Call, Ending, FailureKind, NamedValue, Seed, TaskRef, WrittenCall, text_of};
use gymkhana_sandbox::{Advice, CallError, Image, OptionalInterface, Plugin, StepResult};

use super::{Lines, Typed};
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::args::PlayArgs;

const HELP: &str = "any text           say it\nsay TEXT           say it, even if it is one of these words\ncall NAME {json}   call a function of the environment\nfunctions          the functions that may be called\noracle             what the expert would do\nfollow             do what the expert would do\nrender             a picture\nundo               take the last turn back\nquit               end";

/// Context of a failure that ended the episode.
const LOST: &str = "the environment failed, and the episode is lost";

/// An episode in front of a person.
struct Table<'a> {
    episode: Episode,
    seats: Vec<String>,
    /// Seat that the person plays; `None` plays all seats.
    own: Option<u32>,
    /// States before earlier turns, for `undo`.
    before: Vec<(EpisodeSnapshot, EpisodeData)>,
    seeds: EpisodeSeeds,
    lines: &'a Lines<'a>,
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
pub(super) async fn play(plugin: &Plugin, options: &[NamedValue], args: &PlayArgs, lines: &Lines<'_>) -> CliResult<()> {
    let mut table = Table::begin(plugin, options, args, lines).await?;
    table.others_move().await?;
    while !table.over() {
        let Some(typed) = lines.next()? else { break };
        if typed == Typed::Quit {
            break;
        }
        table.obey(typed).await?;
        table.others_move().await?;
    }
    Ok(())
}

fn check_seat(plugin: &Plugin, seats: &[String], seat: u32) -> CliResult<()> {
    if seat as usize >= seats.len() {
        let message = format!("--seat is {seat}; the seats are 0 to {}: {}", seats.len() - 1, seats.join(", "));
        return Err(CliError::user(message));
    }
    if !plugin.offers(OptionalInterface::Oracle) {
        let message = "--seat leaves the other seats to the oracle, and the environment has none; leave --seat out";
        return Err(CliError::user(message));
    }
    Ok(())
}

impl<'a> Table<'a> {
    async fn begin(plugin: &Plugin, options: &[NamedValue], args: &PlayArgs, lines: &'a Lines<'a>) -> CliResult<Self> {
        let seats = plugin.environment_info().await.user_error()?.seats.clone();
        if let Some(seat) = args.seat {
            check_seat(plugin, &seats, seat)?;
        }
        let split = match &args.split {
            Some(split) => split.clone(),
            None => plugin
                .splits(options)
                .await
                .user_error()?
                .first()
                .map_or_else(|| "train".to_owned(), |split| split.name.clone()),
        };
        let task = TaskRef { split, index: args.task };
        let seeds = EpisodeSeeds { environment: Seed(args.seed), tools: Seed(args.seed) };
        let setup = EpisodeSetup {
            environment: &Bound { plugin: plugin.clone(), options: options.to_vec() },
            tools: &Arc::default(),
            task: task.clone(),
            seeds,
            overrides: Arc::default(),
            max_bytes: DEFAULT_EPISODE_BYTES,
        };
        let cannot_start = || format!("task {task} cannot be started");
        let started = Episode::start(setup, &NoHooks).await.map_err(|failed| CallError::from(failed.failure));
        let mut episode = started.user_context(cannot_start())?;
        episode.offer(seats.len() as u32, &[]).map_err(CallError::from).user_context(cannot_start())?;
        episode.observe_opening(&mut NoHooks);
        let table = Self { episode, seats, own: args.seat, before: vec![], seeds, lines };
        lines.show(format!("task {task}"));
        table.show();
        Ok(table)
    }

    fn over(&self) -> bool {
        self.episode.data.ending.is_some()
    }

    fn seat(&self) -> u32 {
        self.episode.data.seat
    }

    fn name(&self, seat: u32) -> &str {
        self.seats.get(seat as usize).map_or("nobody", String::as_str)
    }

    /// Shows the last observations of the person's seats.
    fn show(&self) {
        let shown = self.episode.data.last_observations().into_iter();
        for (seat, content) in shown.filter(|(seat, _)| self.own.is_none_or(|own| own == *seat)) {
            let to = if self.seats.len() > 1 { format!("to {}: ", self.name(seat)) } else { String::new() };
            self.lines.show(format!("{to}{}", text_of(content)));
        }
    }

    async fn obey(&mut self, typed: Typed) -> CliResult<()> {
        match typed {
            Typed::Say(message) => self.take_turn(Reply { message, calls: vec![] }).await?,
            Typed::Call { name, arguments } => self.call(name, arguments).await?,
            Typed::Functions => self.lines.show_functions(self.episode.data.functions(self.seat()).iter()),
            Typed::Oracle { .. } if !self.episode.offers(OptionalInterface::Oracle) => {
                self.lines.show("the environment has no oracle");
            }
            Typed::Oracle { take } => match (self.episode.advise(&NoHooks).await, take) {
                (Ok(advice), true) => self.follow(advice).await?,
                (Ok(advice), false) => self.lines.show(in_words(&advice)),
                (Err(failure), _) => self.refused(failure.into())?,
            },
            Typed::Render if !self.episode.offers(OptionalInterface::Render) => {
                self.lines.show("the environment draws no pictures");
            }
            Typed::Render => match self.episode.environment().render().await {
                Ok(Image::Text(text) | Image::Svg(text) | Image::Other(text)) => self.lines.show(text),
                Err(error) => self.refused(error)?,
            },
            Typed::Undo if !self.episode.can_be_copied() => {
                self.lines.show("nothing can be taken back: the environment offers no snapshots");
            }
            Typed::Undo => self.undo().await?,
            Typed::Help => self.lines.show(HELP),
            Typed::Quit => {}
        }
        Ok(())
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

    async fn call(&mut self, name: String, arguments: String) -> CliResult<()> {
        if !self.has_function(&name) {
            self.lines
                .show(format!("the environment offers no function `{name}` now; `functions` lists those it does"));
            return Ok(());
        }
        self.take_turn(Reply { message: String::new(), calls: vec![WrittenCall::Sound { name, arguments }] }).await
    }

    /// Takes a turn of the seat to move and shows its result. A refusal leaves the episode as it was.
    async fn take_turn(&mut self, reply: Reply) -> CliResult<()> {
        let kept = self.keep().await;
        let before = self.episode.data.clone();
        // Only the last turn is shown, so that what is kept of each turn does not grow.
        let data = &mut self.episode.data;
        (data.turns, data.costs, data.exchanges) = (vec![], vec![], vec![]);
        data.logs.clear();
        let mut rewards = LastRewards::default();
        let ending = self.episode.take_turn(&mut rewards, reply, u32::MAX).await;
        if let Some(failure) = self.episode.data.failures.pop() {
            self.episode.data = before;
            if kept {
                self.before.pop();
            }
            return self.refused(failure.into());
        }
        self.show_result(&rewards.0, ending);
        Ok(())
    }

    async fn follow(&mut self, advice: Advice) -> CliResult<()> {
        self.lines.show(format!("{}: {}", self.name(self.seat()), in_words(&advice)));
        match advice {
            Advice::Message(message) => self.take_turn(Reply { message, calls: vec![] }).await,
            Advice::Calls(calls) => {
                let mover = self.seat();
                for call in calls {
                    if self.over() || self.seat() != mover {
                        break;
                    }
                    self.call(call.name, call.arguments).await?;
                }
                Ok(())
            }
        }
    }

    /// Keeps the state before a turn, if the environment offers snapshots. Returns whether it was kept.
    async fn keep(&mut self) -> bool {
        if !self.episode.can_be_copied() {
            return false;
        }
        let Ok(snapshot) = self.episode.snapshot().await else { return false };
        self.before.push((snapshot, self.episode.data.clone()));
        true
    }

    /// Takes back the last turn of a seat that the person plays.
    async fn undo(&mut self) -> CliResult<()> {
        while let Some((snapshot, data)) = self.before.pop() {
            if self.own.is_some_and(|own| own != data.seat) {
                continue;
            }
            let restored = Episode::restore(&snapshot, data, self.seeds).await;
            self.episode = restored.map_err(CallError::from).user_error()?;
            self.lines.show("the last turn is taken back");
            self.show();
            return Ok(());
        }
        self.lines.show("there is nothing to take back");
        Ok(())
    }

    /// Shows the observations and rewards of a turn, and the totals if it ended the episode.
    fn show_result(&self, rewards: &[(u32, f64)], ending: Option<Ending>) {
        self.show();
        for (seat, reward) in rewards {
            self.lines.show(format!("{} earns {reward}", self.name(*seat)));
        }
        let Some(ending) = ending else { return };
        let terminated = ending == Ending::Terminated;
        self.lines.show(if terminated { "the episode is over" } else { "the episode is cut off" });
        for earned in &self.episode.data.rewards {
            let total = earned.rewards.iter().fold(0.0, |sum, reward| sum + reward);
            self.lines.show(format!("{} earned {total} in all", self.name(earned.seat)));
        }
        for extra in &self.episode.data.extras {
            self.lines.show_fact(extra);
        }
    }

    /// Lets the oracle play the seats that the person does not play.
    async fn others_move(&mut self) -> CliResult<()> {
        while !self.over() && self.own.is_some_and(|own| own != self.seat()) {
            let mover = self.name(self.seat()).to_owned();
            let advice = self.episode.advise(&NoHooks).await.map_err(CallError::from);
            let advice = advice.user_context(format!("the oracle cannot play {mover}"))?;
            let Some(reply) = self.performable(advice) else {
                let message = format!("the oracle of {mover} wants a tool, and none is here; leave --seat out");
                return Err(CliError::user(message));
            };
            self.keep().await;
            let mut rewards = LastRewards::default();
            let ending = self.episode.take_turn(&mut rewards, reply, u32::MAX).await;
            if let Some(failure) = self.episode.data.failures.pop() {
                return Err(CallError::from(failure)).user_context(LOST);
            }
            self.show_result(&rewards.0, ending);
        }
        Ok(())
    }

    /// The advice as a turn without tools: a message, or the first call that the environment answers.
    fn performable(&self, advice: Advice) -> Option<Reply> {
        match advice {
            Advice::Message(message) => Some(Reply { message, calls: vec![] }),
            Advice::Calls(calls) => {
                let call = calls.into_iter().find(|call| self.has_function(&call.name))?;
                let call = WrittenCall::Sound { name: call.name, arguments: call.arguments };
                Some(Reply { message: String::new(), calls: vec![call] })
            }
        }
    }
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
