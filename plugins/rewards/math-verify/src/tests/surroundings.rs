//! Answers and near misses in surroundings that the grammar of `find` generates.

use super::{PLAIN, hold};
use crate::equal::verify;
use crate::find::{Place, find};

/// Whether a message earns the point.
fn earns(message: &str, wanted: &str) -> bool {
    find(message, Place::Auto).is_some_and(|span| verify(&message[span], wanted, PLAIN).equal)
}

/// `@` is the place of the answer. The number in the surroundings is the expected answer, so that a search that takes any
/// number finds it in a wrong message, too.
const MARKS: [&str; 12] = [
    "The answer is @",
    "The answer is: @",
    "the final answer = @",
    "I thought of 72. The answer is @",
    "Answer: @",
    "**Answer:** @",
    "**Answer**: @",
    "Answer:\n@",
    "Answer：@",
    "答案：@",
    "72 - 0 = 72\n#### @",
    "<answer>The answer is 72</answer><answer>@</answer>",
];
const QUALIFIERS: [&str; 4] = ["@", "approximately @", "exactly @", "thus @"];
const MARKUP: [&str; 5] = ["@", "**@**", "*@*", "`@`", "\"@\""];
const QUANTITIES: [&str; 33] = [
    "@",
    "$@",
    "\\$@",
    "€@",
    "¥@",
    "₹@",
    "US$@",
    "USD @",
    "EUR @",
    "@ USD",
    "@€",
    "@ dollars",
    "@ clips",
    "@ day",
    "@ men",
    "@ kids",
    "@ cm",
    "@ GB",
    "@ kWh",
    "@ m/s",
    "@ m²",
    "@ m^2",
    "@ m",
    "@°",
    "@°C",
    "@ °C",
    "@℃",
    "@^\\circ\\text{C}",
    "@ dollars a day",
    "@ dollars per day",
    "@ miles per hour",
    "@ square units",
    "@ рублей",
];
const CLAUSES: [&str; 18] = [
    "",
    ".",
    "。",
    ", which is the total.",
    ", which is 72.",
    " (48 + 24).",
    " (72).",
    " (seventy-two).",
    "! That is the sum.",
    " so we are done.",
    " so x = 72.",
    ", since 48 + 24 = 72.",
    " because 48 + 24 = 72.",
    "; check: 72",
    ". The sum is 72.",
    " - as expected, 72.",
    " — the total of 72.",
    ", not 72.",
];

/// All messages of the grammar around an answer: around the number, the quantity and the line.
fn messages(answer: &str) -> impl Iterator<Item = String> {
    let each = |pieces: &'static [&'static str], texts: Vec<String>| -> Vec<String> {
        texts.iter().flat_map(|text| pieces.iter().map(move |piece| piece.replace('@', text))).collect()
    };
    let marked = each(&MARKUP[..3], vec![answer.to_owned()]);
    let quantities = each(&QUANTITIES, marked);
    let inner: Vec<String> = [quantities, each(&MARKUP, each(&QUANTITIES, vec![answer.to_owned()]))].concat();
    let qualified = [inner.clone(), each(&QUALIFIERS, vec![answer.to_owned()])].concat();
    qualified.into_iter().flat_map(move |text| {
        CLAUSES.iter().flat_map(move |clause| {
            let line = format!("{text}{clause}");
            MARKS.iter().map(move |mark| mark.replace('@', &line)).collect::<Vec<_>>()
        })
    })
}

/// Every `STRIDE`th message of an answer, another part for each answer.
const STRIDE: usize = 17;

