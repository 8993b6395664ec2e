//! Story templates, by difficulty.
//!
//! Gaps: `{N}` a name, `{S}` and `{s}` its pronoun, `{o}` containers, `{t}` things, `{u}` other things, `{a}` to `{e}`
//! the numbers of the sum in order, and `{x}` an irrelevant number. A model of a million bytes with a small context
//! must be able to read the stories, so they are short, plain ASCII, and use a distinct verb for each step of the sum.

use crate::sum::Sum;

/// Inclusive range of the numbers for a letter.
pub type Numbers = (u64, u64);

/// Story with gaps.
#[derive(Debug)]
pub struct Template {
    pub sum: Sum,
    /// Range of each letter.
    pub numbers: &'static [Numbers],
    pub text: &'static str,
}

const fn template(sum: &'static str, numbers: &'static [Numbers], text: &'static str) -> Template {
    Template { sum: Sum(sum), numbers, text }
}

pub const NAMES: [(&str, &str); 12] = [
    ("Ann", "She"),
    ("Ben", "He"),
    ("Cleo", "She"),
    ("Dan", "He"),
    ("Eva", "She"),
    ("Finn", "He"),
    ("Gia", "She"),
    ("Hugo", "He"),
    ("Ida", "She"),
    ("Jon", "He"),
    ("Kim", "She"),
    ("Leo", "He"),
];

pub const CONTAINERS: [&str; 6] = ["boxes", "bags", "bins", "jars", "packs", "crates"];

pub const THINGS: [&str; 12] =
    ["pens", "cups", "nuts", "coins", "eggs", "figs", "caps", "beads", "keys", "cards", "pins", "bolts"];

/// Two digits, so that a product requires a calculator.
const WIDE: Numbers = (11, 99);
const ANY: Numbers = (2, 99);
const FEW: Numbers = (2, 9);

/// One operation on two two-digit numbers, usually a product.
const ONE: &[Template] = &[
    template("a*b", &[WIDE, WIDE], "{N} has {a} {o} of {b} {t}. How many {t} in all?"),
    template("a+b", &[WIDE, WIDE], "{N} has {a} {t} and finds {b} more. How many {t} in all?"),
    template("a-b", &[WIDE, WIDE], "Of {a} {t} {N} sells {b}. How many {t} are left?"),
    template("a*b", &[WIDE, WIDE], "{N} finds {a} {t} a day. How many {t} in {b} days?"),
    template("a*b", &[WIDE, WIDE], "{N} lays {t} in {a} rows of {b}. How many {t} in all?"),
    template("a*b", &[WIDE, WIDE], "{N} fills {a} {o}, each with {b} {t}. How many {t}?"),
    template("a-b", &[WIDE, WIDE], "{N} takes {a} {t} and sells {b}. How many {t} remain?"),
    template("a*b", &[WIDE, WIDE], "Each of {a} {o} holds {b} {t}. How many {t} has {N}?"),
    template("a-b", &[WIDE, WIDE], "{N} had {a} {t} and sells {b} of them. How many {t} are left?"),
    template("a+b", &[WIDE, WIDE], "{N} has {a} {t} here and finds {b} there. How many {t} in all?"),
    template("a*b", &[WIDE, WIDE], "A box takes {a} {t}. How many {t} fill {b} boxes?"),
    template("a*b", &[WIDE, WIDE], "At {a} {t} an hour, how many {t} does {N} make in {b} hours?"),
    template("a*b", &[WIDE, WIDE], "All {a} friends of {N} have {b} {t}. How many {t} is that?"),
    template("a*b", &[WIDE, WIDE], "A hat costs {a} {t}. How many {t} does {N} pay for {b} hats?"),
    template("a+b", &[WIDE, WIDE], "{N} sees {a} {t} and then {b} more. How many {t} is that?"),
    template("a*b", &[WIDE, WIDE], "{N} has {a} shelves with {b} {t} on each. How many {t}?"),
];

/// Two operations, one of them a product that requires a calculator.
const TWO: &[Template] = &[
    template("a*b-c", &[WIDE, WIDE, ANY], "{N} has {a} {o} of {b} {t}. {S} loses {c} {t}. How many {t} are left?"),
    template("a*b-c", &[WIDE, WIDE, ANY], "{N} buys {a} {o} of {b} {t} and gives away {c} {t}. How many {t} are left?"),
    template("a*b-c", &[WIDE, WIDE, ANY], "{N} finds {a} {t} a day for {b} days and sells {c}. How many {t} are left?"),
    template("a*b+c", &[WIDE, WIDE, ANY], "{N} has {a} {o} of {b} {t}. {S} finds {c} more {t}. How many {t} in all?"),
    template("a*b+c", &[WIDE, WIDE, ANY], "{N} buys {a} {o} of {b} {t} and {c} loose {t}. How many {t} in all?"),
    template("a+b*c", &[ANY, WIDE, WIDE], "{N} had {a} {t}. {S} buys {b} {o} of {c} {t}. How many {t} in all?"),
    template("(a+b)*c", &[WIDE, WIDE, WIDE], "{N} has {a} red and {b} blue {o} of {c} {t}. How many {t} in all?"),
    template("(a+b)*c", &[WIDE, WIDE, WIDE], "{N} finds {a} big and {b} small {t} a day. How many {t} in {c} days?"),
    template("(a-b)*c", &[WIDE, ANY, WIDE], "{N} has {a} {o} of {c} {t} and sells {b} {o}. How many {t} are left?"),
    template("(a-b)*c", &[WIDE, ANY, WIDE], "Each day {N} makes {a} {t} and breaks {b}. How many {t} after {c} days?"),
    template("a*b*c", &[FEW, WIDE, WIDE], "{N} has {a} shops with {b} {o} each, all of {c} {t}. How many {t} in all?"),
    template("a*b*c", &[FEW, WIDE, WIDE], "{N} fills {a} {o} a day with {b} {t} each. How many {t} in {c} days?"),
];

