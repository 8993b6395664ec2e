//! Tests of the reward through the SDK's scoring, and tables of answers with known equality.

mod surroundings;

use std::collections::BTreeMap;

use super::*;
use crate::equal::{Rule, Verdict};
use gymkhana_sdk::reward::{SeatMessage, Turn, score as score_all};
use gymkhana_sdk::{NamedValue, named, text};

const PLAIN: Settings = Settings { units: false, tolerance: 0.0, seed: 3 };

fn equal(said: &str, wanted: &str) -> Verdict {
    verify(said, wanted, PLAIN)
}

/// Each line: the expected answer, an equal one, and a similar one that differs.
fn hold(table: &[(&str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (wanted, right, other) in table {
        for (said, expected) in [(right, true), (other, false)] {
            let verdict = equal(said, wanted);
            let turned = equal(wanted, said);
            if verdict.equal != expected || turned.equal != expected || verdict.rule == Rule::Undecided {
                wrong.push(format!("{said} for {wanted}: {verdict:?}, turned {turned:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn numbers() {
    hold(&[
        ("42", "42.0", "42.01"),
        ("1234567", "1,234,567", "1,234,568"),
        ("1234567", r"1{,}234{,}567", "1234.567"),
        ("0.5", r"\frac12", r"\frac13"),
        ("0.5", "1/2", "2/1"),
        ("-7", "−7", "7"),
        ("1/3", r"0.\overline{3}", "0.333333333333"),
        ("7/6", r"1.1\overline{6}", "1.16"),
        ("50%", "0.5", "50"),
        (r"12.5\%", r"\frac{1}{8}", r"\frac{1}{80}"),
        ("100000", "1e5", "1e4"),
        ("0.00012", r"1.2 \times 10^{-4}", r"1.2 \times 10^{-5}"),
        (r"3\frac{1}{2}", "3.5", "1.5"),
        ("3 1/2", "7/2", "3/2"),
        (r"-2\frac{1}{4}", "-2.25", "-1.75"),
        ("5!", "120", "60"),
        (r"\binom{10}{3}", "120", "720"),
        ("2^10", "1024", "1000"),
        ("2**10", "1024", "20"),
        (r"\dfrac{-3}{4}", "-0.75", "0.75"),
        ("$1,000$", "1000", "1"),
        (r"\$12.50", "12.5", "125"),
        ("6*7", "42", "67"),
        ("|-3|", "3", "-3"),
        (r"\lfloor 3.7 \rfloor", "3", "4"),
        ("10^{20}+1", "100000000000000000001", "100000000000000000000"),
    ]);
}

#[test]
fn roots_and_constants() {
    hold(&[
        (r"\sqrt{8}", r"2\sqrt{2}", r"4\sqrt{2}"),
        (r"\sqrt2", r"2/\sqrt{2}", r"1/\sqrt{2}"),
        (r"\frac{1}{1+\sqrt{2}}", r"\sqrt{2}-1", r"1-\sqrt{2}"),
        (r"\sqrt{5+2\sqrt{6}}", r"\sqrt{2}+\sqrt{3}", r"\sqrt{2}+\sqrt{4}"),
        (r"\sqrt{12}+\sqrt{27}", r"5\sqrt3", r"\sqrt{39}"),
        (r"\sqrt[3]{-8}", "-2", "2"),
        (r"\sqrt[3]{54}", r"3\sqrt[3]{2}", r"2\sqrt[3]{3}"),
        ("27^{2/3}", "9", "18"),
        (r"\sqrt{\frac{1}{2}}", r"\frac{\sqrt{2}}{2}", r"\frac{\sqrt{2}}{4}"),
        (r"\sqrt{-4}", "2i", "-2i"),
        ("(1+i)^2", "2i", "2"),
        (r"\frac{1}{i}", "-i", "i"),
        (r"2\pi", r"\pi+\pi", r"\pi^2"),
        (r"\frac{\pi}{2}", "π/2", r"\pi"),
        ("e^2", r"e\cdot e", "2e"),
        (r"\ln e^3", "3", "e"),
        (r"\log_2 8", "3", "4"),
        (r"\log 100", "2", "10"),
        (r"\ln 6", r"\ln 2+\ln 3", r"\ln 5"),
        (r"\sin\frac{\pi}{6}", "1/2", r"\frac{\sqrt{3}}{2}"),
        (r"\sin 30^\circ", "0.5", "0.05"),
        (r"\tan^{-1} 1", r"\frac{\pi}{4}", r"\frac{\pi}{3}"),
        (r"\cos\frac{\pi}{5}", r"\frac{1+\sqrt5}{4}", r"\frac{\sqrt5-1}{4}"),
        (r"\arctan\frac12+\arctan\frac13", r"\frac{\pi}{4}", r"\frac{\pi}{5}"),
        (r"4\arctan\frac15-\arctan\frac{1}{239}", r"\pi/4", r"\pi/3"),
        ("2^{0.5}", r"\sqrt{2}", "1.41421356"),
        // Ramanujan's near-integer, which differs from an integer from the thirteenth decimal on.
        (r"e^{\pi\sqrt{163}}", r"\exp(\pi\sqrt{163})", "262537412640768744"),
    ]);
}

#[test]
fn algebra() {
    hold(&[
        ("(x+1)^2", "x^2+2x+1", "x^2+1"),
        ("x^2-y^2", "(x-y)(x+y)", "(x-y)^2"),
        (r"\frac{x^2-1}{x-1}", "x+1", "x-1"),
        ("x(x+1)", "x^2+x", "x^2+1"),
        (r"\frac1x+\frac1y", r"\frac{x+y}{xy}", r"\frac{2}{x+y}"),
        ("2x", r"x \cdot 2", "x^2"),
        ("ab+ba", "2ab", "a^2b^2"),
        (r"\frac{1}{2}mv^2", r"\frac{mv^2}{2}", r"\frac{mv}{2}"),
        ("x_1+x_2", "x_2 + x_{1}", "x_1-x_2"),
        (r"\alpha\beta", r"\beta\alpha", r"\alpha+\beta"),
        (r"\sin^2 x+\cos^2 x", "1", "2"),
        (r"\sin(2x)", r"2\sin x\cos x", r"2\sin x"),
        (r"e^{x+y}", r"e^x e^y", r"e^{xy}"),
        (r"\cosh^2 x-\sinh^2 x", "1", "-1"),
        (r"2^{x+1}", r"2\cdot 2^x", r"4^x"),
        (r"\sqrt{x^2}", "|x|", "x"),
        (r"\frac{n(n+1)}{2}", "n^2/2+n/2", "n^2/2"),
        (r"x^{3/2}", r"x\sqrt{x}", r"x^2\sqrt{x}"),
        ("(a+b+c)^3-a^3-b^3-c^3", "3(a+b)(b+c)(c+a)", "3abc"),
        (r"\frac{x^{3}}{3}+C", "C+x^3/3", "x^3/3"),
        ("A", "(A)", "B"),
        (r"\ln|x|+C", r"C + \ln|x|", r"\ln|x|"),
        ("e^{-x}", r"\frac{1}{e^x}", "-e^x"),
        ("3-4i", "-4i+3", "3+4i"),
        (r"\frac34\pi", r"\frac{3\pi}{4}", r"\frac{3}{4\pi}"),
        (r"2\left(x+1\right)", "2x+2", "2x+1"),
        (r"\mathbf{v}", "v", r"\vec{w}"),
        ("x²+x³", "x^2(1+x)", "x^5"),
        (r"\sqrt{x}\sqrt{y}", r"\sqrt{y}\sqrt{x}", r"\sqrt{x+y}"),
        (r"\frac{\partial}{2}", r"\frac{\partial}{2}", "2"),
    ]);
}

/// SymPy's rewritings, and expressions that SymPy distinguishes.
#[test]
fn rewritten_expressions_are_equal_as_sympy_has_it() {
    let golden = include_str!("../../../../tests/golden/math-verify.json");
    let cases: Vec<BTreeMap<String, String>> = serde_json::from_str(golden).expect("the golden pairs");
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let cases: Vec<(&str, &str, &str)> =
        cases.iter().map(|case| (&*case["wanted"], &*case["equal"], &*case["unequal"])).collect();
    hold(&cases);
}

#[test]
fn tuples_sets_and_matrices() {
    hold(&[
        ("(1,2)", r"\left(1, \frac{4}{2}\right)", "(2,1)"),
        ("[0,1)", r"\left[0, 1\right)", "[0,1]"),
        (r"(-\infty, 3]", r"\left(-\infty,3\right]", r"(-\infty, 3)"),
        (r"\{1,2,3\}", r"\{3, 2, 1\}", r"\{1, 2\}"),
        ("1, 2", "2,1", "1,3"),
        ("2 or 3", "3, 2", "2, 4"),
        (r"\pm 2", "2, -2", "2"),
        (r"1\pm\sqrt{2}", r"1+\sqrt2, 1-\sqrt2", r"1+\sqrt2"),
        (r"\emptyset", r"\{\}", r"\{0\}"),
        (r"(1,2)\cup(3,4)", r"(3,4) \cup (1,2)", r"(1,2)\cup(3,5)"),
        (
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
            r"\begin{bmatrix} 1 & 4/2 \\ 3 & 4 \\ \end{bmatrix}",
            r"\begin{pmatrix}1&3\\2&4\end{pmatrix}",
        ),
        (
            r"\begin{pmatrix} x \\ y \end{pmatrix}",
            r"\begin{pmatrix}x\\y\end{pmatrix}",
            r"\begin{pmatrix}x&y\end{pmatrix}",
        ),
        ("(1,2), (3,4)", "(3,4), (1,2)", "(1,2), (4,3)"),
        (r"\infty", "∞", r"-\infty"),
        (r"\{5\}", "5", "6"),
    ]);
}

#[test]
fn equations_and_inequalities() {
    hold(&[
        ("x = 5", "5", "6"),
        ("x = 5", "x=10/2", "x = -5"),
        ("x=5", "2x=10", "2x=5"),
        ("y = 2x+1", "2x - y + 1 = 0", "2x + y + 1 = 0"),
        ("f(x) = x^2", "x^2", "x^3"),
        ("y = mx+b", "mx + b", "mx - b"),
        ("42", "6*7 = 42", "6*6 = 42"),
        ("x > 3", "3 < x", "3 > x"),
        ("x > 3", "2x > 6", "-2x > 6"),
        (r"x \ge 3", r"[3,\infty)", r"(3,\infty)"),
        (r"1 < x \le 2", "(1,2]", "[1,2]"),
        (r"x \in (1,2)", "(1,2)", "(1,3)"),
        (r"x \neq 0", r"0 \ne x", "x = 0"),
        ("x^2+y^2=1", "1 - y^2 = x^2", "x^2 - y^2 = 1"),
        (r"x = \pm 2", "x = 2 or x = -2", "x = 2"),
        ("f'(x) = 2x", "2x", "x^2"),
        ("f'(x) = 2x", "f'(x)=x+x", "f(x) = 2x"),
        ("a_n = 2n+1", "1+2n", "2n-1"),
        (r"x \in \{1, 2\}", r"\{2,1\}", r"\{2\}"),
        (r"(-\infty,-2)\cup(2,\infty)", r"(2, \infty) \cup (-\infty, -2)", r"(-\infty,2)\cup(2,\infty)"),
        ("y - 3 = 2(x - 1)", "y = 2x + 1", "y = 2x - 1"),
        (r"\frac{x}{2} + \frac{y}{3} = 1", "3x + 2y = 6", "3x - 2y = 6"),
        ("x = 1, y = 2", "y = 2, x = 1", "x = 1, y = 3"),
    ]);
}

#[test]
fn words_and_units() {
    hold(&[
        ("B", r"\text{(B)}", r"\text{(C)}"),
        ("(D)", r"\textbf{D}", r"\textbf{(B)}"),
        ("No solution", r"\text{no solution}", "2"),
        ("10:30", "10:30", "10:31"),
        (r"90^{\circ}", "90 degrees", "60^{\\circ}"),
        (r"\frac{1}{2}\text{ hours}", "0.5", "30"),
        ("Paris", "paris.", "Rome"),
        (r"\text{even}", "even", "odd"),
        (r"5\text{ cm}", "5", "6 cm"),
        ("30^\\circ", "30", "31°"),
        ("10", "10 square units", "11 square units"),
        ("12 miles/hour", "12 mph", "13 mph"),
        ("Tuesday", r"\textbf{Tuesday}", "Thursday"),
    ]);
    let strict = |said: &str, wanted: &str| verify(said, wanted, Settings { units: true, ..PLAIN }).equal;
    assert!(strict("5 cm", r"5\text{ cm}") && strict(r"5.0\,\mathrm{cm}^2", "5 cm^2"));
    assert!(!strict("5", "5 cm") && !strict("5 km", "5 cm") && !strict("5 cm", "5 cm^2"));
}

#[test]
fn the_deciding_rule_is_reported() {
    for (said, wanted, rule) in [
        ("x+1", "x + 1", Rule::Text),
        ("1+x", "x+1", Rule::Exact),
        ("x+2", "x+1", Rule::Exact),
        (r"\sqrt{8}", r"2\sqrt{2}", Rule::Exact),
        (r"\sin^2 x+\cos^2 x", "1", Rule::Numeric),
        (r"e\pi", r"\pi e", Rule::Exact),
        (r"e+\pi", "5.859874482", Rule::Numeric),
        ("Paris", "Rome", Rule::Text),
        ("1/0", "7", Rule::Undecided),
        // Too many terms for algebra, but a value at each point.
        ("(a+b+c+d+f)^{20}", "(f+d+c+b+a)^{20}", Rule::Numeric),
        ("(a+b+c+d+f)^{20}", "(f+d+c+b-a)^{20}", Rule::Numeric),
    ] {
        assert_eq!(equal(said, wanted).rule, rule, "{said} {wanted}");
    }
    let near = |said| verify(said, r"\pi", Settings { tolerance: 0.001, ..PLAIN });
    assert_eq!((near("3.14").equal, near("3.14").rule), (true, Rule::Approximate));
    assert!(!near("3.13").equal && !equal("3.14", r"\pi").equal);
}

#[test]
fn work_is_bounded_for_every_answer() {
    // An answer without a value is not equal to any other.
    for said in ["1/0", "0/0", r"\infty-\infty", "0^0", r"\ln 0", "0^{-1}", r"\log_1 2", "(-1)!", r"\infty \cdot 0"] {
        for wanted in ["0", "1", r"\infty", "x", "1/2"] {
            assert!(!equal(said, wanted).equal, "{said} for {wanted}");
        }
    }
    for said in
        ["", " ", "x", "{", "()", "=", "x = ", ",", "41, 42", "42 = 41", "41 = 42", "x = 41 = 42", "4 2", "\\boxed{"]
    {
        assert!(!equal(said, "42").equal, "{said:?}");
    }
    assert!(!equal("", "").equal);
}

#[test]
fn hostile_answers_are_not_equal_and_cost_little() {
    let deep = |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    let hostile = [
        "10**30000000".to_owned(),
        "10^{30000000}".to_owned(),
        "9^{9^{9^{9}}}".to_owned(),
        "9^9^9^9^9^9".to_owned(),
        "1e30000000".to_owned(),
        "1e-999999999999999999999".to_owned(),
        "100000!".to_owned(),
        "5!!!!!!!!!!!".to_owned(),
        "9".repeat(2_000_000),
        "9".repeat(5_000),
        deep("(", ")", 3_000),
        deep("{", "}", 100_000),
        deep("\\sqrt{", "}", 1_000),
        deep("\\frac{1}{", "}", 800),
        deep("|", "|", 1_000),
        deep("\\{", "\\}", 1_000),
        format!("1{}", "/7".repeat(900)),
        format!("2{}", "^2".repeat(900)),
        format!("{}1", "-".repeat(5_000)),
        format!("(a+b+c+d+e+f+g)^{{{}}}", 5_000),
        "(x+y+z)^{60}-(x+y+z)^{59}".to_owned(),
        format!("({})^9", (0..200).map(|place| format!("x_{{{place}}}")).collect::<Vec<_>>().join("+")),
        format!("\\sqrt{{{}}}", "7".repeat(900)),
        format!("\\sqrt[63]{{\\frac{{1}}{{{}}}}}", "7".repeat(900)),
        (2..400).map(|place| format!("1/{place}")).collect::<Vec<_>>().join("+"),
        (0..500).map(|place| place.to_string()).collect::<Vec<_>>().join(","),
        "\\sin(10^{300})".to_owned(),
        "e^{e^{e^{e^{e}}}}".to_owned(),
        "2^{0.123456789}".repeat(100),
        "\\begin{pmatrix}".repeat(500),
        "1&".repeat(900),
        "\\left(".repeat(900),
        "x_{".repeat(900),
        "\u{0}\u{202e}\\".to_owned(),
        "\\".to_owned(),
        "$".repeat(7_000),
        "1,".repeat(3_000),
        "é".repeat(3_999),
        deep("\\text{", "}", 1_000),
        format!("The answer is {}", "72 or ".repeat(100_000)),
        format!("The answer is {}", "just ".repeat(100_000)),
        format!("The answer is {}", "1 clip, ".repeat(100)),
        "answer".repeat(50_000),
        "not $1$ ".repeat(50_000),
        "²".repeat(3_999),
        "½".repeat(3_999),
    ];
    for said in &hostile {
        for wanted in ["42", "x+1", r"\{1,2\}"] {
            let shown: String = said.chars().take(30).collect();
            assert!(!equal(said, wanted).equal, "{shown} for {wanted}");
            // A hostile expected answer is also harmless.
            assert!(!equal(wanted, said).equal, "{wanted} for {shown}");
        }
        let _ = find::find(said, Place::Auto);
    }
    // Large but still acceptable inputs.
    assert!(equal("2^{1000}", "4^{500}").equal && !equal("2^{1000}", "2^{1000}+1").equal);
    assert!(equal("(x+y)^{20}", "(y+x)^{20}").equal && !equal("(x+y)^{20}", "(x+y)^{21}").equal);
    assert_eq!(equal("10**30000000", "42").rule, Rule::Undecided);
}

/// Identities that hold only for positive numbers are rejected, for every seed.
#[test]
fn signs_count() {
    for seed in 0..40 {
        let equal = |said: &str, wanted: &str| verify(said, wanted, Settings { seed, ..PLAIN }).equal;
        for (said, right, wrong) in [
            (r"\frac{|x|}{x} x", "|x|", "x"),
            (r"\sqrt{x^2}", "|x|", "x"),
            (r"\sqrt{x^2y^2}", "|xy|", "xy"),
            (r"\sqrt{x^2}", r"\sqrt[4]{x^4}", "-x"),
        ] {
            assert!(equal(said, right) && !equal(said, wrong), "{said} with the seed {seed}");
        }
        // Points at which one side has no value are skipped.
        assert!(equal(r"\ln x^2", r"2\ln x") && !equal(r"\ln x^2", r"3\ln x"));
    }
}

/// Every input gets a result, and the result is symmetric.
#[test]
fn any_pieces_are_answered() {
    let pieces = [
        "1",
        "2",
        "42",
        "x",
        "y",
        "pi",
        "+",
        "-",
        "*",
        "/",
        "^",
        "_",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "|",
        ",",
        "=",
        "<",
        "!",
        "%",
        " ",
        ".",
        "\\frac",
        "\\sqrt",
        "\\sin",
        "\\ln",
        "\\log",
        "\\pm",
        "\\{",
        "\\}",
        "\\cup",
        "\\infty",
        "\\circ",
        "\\begin{pmatrix}",
        "\\end{pmatrix}",
        "\\\\",
        "&",
        "\\text{",
        "cm",
        "or",
        "é",
        "\\left",
        "\\right",
        "e",
        "i",
        "'",
    ];
    let mut rng = gymkhana_sdk::Rng::new(6);
    let mut draw = || (0..rng.below(14)).map(|_| *rng.pick(&pieces)).collect::<String>();
    let mut read = 0;
    for _ in 0..20_000 {
        let (one, other) = (draw(), draw());
        let (verdict, turned) = (equal(&one, &other), equal(&other, &one));
        assert_eq!(verdict.equal, turned.equal, "{one} and {other}");
        let _ = find::find(&one, Place::Auto);
        read += u32::from(verdict.parsed);
    }
    assert!(read > 500, "only {read} were mathematics");
}

fn say(words: &str) -> Turn {
    Turn::Message(SeatMessage { seat: 0, content: text(words) })
}

fn scored(words: &str, wanted: &str, ending: Ending, options: Vec<NamedValue>) -> Score {
    let privileged = vec![named("answer", wanted)];
    let trajectory = Trajectory { turns: vec![say(words)], privileged, ..Trajectory::new("train", 0, ending) };
    score_all::<MathVerify>(&[trajectory], options, 0).expect("a good trajectory").remove(0).remove(0)
}

#[test]
fn a_right_last_message_earns_a_point_and_says_where_and_why() {
    let score = scored(r"Thus \boxed{\frac{2}{4}}.", "0.5", Ending::Terminated, vec![]);
    let values: Vec<f64> = score.components.iter().map(|component| component.value).collect();
    assert_eq!((score.total, &values[..]), (1.0, &[1.0, 1.0, 2.0][..]));
    let span = &score.evidence[0];
    assert_eq!((span.turn, span.start, span.end, &*span.note), (0, 12, 23, "equal, by exact algebra"));
    let score = scored(r"Thus \boxed{\frac{2}{5}}.", "0.5", Ending::Terminated, vec![]);
    assert_eq!((score.total, &*score.evidence[0].note), (0.0, "not equal, by exact algebra"));
    for ending in [Ending::TurnLimit, Ending::Truncated, Ending::Failed] {
        assert_eq!(scored(r"\boxed{0.5}", "0.5", ending, vec![]).total, 0.0);
    }
    let nothing = scored("", "0.5", Ending::Terminated, vec![]);
    assert_eq!((nothing.total, nothing.components[2].value, nothing.evidence.len()), (0.0, 0.0, 0));
}

#[test]
fn options_select_the_location_and_units() {
    let total = |words: &str, options| scored(words, "5 cm", Ending::Terminated, options).total;
    assert_eq!((total("5", vec![]), total("5", vec![named("units", "compare")])), (1.0, 0.0));
    assert_eq!(total("5", vec![named("look-in", "boxed")]), 0.0);
    assert_eq!(total(r"\boxed{5}", vec![named("look-in", "boxed")]), 1.0);
    assert_eq!((total("5.01", vec![]), total("5.01", vec![named("tolerance", 0.01)])), (0.0, 1.0));
    let blind = Trajectory { turns: vec![say("5")], ..Trajectory::new("train", 0, Ending::Terminated) };
    let refused = score_all::<MathVerify>(&[blind], vec![], 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("`answer-key`")));
}