#[test]
fn an_answer_counts_in_all_surroundings() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let answers = [
        ("72", "72"),
        ("0.5", "1/2"),
        ("-3", "-3"),
        ("1,234", "1234"),
        ("４２", "42"),
        ("3½", "7/2"),
        ("1/3", "2/6"),
        ("-0.75", "-3/4"),
    ];
    for (first, (answer, wanted)) in answers.into_iter().enumerate() {
        for message in messages(answer).skip(first).step_by(STRIDE) {
            count += 1;
            if !earns(&message, wanted) {
                wrong.push(format!("{message:?} for {wanted}"));
            }
        }
    }
    assert!(count > 20_000, "{count}");
    assert!(wrong.is_empty(), "{} of {count}: {}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

#[test]
fn a_near_miss_counts_in_none() {
    let misses = [
        "71",
        "720",
        "7.2",
        "-72",
        "72%",
        "72 percent",
        "72 million",
        "72k",
        "72x",
        "1/72",
        "72!",
        "72 squared",
        "72 thirds",
        "72 or 73",
        "73 or 72",
        "72 and 73",
        "71, 72",
        "72 or maybe 73",
        "72/5",
        "72 out of 73",
        "72 + 1",
        "not 72",
        "2 × 72",
        "７１",
        "71½",
        "x > 72",
        "[72, 73]",
        "72 (or 73)",
        "72, or 73",
        "72. Wait, 73",
        "72, but it may be 73",
        "72 if x = 3, else 73",
        "**72** percent",
        "**72** million",
        "**72** + 1",
        "**72**%",
        "**72**k",
        "**72**x",
        "**72**/5",
        "**7**2",
        "*72* or *73*",
        "**72** times 2",
        "**72**, or 73",
    ];
    let mut wrong = Vec::new();
    for (first, miss) in misses.into_iter().enumerate() {
        wrong.extend(messages(miss).skip(first).step_by(3 * STRIDE).filter(|message| earns(message, "72")));
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

/// Formulas, boxes and tags.
#[test]
fn formulas_end_where_their_text_goes_on() {
    let around = [
        "The answer is $@$.",
        "The answer is $@$, since $x = 72$.",
        "The answer is \\(@\\) because \\(72 = 72\\).",
        "The answer is $@$ dollars.",
        "The answer is **$@$**, not $72$.",
        "The answer is given by $@$.",
        "So it is $@$, not $72$.",
        "\\boxed{@}",
        "It is not 72, but $\\boxed{@}$.",
        "<answer>@</answer>",
        "<answer>\\boxed{@}</answer>",
        "<answer>The answer is @.</answer> 72",
        "\\boxed{72} <answer> $@$ </answer>",
        "<think>72</think>\n<answer>@</answer>\n",
    ];
    for message in around {
        assert!(earns(&message.replace('@', "72"), "72"), "{message}");
        for miss in ["71", "72x", "72\\%", "71, 72", "\\frac{72}{5}", "72 \\text{ or } 71"] {
            let message = message.replace('@', miss);
            assert!(!earns(&message, "72"), "{message}");
        }
    }
    for message in [
        "The answer is not $72$.",
        "The answer is $71$ or $72$.",
        "The answer is $36$ times $72$.",
        "The answer isn't 72",
        "The answer is $71$ and $72$.",
        "<answer>71</answer> The answer is 72.",
        "<answer></answer>72",
        "The answer is",
    ] {
        assert!(!earns(message, "72"), "{message}");
    }
}

#[test]
fn text_in_a_box_may_have_a_unit() {
    for text in [
        "\\text{@ men}",
        "\\text{\\$}@",
        "\\text{@ dollars}",
        "\\text{\\$@}",
        "@\\text{ men}",
        "@\\,\\text{m}",
        "@\\text{ m}^2",
        "@\\ \\mathrm{kg}",
        "@~\\text{m/s}",
        "\\$@",
        "\\textbf{@}",
        "\\text{USD } @",
        "@\\text{ dollars per day}",
        "@^\\circ\\text{C}",
        "@^{\\circ}\\mathrm{C}",
        "\\mathrm{@\\ cm}",
        "@\\%\\,^0",
    ] {
        let boxed = |answer: &str| format!("\\boxed{{{}}}", text.replace('@', answer));
        if text.contains('%') {
            assert!(!earns(&boxed("13"), "13"), "{text}");
            continue;
        }
        assert!(earns(&boxed("13"), "13"), "{text}");
        for miss in ["14", "130", "1.3", "-13", "13x", "13, 14"] {
            assert!(!earns(&boxed(miss), "13"), "{text} with {miss}");
        }
    }
    for miss in [
        "\\boxed{\\text{June 13}}",
        "\\boxed{\\text{13 or 14}}",
        "\\boxed{\\text{13 million}}",
        "\\boxed{13\\text{ percent}}",
    ] {
        assert!(!earns(miss, "13"), "{miss}");
    }
}

#[test]
fn units_that_change_the_value_are_not_ignored() {
    hold(
        &[
            ("5000000", "5 million", "5"),
            ("5,000,000", r"5\text{ million}", "5 billion"),
            ("50%", "50 percent", "50"),
            ("0.5", "50 percent", "50 dollars"),
            ("25", "5 squared", "5"),
            ("2/3", "2 thirds", "2"),
            ("300", "3 hundred", "3"),
            ("5", "5 m", "5x"),
            ("5x", "5 x", "5 m"),
            ("5", "5 N", "5n"),
            ("5m", "m*5", "5 s"),
            ("18", "18 dollars a day", "18a"),
            ("18", "USD 18", "USD"),
            ("2in", "2", "3in"),
            ("42", "42个", "43个"),
            ("5", "5 xyz", "6 xyz"),
        ][..15],
    );
    // Letters that do not form a word stay variables.
    assert!(!earns("The answer is 5 xy", "5") && !earns("The answer is 5k", "5") && !earns("The answer is 5k", "5000"));
}

#[test]
fn an_approximate_value_and_the_exact_one_count() {
    hold(&[
        ("3.14", r"x \approx 3.14", r"x \approx 3.15"),
        ("5", r"5 \approx 5.0", r"6 \approx 6.0"),
        ("3.14", "x ≈ 3.14", "≈ 3.1"),
        (r"\frac{1}{3}", r"\frac{1}{3} \approx 0.33", r"\frac{1}{4} \approx 0.25"),
        (r"\sqrt{2}", r"x = \sqrt{2} \approx 1.414", r"\sqrt{3} \approx 1.732"),
        ("1.41", r"\sqrt{2} \approx 1.41", r"\sqrt{2} \approx 1.42"),
        (r"\pi", r"3.1416 \approx \pi", r"3.2416 \approx \pi"),
        // Sides that are not near each other are two answers.
        ("42", r"42 \approx 42.3", r"41 \approx 42"),
        ("2.5", r"\frac{5}{2} \approx 2.5", r"7 \approx 2.5"),
    ]);
}

#[test]
fn solutions_are_sets_in_every_form() {
    let outside = r"(-\infty,-2)\cup(2,\infty)";
    hold(&[
        (outside, r"x<-2 \text{ or } x>2", r"x<-2 \text{ and } x>2"),
        (outside, "x < -2 or x > 2", "x < 2 or x > -2"),
        (outside, r"x<-2 \lor 2<x", r"x\le-2 \lor x>2"),
        (outside, r"|x| > 2", r"|x| \ge 2"),
        (outside, r"]-\infty,-2[ \cup ]2,\infty[", r"]-\infty,-2] \cup [2,\infty["),
        (outside, "x > 2, x < -2", "x > 2, y < -2"),
        ("[-2,2]", r"|x|\le 2", "|x| < 2"),
        ("[-2,2]", r"-2 \le x \le 2", r"-2 \le x < 2"),
        ("[-2,2]", r"x \ge -2 \text{ and } x \le 2", r"x \ge -2 \text{ or } x \le 2"),
        ("(-2,4)", "|x-1|<3", "|x+1|<3"),
        ("(-4,2)", "|x+1|<3", "|x|<3"),
        (r"|x| \le 2", r"-2 \le x \le 2", r"|y| \le 2"),
        (r"(-\infty,\infty)", r"\mathbb{R}", r"\mathbb{Q}"),
        (r"(-\infty,\infty)", "ℝ", "ℚ"),
        (r"\mathbb{R}^2", "ℝ²", "ℝ"),
        (r"x \in \mathbb{R}", r"(-\infty, \infty)", r"(0, \infty)"),
        (r"\mathbb{R}", r"\text{all real numbers}", r"\text{all integers}"),
        (r"(-\infty,0)\cup(0,\infty)", r"x \neq 0", r"x \neq 1"),
        ("2, -2", "|x| = 2", "|x| = 3"),
        ("(0,1)", "]0,1[", "[0,1]"),
        ("[0,1)", "[0,1[", "]0,1]"),
        ("(0,100)", "]0,100[", "]0,101["),
        ("2x[x+1]", "2x(x+1)", "2x[x-1]"),
        ("(1,2)", "(1, 2)", "(x,y)=(2,1)"),
    ]);
}

#[test]
fn characters_of_other_scripts_mean_their_plain_spelling() {
    hold(&[
        ("1/2", "½", "⅓"),
        ("7/2", "3½", "3⅓"),
        ("-1/4", "−¼", "¼"),
        ("x^4", "x⁴", "x⁵"),
        ("0.0001", "10⁻⁴", "10⁴"),
        ("x^{12}", "x¹²", "x^{1}2"),
        ("x_1+x_2", "x₁+x₂", "x₁+x₁"),
        (r"\log_2 8", "log₂ 8", "log₃ 8"),
        ("42", "４２", "４３"),
        ("3.5", "３．５", "３５"),
        ("12", "١٢", "١٣"),
        ("45", "४५", "५४"),
        ("x+1", "𝑥+𝟏", "𝑦+𝟏"),
        ("3/4", "3⁄4", "4⁄3"),
        ("(1,2)", "（１，２）", "（２，１）"),
        ("1234567", "1\u{202f}234\u{202f}567", "1\u{202f}234"),
        ("10^{-4}", "1×10⁻⁴", "1×10⁻⁵"),
    ]);
}

#[test]
fn spellings_of_a_formula_are_equal() {
    hold(
        &[
            (r"3 \pmod{7}", r"3 \pmod 7", r"3 \pmod 5"),
            (r"3 \pmod{7}", r"x \equiv 3 \pmod{7}", r"x \equiv 4 \pmod{7}"),
            (r"3 \pmod{7}", "3 (mod 7)", "3"),
            (r"3 \pmod{7}", r"10 \bmod 7", "3 * 7"),
            (r"1,2,\dots,9", r"1,2,\ldots,9", r"1,3,\ldots,9"),
            (r"1,2,\dots,9", "1, 2, …, 9", "1, 2, 9"),
            ("1+2+\\cdots+9", r"1+2+\dots+9", r"1+2+\dots+8"),
            ("12:00", "12{:}00", "12{:}01"),
            (r"0.\overline{3}", r"0.\dot{3}", r"0.\dot{4}"),
            (r"1/6", r"0.1\dot{6}", r"0.16"),
            (r"0.\overline{3}", r"0.\bar{3}", "0.3"),
            (r"\frac{1}{7}", r"0.\dot{1}4285\dot{7}", r"0.\dot{1}42857"),
            (r"0.\overline{3}", r"0.\dot 3", r"0.\dot 4"),
            (
                r"\begin{pmatrix}1\\2\end{pmatrix}",
                r"\left(\begin{array}{c}1\\2\end{array}\right)",
                r"\left(\begin{array}{c}2\\1\end{array}\right)",
            ),
        ][..13],
    );
}

#[test]
fn the_letter_of_a_choice_counts_with_its_text() {
    for answer in ["B", "(B)", r"\text{(B)}"] {
        for text in [
            "(B) 42",
            "B) 42",
            "B. 42",
            "B: 42",
            "option B",
            "Option (B)",
            "choice B",
            "(B)",
            "**(B)** 42",
            "**B**",
            "option B: a circle",
            "(B) A circle",
            "(B) $x = 42$",
        ] {
            for mark in ["The answer is @", "The answer is @.", "Answer: @", "<answer>@</answer>", "**Answer:** @"] {
                let right = mark.replace('@', text);
                assert!(earns(&right, answer), "{right} for {answer}");
                let wrong = mark.replace('@', &text.replace('B', "C"));
                assert!(!earns(&wrong, answer), "{wrong} for {answer}");
            }
        }
        for boxed in [r"\boxed{\text{(B)}}", r"\boxed{\text{(B) 42}}", r"\boxed{\textbf{(B)}\ 42}", r"\boxed{B. 42}"] {
            assert!(earns(boxed, answer), "{boxed} for {answer}");
        }
        for wrong in [
            "(A) 42",
            "(B) or (C)",
            "(A) or (B)",
            "B or C",
            "(A) B",
            "(A) 42, not (B)",
            "A, B",
            "not (B)",
            "B 42",
            "Bob",
            "b) 42 or C) 43",
            "option A or B",
            "BC",
        ] {
            let message = format!("The answer is {wrong}");
            assert!(!earns(&message, answer), "{message} for {answer}");
        }
    }
    // A letter does not count if the expected answer is not a letter.
    assert!(!earns("The answer is (B) 42", "43") && !earns("The answer is B", "42"));
}
