//! The table of waits, and its reference page.

mod table;

use std::fmt::Write;

use gymkhana_waits::Counterpart;

use table::{AfterWait, BoundOfWait, TABLE, WaitRow};

const INTRODUCTION: &str = "# Waits

What the program waits for, how long, and what happens then. After a bound, messages name the counterpart and the duration: \
\"the MCP server `files` did not answer for 30 s\". Bounds count the time in which the machine runs: a suspended machine and a \
changed clock spend none of it.

A training step and the end of episodes have no bound of their own, because their waits inside have one. The run reports them \
after the time below, and every ten minutes then.

Files have no bound: a disk that does not answer keeps the thread that waits for it. A full disk, a read-only folder and too few \
descriptors are errors at once, with exit code 2.
";

/// The page, without its first line.
#[must_use]
pub fn waits_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for counterpart in Counterpart::ALL {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {}\n\n", title(counterpart));
        page.push_str("| waits for | bound | then | test |\n| --- | --- | --- | --- |\n");
        for row in TABLE.iter().filter(|row| row.counterpart == counterpart) {
            let WaitRow { what, bound, after, evidence, .. } = row;
            let _ =
                writeln!(page, "| {what} | {} | {} | {} |", shown_bound(bound), shown_after(after), evidence.shown());
        }
    }
    page
}

/// Name of a counterpart without its article, as a heading.
fn title(counterpart: Counterpart) -> String {
    let name = counterpart.name();
    let name = name.strip_prefix("the ").unwrap_or(name);
    let (first, rest) = name.split_at(name.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}", first.to_uppercase())
}

fn shown_bound(bound: &BoundOfWait) -> String {
    match bound {
        BoundOfWait::Key(table, key, default) => format!("`{key}` of {table}, {default} s by default"),
        BoundOfWait::Argument(command, name, default) => format!("`{name}` of `{command}`, {default} s by default"),
        BoundOfWait::Constant(_, name, duration) => format!("{} s (`{name}`)", duration.as_secs()),
        BoundOfWait::Reported(_, name, duration) => format!("reported after {} s (`{name}`)", duration.as_secs()),
        BoundOfWait::None => "no wait".to_owned(),
    }
}

fn shown_after(after: &AfterWait) -> String {
    match after {
        AfterWait::GoesOn(text) => format!("goes on: {text}"),
        AfterWait::Retried(text) => format!("asks again: {text}"),
        AfterWait::Fails(text) => format!("fails: {text}"),
        AfterWait::Ends(code, text) => format!("ends with code {code}: {text}"),
    }
}

#[cfg(test)]
mod tests;
