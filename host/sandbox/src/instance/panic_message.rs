//! Cause of a trap in the words of the guest: an exception of a plugin in Python or JavaScript with the author's file,
//! line and function, or the message of a panic.

use gymkhana_record::LogLevel;

use crate::LogLine;

/// Last lines of standard error that are quoted if they hold no panic.
const LAST_LINES: usize = 3;

/// Longest message of a panic or an exception, in bytes.
const MAX_BYTES: usize = 300;

/// First line of a Python traceback.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Start of the entry that the JavaScript SDK logs for an exception.
const UNCAUGHT: &str = "Uncaught ";

/// Line that Rust's runtime adds to the first panic.
const BACKTRACE_HINT: &str = "note: run with `RUST_BACKTRACE";

/// Last line of the JavaScript runtime, after its own account of an exception.
const JAVASCRIPT_ABORT: &str = "Redirecting call to abort() to mozalloc_abort";

/// Words of Rust's runtime before the place of a panic. The line begins with `thread '`.
const PANICKED: &str = " panicked at ";

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
    /// A panic: `src/lib.rs:61:26: MESSAGE`.
    Panic(String),
    /// The last lines of standard error. The guest reported neither an exception nor a panic.
    LastLines(String),
}

impl PanicMessage {
    /// Finds them in the log of the failed call and in the console output after the last entry of that log.
    pub fn of(console: &[LogLine], log: &[LogLine]) -> Option<Self> {
        let rest = lines_of(console, LogLevel::Warn);
        // Console output before a log entry is already in the log.
        let errors = [lines_of(log, LogLevel::Warn), rest.clone()].concat();
        let exception = python_exception(&errors).or_else(|| javascript_exception(log));
        let panic = || panic_message(&errors).map(Self::Panic);
        exception.map(Self::Exception).or_else(panic).or_else(|| last_lines(&rest).map(Self::LastLines))
    }
}

/// Console output without what a language runtime adds: a hint about variables that guests do not have, and after an
/// exception its own frames and its panic. `log` holds the earlier entries of the call.
pub(crate) fn without_internals(mut console: Vec<LogLine>, log: &[LogLine]) -> Vec<LogLine> {
    console.retain(|line| line.level != LogLevel::Warn || !line.message.starts_with(BACKTRACE_HINT));
    if is_javascript_abort(&console, log) {
        console.retain(|line| line.level != LogLevel::Warn);
        return console;
    }
    if console.iter().any(|line| line.message == TRACEBACK) { without_frames(console) } else { console }
}

/// Whether the errors of `console` are the JavaScript runtime's account of an exception, which names the engine's own
/// files. The SDK logs the exception last, so all lines after that entry are the runtime's.
fn is_javascript_abort(console: &[LogLine], log: &[LogLine]) -> bool {
    let is_logged =
        log.last().is_some_and(|entry| entry.level == LogLevel::Error && entry.message.starts_with(UNCAUGHT));
    let errors = lines_of(console, LogLevel::Warn);
    is_logged && errors.iter().rev().find(|line| !line.is_empty()) == Some(&JAVASCRIPT_ABORT)
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

/// Place and message of the last panic. Rust's runtime writes them last, except for its hint.
fn panic_message(errors: &[&str]) -> Option<String> {
    let (start, place) = errors.iter().enumerate().rev().find_map(|(start, line)| Some((start, panic_place(line)?)))?;
    let message = said(&errors[start + 1..]).join(" ");
    Some(if message.is_empty() { cut(place) } else { cut(&format!("{place}: {message}")) })
}

/// Place of a panic, such as `src/lib.rs:61:26`, from its first line.
fn panic_place(line: &str) -> Option<&str> {
    let (_, place) = line.strip_prefix("thread '")?.split_once(PANICKED)?;
    Some(place.trim_end().trim_end_matches(':'))
}

/// Last lines of standard error.
fn last_lines(errors: &[&str]) -> Option<String> {
    let words = said(errors);
    let message = words[words.len().saturating_sub(LAST_LINES)..].join(" ");
    (!message.is_empty()).then(|| cut(&message))
}

/// Lines with text that are not hints of Rust's runtime.
fn said<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let lines = lines.iter().filter(|line| !line.starts_with("note: ")).map(|line| line.trim());
    lines.filter(|line| !line.is_empty()).collect()
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
            without_internals(lines(LogLevel::Warn, PYTHON), &[]).into_iter().map(|line| line.message).collect();
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
        assert_eq!(without_internals(other.clone(), &[]), other[..2]);
    }

    /// Standard error of an environment in JavaScript after the SDK has logged an exception.
    const JAVASCRIPT: &str = r#"invalid variant tag value `undefined` (received `TypeError: can't access property "length", nothing is undefined`) specified for `Error`
