//! Commands in a terminal of a given width.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Bytes that a line editor writes before each line.
const EDITOR_BEGINS: &[u8] = b"\x1b[?2004h";

/// Runs a command in a terminal of `width` columns. Each text of `typed` is typed once the command edits a line. Returns
/// what it wrote. `NO_COLOR` has an effect only if the command sets it.
pub fn in_terminal(mut command: Command, width: u16, typed: &[&str]) -> String {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).expect("granted");
    unlockpt(&controller).expect("unlocked");
    tcsetwinsize(&controller, Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }).expect("a size");
    let name = ptsname(&controller, Vec::new()).expect("a name");
    let terminal = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("opened");
    let clone = || terminal.try_clone().expect("a descriptor");
    command.stdin(clone()).stdout(clone()).stderr(clone()).env("TERM", "xterm");
    if command.get_envs().all(|(name, _)| name != "NO_COLOR") {
        command.env_remove("NO_COLOR");
    }
    let mut child = command.spawn().expect("the command can be started");
    // The output ends when no process has the terminal open.
    drop((command, terminal));
    let mut controller = File::from(controller);
    let (mut written, mut chunk) = (Vec::new(), [0; 4096]);
    let (mut texts, mut seen) = (typed.iter(), 0);
    // Linux reports the end as an error, after the last byte.
    while let Ok(length @ 1..) = controller.read(&mut chunk) {
        written.extend_from_slice(&chunk[..length]);
        let begins = written[seen..].windows(EDITOR_BEGINS.len()).position(|window| window == EDITOR_BEGINS);
        if let Some(place) = begins {
            seen += place + EDITOR_BEGINS.len();
            controller.write_all(texts.next().copied().unwrap_or_default().as_bytes()).expect("typed");
        }
    }
    let written = String::from_utf8(written).expect("the host writes UTF-8");
    assert!(child.wait().expect("it ends").success(), "{written}");
    written
}

/// Lines that a terminal of `width` columns shows in the end. A line that took several rows is one line.
pub fn screen(written: &str, width: u16) -> Vec<String> {
    const ROWS: u16 = 1000;
    let size = |number: u16| number.try_into().expect("a size above 0");
    let mut parser = vt100::Parser::new(size(ROWS), size(width), 0);
    parser.process(written.as_bytes());
    let screen = parser.screen();
    let (mut lines, mut line) = (Vec::new(), String::new());
    for (row, text) in (0..ROWS).zip(screen.rows(0, width)) {
        line.push_str(&text);
        if !screen.row_wrapped(row) {
            lines.push(std::mem::take(&mut line));
        }
    }
    let last = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines.truncate(last);
    lines
}
