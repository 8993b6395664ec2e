//! The function `strftime_now`, with a fixed date, so that prompts do not depend on the day.

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::Builder;
use crate::value::{Args, Val};

/// The part of the date for a code: Friday, 26 July 2024, at midnight.
fn part(code: &str) -> Option<&'static str> {
    Some(match code {
        "Y" | "G" => "2024",
        "y" => "24",
        "C" => "20",
        "m" => "07",
        "-m" => "7",
        "d" | "e" | "-d" | "-e" => "26",
        "j" | "-j" => "208",
        "b" | "h" => "Jul",
        "B" => "July",
        "a" => "Fri",
        "A" => "Friday",
        "w" | "u" => "5",
        "U" | "W" => {
            if code == "U" {
                "29"
            } else {
                "30"
            }
        }
        "V" => "30",
        "H" | "M" | "S" => "00",
        "-H" | "-M" | "-S" => "0",
        "I" | "-I" => "12",
        "p" => "AM",
        "f" => "000000",
        "z" | "Z" => "",
        "c" => "Fri Jul 26 00:00:00 2024",
        "x" | "D" => "07/26/24",
        "X" | "T" => "00:00:00",
        "R" => "00:00",
        "F" => "2024-07-26",
        "n" => "\n",
        "t" => "\t",
        "%" => "%",
        _ => return None,
    })
}

/// The fixed date in a format.
pub(super) fn strftime(cx: &Context, args: Args) -> Result<Val, Fault> {
    let [format] = args.bind("strftime_now", ["format"], 1)?;
    let format = format.need_str("the format of `strftime_now`")?;
    cx.inspect(format);
    let mut date = Builder::default();
    let mut letters = format.letters();
    while let Some((letter, mark)) = letters.next() {
        if letter != '%' {
            date.letter(letter, mark.derived());
            continue;
        }
        let mut code = String::new();
        for (letter, _) in letters.by_ref() {
            code.push(letter);
            if letter != '-' {
                break;
            }
        }
        match part(&code) {
            Some(part) => date.add(part, mark.derived()),
            None => return fail(format!("`strftime_now` has no code `%{code}`")),
        }
    }
    Val::text(cx, date.finish())
}
