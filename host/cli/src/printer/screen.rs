//! The last line of a terminal, drawn again and again.
//!
//! A terminal that becomes narrower breaks a drawn line into rows. The line is therefore erased by its rows at the
//! current width; crates for progress bars erase the rows of the width at which they drew.

use std::io::{Write, stderr};

use super::layout::columns;

/// Width of a terminal that does not tell its width.
const DEFAULT_WIDTH: usize = 80;

/// The line on the screen.
#[derive(Debug, Default)]
pub struct Screen {
    /// The drawn text; empty without a line.
    drawn: String,
}

impl Screen {
    /// Draws the line that this function makes for a width, over the last one.
    pub fn draw(&mut self, line: impl FnOnce(usize) -> String) {
        let width = width();
        let line = line(width);
        let text = format!("{}{line}", erase(&self.drawn, width));
        // A failed draw is repeated at the next tick.
        let _ = stderr().write_all(text.as_bytes());
        self.drawn = line;
    }

    /// Erases the line.
    pub fn clear(&mut self) {
        let _ = stderr().write_all(erase(&self.drawn, width()).as_bytes());
        self.drawn.clear();
    }

    /// Keeps the line as it is; whatever follows is below it.
    pub fn keep(&mut self) {
        if !self.drawn.is_empty() {
            let _ = stderr().write_all(b"\n");
            self.drawn.clear();
        }
    }
}

/// Columns of the terminal on standard error.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH)
}

/// Moves to the start of a drawn line in a terminal of this width, and erases from there.
fn erase(drawn: &str, width: usize) -> String {
    match columns(drawn).saturating_sub(1) / width {
        _ if drawn.is_empty() => String::new(),
        0 => "\r\u{1b}[J".to_owned(),
        rows => format!("\r\u{1b}[{rows}A\u{1b}[J"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 columns take one row of 120 or 100, two of 60 and three of 40; the cursor is in the last one.
    #[test]
    fn a_line_is_erased_by_its_rows_at_the_current_width() {
        let drawn = "x".repeat(100);
        assert_eq!(erase(&drawn, 120), "\r\u{1b}[J");
        assert_eq!(erase(&drawn, 100), "\r\u{1b}[J");
        assert_eq!(erase(&drawn, 60), "\r\u{1b}[1A\u{1b}[J");
        assert_eq!(erase(&drawn, 40), "\r\u{1b}[2A\u{1b}[J");
        assert_eq!(erase("", 40), "");
    }
}
