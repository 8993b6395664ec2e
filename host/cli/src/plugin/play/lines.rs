//! Lines that a person types, and the display of values.

use std::cell::RefCell;
use std::path::PathBuf;

use gymkhana_record::{Function, NamedValue, Value};
use gymkhana_sandbox::CallError;

use super::input::Input;
use crate::error::CliResult;
use crate::printer::Printer;

/// Typed lines, and the printer of answers.
pub struct TypedLines<'a> {
    printer: &'a Printer,
    input: RefCell<Input>,
}

/// Request of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// A call of a function with its arguments.
    Call { name: String, arguments: String },
    /// A message.
    Say(String),
    /// The functions that may be called.
    Functions,
    /// The oracle's next turn; with `true` it is taken.
    Oracle { take: bool },
    /// The environment's privileged view.
    Privileged,
    /// A picture, shown or written to an SVG file.
    Render { file: Option<PathBuf> },
    /// The last turn taken back.
    Undo,
    /// The list of commands.
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
            ("privileged", "") => Self::Privileged,
            ("render", "") => Self::Render { file: None },
            ("render", file) if file.ends_with(".svg") => Self::Render { file: Some(file.into()) },
            ("undo", "") => Self::Undo,
            ("help", "") => Self::Help,
            ("quit", "") => Self::Quit,
            _ => Self::Say(line.to_owned()),
        }
    }
}

impl<'a> TypedLines<'a> {
    /// Reads from standard input.
    pub fn new(printer: &'a Printer) -> Self {
        Self { printer, input: RefCell::new(Input::open()) }
    }

    /// The next line, until there is none.
    pub fn next(&self) -> CliResult<Option<Typed>> {
        Ok(self.input.borrow_mut().line(self.printer)?.map(|line| Typed::read(&line)))
    }

    /// Shows a text.
    pub fn show(&self, text: impl std::fmt::Display) {
        self.printer.result(text);
    }

    /// Shows functions with their parameters.
    pub fn show_functions<'f>(&self, functions: impl Iterator<Item = &'f Function>) {
        let mut any = false;
        for function in functions {
            any = true;
            self.show(format!("{}: {}\n  {}", function.name, function.description, function.parameters));
        }
        if !any {
            self.show("the plugin offers 0 functions");
        }
    }

    /// Shows a named value.
    pub fn show_fact(&self, fact: &NamedValue) {
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

    /// Shows an error that changes nothing.
    pub fn show_refusal(&self, error: &CallError) {
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
        assert_eq!(Typed::read("privileged"), Typed::Privileged);
        assert_eq!(Typed::read("render"), Typed::Render { file: None });
        assert_eq!(Typed::read("render a b.svg"), Typed::Render { file: Some("a b.svg".into()) });
        assert_eq!(Typed::read("render it"), say("render it"));
        assert_eq!(Typed::read("undo it"), say("undo it"));
        assert_eq!(Typed::read("say undo"), say("undo"));
        assert_eq!(Typed::read("call"), say("call"), "poker players say it");
        assert_eq!(Typed::read(""), say(""));
    }
}