Stack:
  export_environment_0_1_0$step@/tmp/5e8bb91bb7dc/sources/initializer.js:1662:17

Redirecting call to abort() to mozalloc_abort
"#;

    #[test]
    fn the_log_leaves_out_the_javascript_runtimes_account_of_a_logged_exception() {
        let entry = |level, message: &str| LogLine { level, message: message.to_owned() };
        let uncaught = entry(LogLevel::Error, "Uncaught TypeError: nothing is undefined\n    at step (plugin.mjs:34)");
        let errors = lines(LogLevel::Warn, JAVASCRIPT);
        let printed = entry(LogLevel::Info, "printed");
        let console = [vec![printed.clone()], errors.clone()].concat();
        assert_eq!(without_internals(console, std::slice::from_ref(&uncaught)), [printed]);
        // Without the entry, the runtime's account is the only one.
        assert_eq!(without_internals(errors.clone(), &[]), errors);
        let later = [uncaught.clone(), entry(LogLevel::Info, "recovered")];
        assert_eq!(without_internals(errors.clone(), &later), errors);
        // Another end of the call is not the runtime's account.
        let own = lines(LogLevel::Warn, "thread '<unnamed>' (1) panicked at src/lib.rs:1:2:\nown words");
        assert_eq!(without_internals(own.clone(), &[uncaught]), own);
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
    fn a_panic_is_read_with_its_place_and_without_earlier_output() {
        let panic = "my own line\n\nthread '<unnamed>' (1) panicked at src/lib.rs:7:5:\na panic, as asked\nnote: run with \
                     `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        let said = |text: &str| Some(PanicMessage::Panic(text.to_owned()));
        let console = lines(LogLevel::Warn, panic);
        assert_eq!(PanicMessage::of(&console, &[]), said("src/lib.rs:7:5: a panic, as asked"));
        assert_eq!(PanicMessage::of(&[], &console), said("src/lib.rs:7:5: a panic, as asked"), "a log entry followed");
        assert_eq!(PanicMessage::of(&lines(LogLevel::Info, panic), &[]), None, "standard output reports no panic");
        let equal = "thread 'main' panicked at src/lib.rs:1:2:\nassertion `left == right` failed\n  left: 1\n right: 2";
        let words = "src/lib.rs:1:2: assertion `left == right` failed left: 1 right: 2";
        assert_eq!(PanicMessage::of(&lines(LogLevel::Warn, equal), &[]), said(words));
        let bare = lines(LogLevel::Warn, "thread 'main' panicked at src/lib.rs:1:2:");
        assert_eq!(PanicMessage::of(&bare, &[]), said("src/lib.rs:1:2"));
    }

    #[test]
    fn other_errors_are_quoted_as_such() {
        let console = lines(LogLevel::Warn, "one\ntwo\nthree\nmemory allocation of 8 bytes failed\n");
        let last = "two three memory allocation of 8 bytes failed";
        assert_eq!(PanicMessage::of(&console, &[]), Some(PanicMessage::LastLines(last.to_owned())));
        assert_eq!(PanicMessage::of(&[], &console), None, "an entry of the log interface reports no failure");
    }
}
