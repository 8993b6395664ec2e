//! `host completions`: prints a shell's script that completes commands, options and their values, for both names of the
//! program.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, CompletionsArgs};
use crate::printer::Printer;

/// Names of the program in an installation.
const NAMES: [&str; 2] = ["host", "gymkhana"];

/// Runs the command.
pub fn completions(args: &CompletionsArgs, printer: &Printer) {
    let mut script = Vec::new();
    for name in NAMES {
        clap_complete::generate(args.shell, &mut Cli::command(), name, &mut script);
    }
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Zsh {
        // zsh loads a file of its search path by the names in the first line alone.
        script = script.replacen("#compdef host\n", "#compdef host gymkhana\n", 1);
    }
    printer.piece(&script);
}
