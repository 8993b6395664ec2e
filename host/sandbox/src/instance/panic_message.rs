//! Cause of a trap in the words of the guest: an exception of a plugin in Python or JavaScript with the author's file,
//! line and function, or the message of a panic.

use gymkhana_record::LogLevel;

use crate::LogLine;

/// Lines of a panic message.
const PANIC_LINES: usize = 3;

/// Longest message of a panic or an exception, in bytes.
const MAX_BYTES: usize = 300;

/// First line of a Python traceback.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Start of the entry that the JavaScript SDK logs for an exception.
const UNCAUGHT: &str = "Uncaught ";

/// Line that Rust's runtime adds to the first panic.
const BACKTRACE_HINT: &str = "note: run with `RUST_BACKTRACE";

/// Panic of the Python runtime after it printed an exception.
const PYTHON_PANIC: &str = "Python function threw an unexpected exception";

/// Folders of the Python runtime inside a component. An author's modules are in `/0`, `/1` and so on.
const PYTHON_FOLDERS: [&str; 4] = ["/python/", "/bundled/", "/world/", "<"];

/// Modules that the Python SDK adds.
const PYTHON_SDK: [&str; 2] = ["gymkhana_sdk/", "gymkhana_entry.py"];

/// The message of a guest whose call failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PanicMessage {
    /// An exception: `plugin.py:45 in helper: AttributeError: …`.
    Exception(String),
    /// The last lines of standard error, where a panic is reported.
    Panic(String),
}

impl PanicMessage {
    /// Finds them in the console output and the log of the failed call.
    pub fn of(console: &[LogLine], log: &[LogLine]) -> Option<Self> {
        let errors: Vec<&str> = lines_of(console, LogLevel::Warn);
        let exception = python_exception(&errors).or_else(|| javascript_exception(log));
        exception.map(Self::Exception).or_else(|| panic_message(&errors).map(Self::Panic))
    }
}

/// Console output without what a language runtime adds: a hint about variables that guests do not have, and after an
/// exception its own frames and its panic.
pub(crate) fn without_internals(mut console: Vec<LogLine>) -> Vec<LogLine> {
    console.retain(|line| line.level != LogLevel::Warn || !line.message.starts_with(BACKTRACE_HINT));
    if console.iter().any(|line| line.message == TRACEBACK) { without_frames(console) } else { console }
}

/// Console output without the frames and the panic of the Python runtime.
fn without_frames(console: Vec<LogLine>) -> Vec<LogLine> {
    let mut kept: Vec<LogLine> = Vec::with_capacity(console.len());
    let mut in_runtime = false;
    for line in console {
        if line.level != LogLevel::Warn {
            kept.push(line);
        } else if let Some(frame) = Frame::of(&line.message) {
            in_runtime = frame.is_runtime();
            if !in_runtime {
                kept.push(LogLine { message: frame.to_string(), level: line.level });
            }
        } else if line.message == PYTHON_PANIC {
            kept.pop_if(|before| before.message.contains("panicked at"));
        } else if !in_runtime || !line.message.starts_with("    ") {
            // Otherwise it is the source of a frame of the runtime.
            in_runtime = false;
            kept.push(line);
        }
    }
    kept
}

fn lines_of(lines: &[LogLine], level: LogLevel) -> Vec<&str> {
    lines.iter().filter(|line| line.level == level).map(|line| line.message.as_str()).collect()
}

/// Line of a Python traceback that names a function.
struct Frame<'a> {
    path: &'a str,
    line: &'a str,
    function: &'a str,
}

impl<'a> Frame<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (path, rest) = text.strip_prefix("  File \"")?.split_once("\", line ")?;
        let (line, function) = rest.split_once(", in ")?;
        Some(Self { path: in_folder(path), line, function })
    }

    /// Whether the frame is of the runtime, the standard library or the SDK.
    fn is_runtime(&self) -> bool {
        PYTHON_FOLDERS.iter().any(|folder| self.path.starts_with(folder))
            || PYTHON_SDK.iter().any(|part| self.path.starts_with(part))
    }
}

impl std::fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, line, function } = self;
        write!(f, "  File \"{path}\", line {line}, in {function}")
    }
}

/// Path of a module without the numbered folder of the component, such as `/1/`.
fn in_folder(path: &str) -> &str {
    let inside = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    match inside {
        Some((number, path)) if number.bytes().all(|byte| byte.is_ascii_digit()) => path,
        _ => path,
    }
}

/// The last exception of a Python traceback, at the innermost line of the author.
fn python_exception(errors: &[&str]) -> Option<String> {
    let start = errors.iter().rposition(|line| *line == TRACEBACK)?;
    let trace = &errors[start + 1..];
    let end = trace.iter().position(|line| !line.starts_with(' '))?;
    let author = trace[..end].iter().rev().filter_map(|line| Frame::of(line)).find(|frame| !frame.is_runtime());
    let belongs = |line: &&&str| !line.is_empty() && !line.starts_with("thread '");
    let message: Vec<&str> = trace[end..].iter().take_while(belongs).copied().collect();
    let message = cut(&message.join(" "));
    Some(match author {
        Some(Frame { path, line, function }) => format!("{path}:{line} in {function}: {message}"),
        None => message,
    })
}

