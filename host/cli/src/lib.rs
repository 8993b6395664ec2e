//! The command line: plugins, registries, and recorded runs. Commands that need a model are in the program
//! `gymkhana-train`, which is linked with libtorch and which [`main`] starts.

// The commands that use the rest are in the full build.
#![cfg_attr(not(feature = "full"), allow(dead_code))]

pub mod args;
pub mod columns;
mod commands;
pub mod curve;
#[cfg(feature = "full")]
mod data;
#[cfg(feature = "full")]
pub mod doctor;
pub mod environment_block;
pub mod error;
mod escape;
pub mod evidence;
pub mod failures;
#[cfg(feature = "full")]
mod init;
mod launch;
mod libtorch;
mod parse;
#[cfg(feature = "full")]
mod plugin;
pub mod plugins;
pub mod printer;
#[cfg(feature = "full")]
pub mod registry;
// Refusal of names in registries.
#[cfg(not(feature = "full"))]
#[path = "plugin_files.rs"]
pub mod registry;
pub mod runtime;
#[cfg(feature = "full")]
mod serving;
pub mod units;
pub mod waits;

use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::args::Cli;
use crate::error::CliResult;
use crate::printer::Printer;

pub use crate::commands::page::bind as bind_page;

/// The program `host`.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = gymkhana_sandbox::run_as_compiler() {
        return code;
    }
    environment_block::clear();
    ExitCode::from(run(std::env::args_os()))
}

/// Runs the command of these arguments, the first of which is the program's name, and returns the exit code. Ends the
/// process for help and wrong arguments.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = Cli::try_parse_from(&arguments).unwrap_or_else(|error| readable(error, &arguments).exit());
    finish(&Printer::default(), |printer| commands::dispatch(cli.command, printer))
}

/// The error with the nearest command, and with words for a number that is too large. clap suggests `yank` for `man` and
/// nothing for `rn`.
fn readable(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let parsed = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<ParseIntError>());
    if parsed.is_some_and(|error| matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow)) {
        let text = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let (value, argument) = (text(ContextKind::InvalidValue), text(ContextKind::InvalidArg));
        let message = format!("invalid value '{value}' for '{argument}': the number is too large");
        return clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(&Cli::command());
    }
    if let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) {
        let names = subcommands(typed, arguments);
        let near = gymkhana_nearest::nearest(typed, names.iter().map(String::as_str)).map(str::to_owned);
        error.remove(ContextKind::SuggestedSubcommand);
        if let Some(near) = near {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near]));
        }
    }
    error
}

/// Names of the commands in the place where `typed` is none of them.
fn subcommands(typed: &str, arguments: &[OsString]) -> Vec<String> {
    let mut command = Cli::command();
    for argument in arguments.iter().skip(1).take_while(|argument| *argument != typed) {
        if let Some(inner) = command.find_subcommand(argument) {
            command = inner.clone();
        }
    }
    let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    visible.map(|inner| inner.get_name().to_owned()).collect()
}

/// Runs a command, prints its error and returns the exit code.
pub fn finish(printer: &Printer, command: impl FnOnce(&Printer) -> CliResult<u8>) -> u8 {
    match command(printer).and_then(|code| printer.all_printed().map(|()| code)) {
        Ok(code) => code,
        Err(error) => {
            printer.error(&error);
            error::exit_code(&error)
        }
    }
}
