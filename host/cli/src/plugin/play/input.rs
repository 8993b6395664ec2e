//! Lines from standard input: typed with an editor and a history on a terminal, else read as they are.

use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::io::{BufRead, IsTerminal, stdin, stdout};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use gymkhana_registry_client::user_folder;
use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, Result as EditorResult};

use crate::error::{Classify, CliResult};
use crate::printer::Printer;

const PROMPT: &str = "> ";

/// Lines that the history keeps.
const HISTORY_LENGTH: usize = 1000;

const UNREADABLE: &str = "standard input cannot be read; type UTF-8";

/// Standard input.
pub enum Input {
    /// A terminal for input and output, with the file of its history and the lines of a paste that are not read yet.
    Edited { editor: Box<DefaultEditor>, history: Option<PathBuf>, pasted: VecDeque<String> },
    /// A person types, and the output goes elsewhere.
    Prompted,
    /// A pipe or a file.
    Plain,
}

impl Input {
    /// Opens standard input. Only terminals have a history.
    pub fn open() -> Self {
        match (stdin().is_terminal(), stdout().is_terminal()) {
            (true, true) => edited().unwrap_or(Self::Prompted),
            (true, false) => Self::Prompted,
            (false, _) => Self::Plain,
        }
    }

    /// The next line, until there is none or Ctrl-C or Ctrl-D is typed.
    pub fn line(&mut self, printer: &Printer) -> CliResult<Option<String>> {
        match self {
            Self::Edited { editor, pasted, .. } => {
                if pasted.is_empty() {
                    match editor.readline(PROMPT) {
                        Ok(lines) => pasted
                            .extend(lines.trim_end_matches(['\n', '\r']).split(['\n', '\r']).map(ToOwned::to_owned)),
                        Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(None),
                        Err(error) => return Err(error).user_context(UNREADABLE),
                    }
                }
                Ok(pasted.pop_front())
            }
            Self::Prompted => {
                printer.piece(PROMPT);
                read()
            }
            Self::Plain => read(),
        }
    }
}

impl Drop for Input {
    /// Saves the history. A history that cannot be saved is lost: it is a convenience.
    fn drop(&mut self) {
        if let Self::Edited { editor, history: Some(file), .. } = self {
            let _ = file.parent().map(|folder| DirBuilder::new().recursive(true).mode(0o700).create(folder));
            let _ = editor.save_history(file);
        }
    }
}

fn edited() -> EditorResult<Input> {
    let config = Config::builder().auto_add_history(true).max_history_size(HISTORY_LENGTH)?.build();
    let mut editor = DefaultEditor::with_config(config)?;
    let history = user_folder("XDG_STATE_HOME", ".local/state").map(|folder| folder.join("play_history"));
    if let Some(file) = &history {
        // A first play has no history.
        let _ = editor.load_history(file);
    }
    Ok(Input::Edited { editor: Box::new(editor), history, pasted: VecDeque::new() })
}

fn read() -> CliResult<Option<String>> {
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line).user_context(UNREADABLE)?;
    Ok((read > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
}