/// An exception that the JavaScript SDK logged, at its first frame. The SDK lists the author's frames only.
fn javascript_exception(log: &[LogLine]) -> Option<String> {
    let entries = lines_of(log, LogLevel::Error);
    let text = entries.iter().rev().find_map(|text| text.strip_prefix(UNCAUGHT))?;
    let (message, frames) = text.split_once("\n    at ").unwrap_or((text, ""));
    let message = cut(message);
    let frame = frames.lines().next().and_then(|frame| frame.strip_suffix(')')?.rsplit_once(" ("));
    Some(match frame {
        Some((function, place)) => format!("{place} in {function}: {message}"),
        None => message,
    })
}

/// Last lines of standard error.
fn panic_message(errors: &[&str]) -> Option<String> {
    let said = errors.iter().filter(|line| !line.starts_with("note: ")).map(|line| line.trim());
    let words: Vec<&str> = said.filter(|line| !line.is_empty()).collect();
    let message = words[words.len().saturating_sub(PANIC_LINES)..].join(" ");
    (!message.is_empty()).then(|| cut(&message))
}

fn cut(message: &str) -> String {
    message[..message.floor_char_boundary(MAX_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(level: LogLevel, text: &str) -> Vec<LogLine> {
        text.lines().map(|message| LogLine { level, message: message.to_owned() }).collect()
    }

    /// Standard error of an environment in Python: CPython's traceback, then the panic of componentize-py's runtime, whose
    /// last words users quoted.
    const PYTHON: &str = r#"before
Traceback (most recent call last):
  File "/3/gymkhana_sdk/_component/convert.py", line 56, in call
  File "/3/gymkhana_sdk/_component/environment.py", line 73, in step
  File "/3/gymkhana_sdk/rules.py", line 99, in step
  File "/2/plugin.py", line 31, in step
  File "/2/plugin.py", line 45, in helper
AttributeError: 'Action' object has no attribute 'no_such_thing'

thread '<unnamed>' (1) panicked at runtime/src/lib.rs:1293:29:
Python function threw an unexpected exception
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"#;

    #[test]
    fn a_python_exception_is_at_the_authors_innermost_line() {
        let console = lines(LogLevel::Warn, PYTHON);
        let said = "plugin.py:45 in helper: AttributeError: 'Action' object has no attribute 'no_such_thing'";
        assert_eq!(PanicMessage::of(&console, &[]), Some(PanicMessage::Exception(said.to_owned())));
    }

    #[test]
    fn the_log_keeps_the_authors_part_of_a_traceback() {
        let kept: Vec<String> =
            without_internals(lines(LogLevel::Warn, PYTHON)).into_iter().map(|line| line.message).collect();
        let expected = [
            "before",
            TRACEBACK,
            "  File \"plugin.py\", line 31, in step",
            "  File \"plugin.py\", line 45, in helper",
            "AttributeError: 'Action' object has no attribute 'no_such_thing'",
            "",
        ];
        assert_eq!(kept, expected);
        // Other output is unchanged.
        let other = lines(LogLevel::Warn, "a panic\n    indented\nnote: run with `RUST_BACKTRACE=1`");
        assert_eq!(without_internals(other.clone()), other[..2]);
    }

    #[test]
    fn the_last_exception_of_a_chain_counts_and_library_frames_do_not() {
        let chain = r#"Traceback (most recent call last):
  File "/1/plugin.py", line 5, in parse
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/1/game/board.py", line 12, in load
  File "/python/json/decoder.py", line 345, in decode
json.decoder.JSONDecodeError: Expecting value:
line 1 column 1
"#;
        let said = "game/board.py:12 in load: json.decoder.JSONDecodeError: Expecting value: line 1 column 1";
        assert_eq!(
            PanicMessage::of(&lines(LogLevel::Warn, chain), &[]),
            Some(PanicMessage::Exception(said.to_owned()))
        );
    }

    #[test]
    fn a_javascript_exception_is_read_from_the_entry_of_the_sdk() {
        let message = "Uncaught TypeError: can't access property \"length\", x is undefined\n    at helper (plugin.mjs:30)\n    \
                       at call (plugin.mjs:12)";
        let log = [LogLine { level: LogLevel::Error, message: message.to_owned() }];
        let said = "plugin.mjs:30 in helper: TypeError: can't access property \"length\", x is undefined";
        assert_eq!(PanicMessage::of(&[], &log), Some(PanicMessage::Exception(said.to_owned())));
        let bare = [LogLine { level: LogLevel::Error, message: "Uncaught no error object".to_owned() }];
        assert_eq!(PanicMessage::of(&[], &bare), Some(PanicMessage::Exception("no error object".to_owned())));
    }

    #[test]
    fn a_panic_is_the_end_of_standard_error() {
        let panic = "\nthread '<unnamed>' (1) panicked at src/lib.rs:7:5:\na panic, as asked\nnote: run with `RUST_BACKTRACE=1` \
                     environment variable to display a backtrace\n";
        let said = "thread '<unnamed>' (1) panicked at src/lib.rs:7:5: a panic, as asked";
        assert_eq!(PanicMessage::of(&lines(LogLevel::Warn, panic), &[]), Some(PanicMessage::Panic(said.to_owned())));
        assert_eq!(PanicMessage::of(&lines(LogLevel::Info, panic), &[]), None, "standard output reports no panic");
    }
}
