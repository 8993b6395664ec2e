//! An environment's episode, played by hand.

use gymkhana_record::{Call, Content, Function, NamedValue, Part, Seed, TaskRef, text_of};
use gymkhana_sandbox::{
    Action, Advice, CallError, EnvironmentEpisode, Image, OptionalInterface, Plugin, Snapshot, StepResult,
};

use super::{Lines, Typed};
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::args::PlayArgs;

const HELP: &str = "any text           say it\nsay TEXT           say it, even if it is one of these words\ncall NAME {json}   call a function of the environment\nfunctions          the functions that may be called\noracle             what the expert would do\nfollow             do what the expert would do\nrender             a picture\nundo               take the last turn back\nquit               end";

/// A turn that can be taken back.
struct Before {
    snapshot: Snapshot,
    seat: u32,
    totals: Vec<f64>,
    shown: Vec<(u32, Content)>,
}

struct Table<'a> {
    plugin: &'a Plugin,
    episode: EnvironmentEpisode,
    seats: Vec<String>,
    functions: Vec<(u32, Vec<Function>)>,
    seat: u32,
    /// The seat that the person plays; none plays all.
    own: Option<u32>,
    totals: Vec<f64>,
    /// What was shown last.
    shown: Vec<(u32, Content)>,
    before: Vec<Before>,
    seed: Seed,
    calls: u64,
    over: bool,
    lines: &'a Lines<'a>,
}

/// Plays one episode.
pub(super) async fn play(plugin: &Plugin, options: &[NamedValue], args: &PlayArgs, lines: &Lines<'_>) -> CliResult<()> {
    let mut table = Table::begin(plugin, options, args, lines).await?;
    table.others_move().await?;
    while !table.over {
        let Some(typed) = lines.next()? else { break };
        if typed == Typed::Quit {
            break;
        }
        table.obey(typed).await?;
        table.others_move().await?;
    }
    Ok(())
}