/// Three operations.
const THREE: &[Template] = &[
    template(
        "a*b+c-d",
        &[WIDE, WIDE, ANY, ANY],
        "{N} has {a} {o} of {b} {t}. {S} finds {c} more {t} and loses {d}. How many {t} are left?",
    ),
    template(
        "a*b-c-d",
        &[WIDE, WIDE, ANY, ANY],
        "{N} buys {a} {o} of {b} {t}. {S} sells {c} {t} and breaks {d}. How many {t} are left?",
    ),
    template(
        "a*b+c*d",
        &[WIDE, WIDE, WIDE, WIDE],
        "{N} has {a} red {o} of {b} {t} and {c} blue {o} of {d} {t}. How many {t} in all?",
    ),
    template(
        "a*b-c*d",
        &[WIDE, WIDE, FEW, WIDE],
        "{N} had {a} {o} of {b} {t}. {S} gave {c} friends {d} {t} each. How many {t} are left?",
    ),
    template(
        "(a+b)*c-d",
        &[WIDE, WIDE, WIDE, ANY],
        "{N} has {a} red and {b} blue {o} of {c} {t}. {S} loses {d} {t}. How many {t} are left?",
    ),
    template(
        "(a-b)*c+d",
        &[WIDE, ANY, WIDE, ANY],
        "{N} had {a} {o} of {c} {t}. {S} sold {b} {o} and found {d} {t}. How many {t} are there now?",
    ),
    template(
        "(a+b-c)*d",
        &[WIDE, WIDE, ANY, WIDE],
        "{N} had {a} {o}, got {b} more and lost {c}. Each holds {d} {t}. How many {t} are there now?",
    ),
    template(
        "a+b*c-d",
        &[ANY, WIDE, WIDE, ANY],
        "{N} had {a} {t}. {S} bought {b} {o} of {c} {t} and used {d} {t}. How many {t} are left?",
    ),
];

/// Four operations and an irrelevant number.
const FOUR: &[Template] = &[
    template(
        "a*b+c*d-e",
        &[WIDE, WIDE, WIDE, WIDE, ANY],
        "{N} has {a} red {o} of {b} {t}, {c} blue {o} of {d} {t} and {x} {u}. {S} loses {e} {t}. How many {t} are left?",
    ),
    template(
        "(a+b)*c-d-e",
        &[WIDE, WIDE, WIDE, ANY, ANY],
        "{N}, who is {x}, has {a} red and {b} blue {o} of {c} {t}. {S} sells {d} {t} and breaks {e}. How many {t} are left?",
    ),
    template(
        "(a-b)*c+d*e",
        &[WIDE, ANY, WIDE, FEW, WIDE],
        "{N} had {a} {o} of {c} {t} and {x} {u}. {S} sold {b} {o}, then got {d} sets of {e} {t}. How many {t} are there now?",
    ),
    template(
        "(a+b-c)*d-e",
        &[WIDE, WIDE, ANY, WIDE, ANY],
        "{N} had {a} {o}, got {b} more and lost {c}. Each holds {d} {t}. {S} used {e} {t} in {x} days. How many {t} are left?",
    ),
    template(
        "a*b*c+d-e",
        &[FEW, WIDE, WIDE, ANY, ANY],
        "{N} has {a} shops with {b} {o} each, all of {c} {t}, and {x} {u}. {S} buys {d} {t} and sells {e}. How many {t} are there now?",
    ),
];

/// Templates of a difficulty, from 1 to 4.
pub fn templates(difficulty: u8) -> &'static [Template] {
    match difficulty {
        1 => ONE,
        2 => TWO,
        3 => THREE,
        _ => FOUR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_letters_agree() {
        for difficulty in 1..=4 {
            for Template { sum, numbers, text } in templates(difficulty) {
                let letters = sum.0.chars().filter(char::is_ascii_lowercase);
                assert_eq!(letters.clone().count(), numbers.len(), "{text}");
                assert!(letters.clone().enumerate().all(|(place, letter)| letter as usize == 'a' as usize + place));
                for letter in letters {
                    assert_eq!(text.matches(&format!("{{{letter}}}")).count(), 1, "{letter} in {text}");
                }
                let operations = sum.0.chars().filter(|symbol| "+-*".contains(*symbol)).count();
                assert_eq!(operations, usize::from(difficulty), "{text}");
                assert_eq!(text.contains("{x}"), difficulty == 4, "{text}");
                assert!(text.is_ascii() && text.ends_with('?'), "{text}");
            }
        }
    }
}
