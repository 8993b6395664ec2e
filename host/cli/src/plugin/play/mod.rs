//! `host plugin play`: a person plays an environment or calls a tool. Every line that is typed is a command or, to an
//! environment, a message; it works the same when the lines come from a file.

mod episode;
mod session;

use std::io::{BufRead, IsTerminal, stdin};

use gymkhana_record::{Function, NamedValue, Seed, Value};
use gymkhana_registry::Kind;
use gymkhana_sandbox::CallError;

use crate::error::{Classify, CliError, CliResult};
use crate::plugin::args::PlayArgs;
use crate::plugin::log;
use crate::plugin::plugin_inputs::{self, PluginInputs};
use crate::printer::Printer;

/// Plays.
pub fn play(args: &PlayArgs, printer: &Printer) -> CliResult<()> {
    let given = PluginInputs::read(&args.file)?;
    let kinds = &given.manifest.kinds;
    if !kinds.contains(&Kind::Environment) && !kinds.contains(&Kind::Tool) {
        return Err(CliError::user(format!(
            "plugin `{}` is a reward and cannot be played\nhint: run `host plugin test` to see its scores",
            given.manifest.name
        )));
    }
    let sandbox = plugin_inputs::sandbox(&plugin_inputs::author_config(), printer)?;
    let plugin = given.load(&sandbox)?.with_assets(plugin_inputs::assets(&args.asset)?);
    let plugin = log::printed(&plugin, printer);
    let options = plugin_inputs::options(plugin.name(), &args.option)?;
    let runtime = plugin_inputs::runtime()?;
    let lines = Lines { printer, terminal: stdin().is_terminal() };
    if kinds.contains(&Kind::Environment) {
        return runtime.block_on(episode::play(&plugin, &options, args, &lines));
    }
    let setup = plugin_inputs::setup(args.setup.as_deref())?;
    runtime.block_on(session::play(&plugin, &options, setup.as_deref(), Seed(args.seed), &lines))
}

/// What is typed, and where answers go.
struct Lines<'a> {
    printer: &'a Printer,
    /// A person types, and wants to be asked.
    terminal: bool,
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// A call of a function with its arguments.
    Call { name: String, arguments: String },
    /// A message.
    Say(String),
    /// The functions that may be called.
    Functions,
    /// The expert's next turn; with `true` it is taken.
    Oracle { take: bool },
    /// A picture.
    Render,
    /// The last turn taken back.
    Undo,
    /// What can be typed.
    Help,
    /// The end.
    Quit,
}

impl Typed {
    fn read(line: &str) -> Self {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (word, rest.trim()) {
            ("call", call) if !call.is_empty() => {
                let (name, arguments) = call.split_once(char::is_whitespace).unwrap_or((call, "{}"));
                Self::Call { name: name.to_owned(), arguments: arguments.trim().to_owned() }
            }
            ("say", text) => Self::Say(text.to_owned()),
            ("functions", "") => Self::Functions,
            ("oracle", "") => Self::Oracle { take: false },
            ("follow", "") => Self::Oracle { take: true },
            ("render", "") => Self::Render,
            ("undo", "") => Self::Undo,
            ("help", "") => Self::Help,
            ("quit", "") => Self::Quit,
            _ => Self::Say(line.to_owned()),
        }
    }
}

impl Lines<'_> {
    /// The next line, until there is none.
    fn next(&self) -> CliResult<Option<Typed>> {
        if self.terminal {
            self.printer.piece("> ");
        }
        let mut line = String::new();
        let read = stdin().lock().read_line(&mut line).user_context("standard input cannot be read; type UTF-8")?;
        Ok((read > 0).then(|| Typed::read(line.trim_end_matches(['\n', '\r']))))
    }

    fn show(&self, text: impl std::fmt::Display) {
        self.printer.result(text);
    }

    fn show_functions<'f>(&self, functions: impl Iterator<Item = &'f Function>) {
        let mut any = false;
        for function in functions {
            any = true;
            self.show(format!("{}: {}\n  {}", function.name, function.description, function.parameters));
        }
        if !any {
            self.show("the plugin offers 0 functions");
        }
    }

    fn show_fact(&self, fact: &NamedValue) {
        let value = match &fact.value {
            Value::Flag(flag) => flag.to_string(),
            Value::Integer(integer) => integer.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) | Value::Other(text) => text.clone(),
            Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        };
        // A text of several lines begins on its own.
        let gap = if value.contains('\n') { "\n" } else { " " };
        self.show(format!("{} ={gap}{value}", fact.name));
    }

    fn show_refusal(&self, error: &CallError) {
        self.show(format!("[{error}]"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_a_message() {
        let call = |name: &str, arguments: &str| Typed::Call { name: name.to_owned(), arguments: arguments.to_owned() };
        let say = |text: &str| Typed::Say(text.to_owned());
        assert_eq!(Typed::read("call add {\"a\": 1}"), call("add", "{\"a\": 1}"));
        assert_eq!(Typed::read("call add"), call("add", "{}"));
        assert_eq!(Typed::read("undo"), Typed::Undo);
        assert_eq!(Typed::read("undo it"), say("undo it"));
        assert_eq!(Typed::read("say undo"), say("undo"));
        assert_eq!(Typed::read("call"), say("call"), "poker players say it");
        assert_eq!(Typed::read(""), say(""));
    }
}