impl<'a> Table<'a> {
    async fn begin(
        plugin: &'a Plugin,
        options: &[NamedValue],
        args: &PlayArgs,
        lines: &'a Lines<'a>,
    ) -> CliResult<Self> {
        let seats = plugin.environment_info().await.user_error()?.seats.clone();
        if let Some(seat) = args.seat {
            if seat as usize >= seats.len() {
                let message = format!("--seat is {seat}; the seats are 0 to {}: {}", seats.len() - 1, seats.join(", "));
                return Err(CliError::user(message));
            }
            if !plugin.offers(OptionalInterface::Oracle) {
                let message =
                    "--seat leaves the other seats to the oracle, and the environment has none; leave --seat out";
                return Err(CliError::user(message));
            }
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
        let seed = Seed(args.seed);
        let (episode, started) = EnvironmentEpisode::start(plugin, &task, options, seed)
            .await
            .user_context(format!("task {task} cannot be started"))?;
        let opening = started.opening;
        let functions = opening.functions.into_iter().map(|offer| (offer.seat, offer.functions)).collect();
        let totals = vec![0.0; seats.len()];
        let table = Self {
            plugin,
            episode,
            seats,
            functions,
            seat: started.seat,
            own: args.seat,
            totals,
            shown: opening.observations,
            before: vec![],
            seed,
            calls: 0,
            over: false,
            lines,
        };
        lines.show(format!("task {task}"));
        table.show();
        Ok(table)
    }

    fn name(&self, seat: u32) -> &str {
        self.seats.get(seat as usize).map_or("nobody", String::as_str)
    }

    /// Shows what the person may see.
    fn show(&self) {
        for (seat, content) in self.shown.iter().filter(|(seat, _)| self.own.is_none_or(|own| own == *seat)) {
            let to = if self.seats.len() > 1 { format!("to {}: ", self.name(*seat)) } else { String::new() };
            self.lines.show(format!("{to}{}", text_of(content)));
        }
    }

    async fn obey(&mut self, typed: Typed) -> CliResult<()> {
        let plugin = self.plugin;
        match typed {
            Typed::Say(text) => self.say(text).await?,
            Typed::Call { name, arguments } => self.call(name, arguments).await?,
            Typed::Functions => self.lines.show_functions(self.own_functions()),
            Typed::Oracle { .. } if !plugin.offers(OptionalInterface::Oracle) => {
                self.lines.show("the environment has no oracle");
            }
            Typed::Oracle { take } => {
                let advice = self.episode.advise(&[], &[]).await;
                match (advice, take) {
                    (Ok(advice), true) => self.follow(advice).await?,
                    (Ok(advice), false) => self.lines.show(in_words(&advice)),
                    (Err(error), _) => self.refused(error)?,
                }
            }
            Typed::Render if !plugin.offers(OptionalInterface::Render) => {
                self.lines.show("the environment draws no pictures");
            }
            Typed::Render => match self.episode.render().await {
                Ok(Image::Text(text) | Image::Svg(text) | Image::Other(text)) => self.lines.show(text),
                Err(error) => self.refused(error)?,
            },
            Typed::Undo if !plugin.offers(OptionalInterface::Snapshot) => {
                self.lines.show("nothing can be taken back: the environment offers no snapshots");
            }
            Typed::Undo => self.undo().await?,
            Typed::Help => self.lines.show(HELP),
            Typed::Quit => {}
        }
        Ok(())
    }

    fn own_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|(seat, _)| *seat == self.seat).flat_map(|(_, functions)| functions)
    }

    /// A refusal leaves the episode as it is; anything else ended it.
    fn refused(&self, error: CallError) -> CliResult<()> {
        if error.kind == gymkhana_record::FailureKind::Refused {
            self.lines.show_refusal(&error);
            return Ok(());
        }
        Err(error).user_context("the environment failed, and the episode is lost")
    }

    async fn say(&mut self, text: String) -> CliResult<()> {
        let content = [Part::Text(text)];
        self.keep().await;
        let stepped = self.episode.step(self.seat, Action::Message(&content)).await;
        self.take_in(stepped)
    }

    async fn call(&mut self, name: String, arguments: String) -> CliResult<()> {
        if !self.own_functions().any(|function| function.name == name) {
            self.lines
                .show(format!("the environment offers no function `{name}` now; `functions` lists those it does"));
            return Ok(());
        }
        let call = Call { id: format!("call-{}", self.calls), name, arguments };
        self.calls += 1;
        self.keep().await;
        let stepped = self.episode.step(self.seat, Action::Call(&call)).await;
        self.take_in(stepped)
    }

    async fn follow(&mut self, advice: Advice) -> CliResult<()> {
        self.lines.show(format!("{}: {}", self.name(self.seat), in_words(&advice)));
        match advice {
            Advice::Message(text) => self.say(text).await,
            Advice::Calls(calls) => {
                let mover = self.seat;
                for call in calls {
                    if self.over || self.seat != mover {
                        break;
                    }
                    self.call(call.name, call.arguments).await?;
                }
                Ok(())
            }
        }
    }

    /// Keeps the state in front of a turn, if the environment can save it.
    async fn keep(&mut self) {
        if !self.plugin.offers(OptionalInterface::Snapshot) {
            return;
        }
        if let Ok(snapshot) = self.episode.snapshot().await {
            self.before.push(Before {
                snapshot,
                seat: self.seat,
                totals: self.totals.clone(),
                shown: self.shown.clone(),
            });
        }
    }

    /// Takes back the last turn of a seat that the person plays.
    async fn undo(&mut self) -> CliResult<()> {
        while let Some(before) = self.before.pop() {
            if self.own.is_some_and(|own| own != before.seat) {
                continue;
            }
            self.episode = EnvironmentEpisode::restore(self.plugin, &before.snapshot, self.seed).await.user_error()?;
            (self.seat, self.totals, self.shown, self.over) = (before.seat, before.totals, before.shown, false);
            self.lines.show("the last turn is taken back");
            self.show();
            return Ok(());
        }
        self.lines.show("there is nothing to take back");
        Ok(())
    }

    fn take_in(&mut self, stepped: Result<StepResult, CallError>) -> CliResult<()> {
        let stepped = match stepped {
            Ok(stepped) => stepped,
            Err(error) => {
                self.before.pop();
                return self.refused(error);
            }
        };
        self.shown = stepped.observations;
        self.show();
        for (seat, reward) in &stepped.rewards {
            if let Some(total) = self.totals.get_mut(*seat as usize) {
                *total += reward;
            }
            self.lines.show(format!("{} earns {reward}", self.name(*seat)));
        }
        self.over = stepped.terminated || stepped.truncated;
        if !self.over {
            self.seat = stepped.seat;
            return Ok(());
        }
        self.lines.show(if stepped.terminated { "the episode is over" } else { "the episode is cut off" });
        for (seat, total) in self.totals.iter().enumerate() {
            self.lines.show(format!("{} earned {total} in all", self.name(seat as u32)));
        }
        for extra in &stepped.extras {
            self.lines.show_fact(extra);
        }
        Ok(())
    }

    /// The oracle plays the seats that the person does not.
    async fn others_move(&mut self) -> CliResult<()> {
        while !self.over && self.own.is_some_and(|own| own != self.seat) {
            let mover = self.seat;
            let advice = self
                .episode
                .advise(&[], &[])
                .await
                .user_context(format!("the oracle cannot play {}", self.name(mover)))?;
            if let Advice::Calls(calls) = &advice
                && !calls.iter().any(|call| self.own_functions().any(|function| function.name == call.name))
            {
                let message =
                    format!("the oracle of {} wants a tool, and none is here; leave --seat out", self.name(mover));
                return Err(CliError::user(message));
            }
            let content = self.hidden(advice);
            self.keep().await;
            let stepped = match &content {
                Hidden::Say(content) => self.episode.step(mover, Action::Message(content)).await,
                Hidden::Call(call) => self.episode.step(mover, Action::Call(call)).await,
            };
            let stepped = stepped.user_context("the environment failed, and the episode is lost")?;
            self.take_in(Ok(stepped))?;
        }
        Ok(())
    }

    /// What another seat does, which the person sees only as the environment shows it.
    fn hidden(&mut self, advice: Advice) -> Hidden {
        match advice {
            Advice::Message(text) => Hidden::Say(vec![Part::Text(text)]),
            Advice::Calls(mut calls) => {
                let first =
                    calls.iter().position(|call| self.own_functions().any(|function| function.name == call.name));
                let call = calls.swap_remove(first.unwrap_or(0));
                self.calls += 1;
                Hidden::Call(Call { id: format!("call-{}", self.calls), ..call })
            }
        }
    }
}

enum Hidden {
    Say(Vec<Part>),
    Call(Call),
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
