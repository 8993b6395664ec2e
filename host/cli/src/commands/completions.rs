//! `host completions`: prints a shell's script that completes commands, options and their values.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::printer::Printer;

/// Runs the command.
pub fn completions(args: &CompletionsArgs, printer: &Printer) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "host", &mut script);
    printer.piece(&String::from_utf8_lossy(&script));
}
