//! Grading of a final message: one answer per question.

use gymkhana_answer::{Mode, find};

/// Whether each answer is right. With one question the whole message counts; with several, each line that is not empty
/// answers the question of its place, and may begin with the question's number. More lines than questions are all wrong.
pub fn grade(message: &str, expected: &[&str]) -> Vec<bool> {
    let is_right = |given: &str, wanted: &str| find(given, wanted, Mode::Number).is_some();
    if let [wanted] = expected {
        return vec![is_right(message, wanted)];
    }
    let lines: Vec<&str> = message.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() > expected.len() {
        return vec![false; expected.len()];
    }
    let right = |(place, wanted): (usize, &&str)| {
        lines.get(place).is_some_and(|line| is_right(without_number(line, place + 1), wanted))
    };
    expected.iter().enumerate().map(right).collect()
}

/// Line without the number of its question, such as `2.` or `2)`.
fn without_number(line: &str, number: usize) -> &str {
    let line = line.trim();
    let rest = line.strip_prefix(&number.to_string()).and_then(|rest| rest.strip_prefix(['.', ')', ':']));
    rest.filter(|rest| rest.starts_with(' ')).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_is_found_in_a_message() {
        for (message, right) in [
            ("4821", true),
            ("The number is 4821.", true),
            ("Answer: 4,821", true),
            ("It was 1234.\nAnswer: 4821", true),
            ("4821 or 1234", false),
            ("4821\n1234", false),
            ("48210", false),
            ("", false),
        ] {
            assert_eq!(grade(message, &["4821"]), [right], "{message}");
        }
    }

    #[test]
    fn several_answers_have_a_line_each() {
        let expected = ["4821", "1234", "5000"];
        for (message, right) in [
            ("4821\n1234\n5000", [true, true, true]),
            ("\n 1. 4821\n\n2) 1234\n3: 5000\n", [true, true, true]),
            ("4821\n5000\n1234", [true, false, false]),
            ("4821", [true, false, false]),
            ("4821 1234 5000", [false, false, false]),
            ("x\n1234", [false, true, false]),
            ("4821\n1234\n5000\n6000", [false, false, false]),
            // Only the number of the line's own question is taken off.
            ("2. 4821\n1234\n5000", [false, true, true]),
            ("", [false, false, false]),
        ] {
            assert_eq!(grade(message, &expected), right, "{message}");
        }
    }
}
