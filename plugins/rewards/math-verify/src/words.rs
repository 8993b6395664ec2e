//! Meaning of names, commands and single characters.

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::lexer::Token;
use crate::tree::{Function, Relation};

/// Meaning of a run of letters.
pub enum Meaning<'a> {
    /// Single token.
    Token(Token),
    /// Each letter is a variable.
    Variables,
    /// Function with an adjacent argument, as in `sinx`.
    Function(Function, &'a str),
    /// Text.
    Word,
}

/// Units of more than one letter that would otherwise be adjacent variables.
const UNITS: [&str; 39] = [
    "cm", "mm", "km", "nm", "dm", "kg", "mg", "lb", "lbs", "oz", "ft", "in", "mi", "yd", "ml", "mL", "cl", "dl", "hr",
    "min", "sec", "ms", "kJ", "kW", "kN", "Hz", "Pa", "eV", "mol", "deg", "rad", "mph", "kph", "sq", "cc", "am", "pm",
    "AM", "PM",
];
/// Units behind a number, and variables elsewhere.
const UNITS_BEHIND: [&str; 25] = [
    "hrs", "ns", "MW", "kWh", "kHz", "MHz", "GHz", "kPa", "keV", "MeV", "kB", "KB", "MB", "GB", "TB", "Mb", "Gb", "mA",
    "mV", "kV", "dB", "Nm", "yr", "yrs", "pts",
];
/// Units of one letter. They are variables, unless the other answer has none.
const SYMBOLS: [&str; 13] = ["m", "s", "g", "h", "L", "J", "N", "W", "V", "A", "F", "C", "Ω"];
/// Codes of currencies, before or behind an amount.
const CURRENCIES: [&str; 17] = [
    "USD", "EUR", "GBP", "JPY", "CNY", "RMB", "INR", "CAD", "AUD", "CHF", "KRW", "BRL", "MXN", "US", "Rs", "HK", "SGD",
];
/// Short words that are not variables.
const SHORT_WORDS: [&str; 14] =
    ["is", "the", "to", "of", "no", "yes", "at", "on", "if", "for", "not", "all", "are", "Yes"];
/// Short words that are not variables behind a number and a space.
const BEHIND: [&str; 16] =
    ["so", "as", "by", "we", "it", "he", "she", "per", "egg", "eye", "ant", "ear", "inn", "ice", "oak", "one"];

/// Whether letters are the code of a currency.
pub fn is_currency(run: &str) -> bool {
    CURRENCIES.contains(&run)
}

/// Whether a letter is of a script that formulas do not use, so that a run of them is a word.
pub fn is_foreign(letter: char) -> bool {
    letter.is_alphabetic()
        && matches!(u32::from(letter), 0x0400..=0x0fff | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xac00..=0xd7af)
        && !"元円".contains(letter)
}

/// Whether a letter is the symbol of a unit.
pub fn is_symbol(run: &str) -> bool {
    SYMBOLS.contains(&run)
}

/// Whether letters behind a number are a unit or a word. After a space so is a short word such as `day`: a consonant, a
/// vowel and a consonant.
pub fn is_unit(run: &str, is_spaced: bool) -> bool {
    let is_vowel = |letter: &u8| b"aeiou".contains(letter);
    let is_word =
        matches!(run.as_bytes(), [first, vowel, last] if !is_vowel(first) && is_vowel(vowel) && !is_vowel(last));
    let is_lower = run.bytes().all(|byte| byte.is_ascii_lowercase());
    UNITS.contains(&run)
        || UNITS_BEHIND.contains(&run)
        || is_spaced
            && (is_currency(run)
                || BEHIND.contains(&run)
                || is_word && is_lower && function(run).is_none() && run != "mod")
}

/// What a word behind a number does to its value.
pub fn scale(run: &str) -> Option<Vec<Token>> {
    let times = |number: BigRational| {
        let is_integer = number.is_integer();
        Some(vec![Token::Sign('*'), Token::Number(number, is_integer)])
    };
    let power = |exponent: u32| times(BigRational::from_integer(BigInt::from(10).pow(exponent)));
    let part = |below: u32| times(BigRational::new(1.into(), below.into()));
    let exponent =
        |number: u32| Some(vec![Token::Sign('^'), Token::Number(BigRational::from_integer(number.into()), true)]);
    match run.to_ascii_lowercase().as_str() {
        "percent" | "pct" => Some(vec![Token::Sign('%')]),
        "factorial" => Some(vec![Token::Sign('!')]),
        "squared" => exponent(2),
        "cubed" => exponent(3),
        "hundred" => power(2),
        "thousand" => power(3),
        "million" => power(6),
        "billion" => power(9),
        "trillion" => power(12),
        "halves" => part(2),
        "thirds" => part(3),
        "fifths" => part(5),
        "sixths" => part(6),
        "sevenths" => part(7),
        "eighths" => part(8),
        "ninths" => part(9),
        "tenths" => part(10),
        "hundredths" => part(100),
        "thousandths" => part(1000),
        _ => None,
    }
}

fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sin" => Function::Sin,
        "cos" => Function::Cos,
        "tan" => Function::Tan,
        "cot" => Function::Cot,
        "sec" => Function::Sec,
        "csc" => Function::Csc,
        "arcsin" | "asin" => Function::Arcsin,
        "arccos" | "acos" => Function::Arccos,
        "arctan" | "atan" => Function::Arctan,
        "sinh" => Function::Sinh,
        "cosh" => Function::Cosh,
        "tanh" => Function::Tanh,
        "exp" => Function::Exp,
        "ln" => Function::Ln,
        "abs" => Function::Absolute,
        "floor" => Function::Floor,
        "ceil" => Function::Ceiling,
        _ => return None,
    })
}

/// Whether letters are the name of a function or of a constant.
pub fn is_function(run: &str) -> bool {
    function(run).is_some() || matches!(run, "log" | "lg" | "sqrt" | "pi" | "infinity")
}

/// Meaning of a run of letters without a backslash.
pub fn meaning(run: &str) -> Meaning<'_> {
    let token = match run {
        "log" | "lg" => Token::Log,
        "sqrt" => Token::Root,
        "pi" => Token::Name("pi".to_owned()),
        "inf" | "infinity" | "Infinity" | "infty" => Token::Infinity,
        "or" => Token::Sign('∨'),
        "and" => Token::Sign('∧'),
        "mod" => Token::Modulo,
        _ => match function(run) {
            Some(function) => Token::Function(function),
            None => return variables(run),
        },
    };
    Meaning::Token(token)
}

fn variables(run: &str) -> Meaning<'_> {
    let prefix =
        ["sin", "cos", "tan", "ln"].into_iter().find(|name| run.len() == name.len() + 1 && run.starts_with(name));
    if let Some((function, name)) = prefix.and_then(|name| Some((function(name)?, name))) {
        return Meaning::Function(function, &run[name.len()..]);
    }
    let short = run.len() <= 3 && run.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !short || (run.len() > 1 && (UNITS.contains(&run) || SHORT_WORDS.contains(&run))) {
        return Meaning::Word;
    }
    Meaning::Variables
}

/// Meaning of a command; inner `None` for purely visual commands, outer `None` for unknown ones.
pub fn command(name: &str) -> Option<Option<Token>> {
    let token = match name {
        "frac" | "dfrac" | "tfrac" | "cfrac" => Token::Fraction,
        "binom" | "dbinom" | "tbinom" => Token::Choose,
        "sqrt" => Token::Root,
        "log" | "lg" => Token::Log,
        "cdot" | "times" | "ast" | "cdotp" => Token::Sign('*'),
        "div" => Token::Sign('/'),
        "pm" => Token::Sign('±'),
        "mp" => Token::Sign('∓'),
        "cup" | "bigcup" => Token::Sign('∪'),
        "circ" | "degree" | "degrees" => Token::Sign('°'),
        "vert" | "lvert" | "rvert" | "mid" => Token::Sign('|'),
        "lbrace" => Token::Open('S'),
        "rbrace" => Token::Close('T'),
        "langle" | "lparen" => Token::Open('('),
        "rangle" | "rparen" => Token::Close(')'),
        "lbrack" => Token::Open('['),
        "rbrack" => Token::Close(']'),
        "lfloor" => Token::Open('⌊'),
        "rfloor" => Token::Close('⌋'),
        "lceil" => Token::Open('⌈'),
        "rceil" => Token::Close('⌉'),
        "infty" => Token::Infinity,
        "le" | "leq" | "leqslant" => Token::Relation(Relation::AtMost),
        "ge" | "geq" | "geqslant" => Token::Relation(Relation::AtLeast),
        "lt" => Token::Relation(Relation::Less),
        "gt" => Token::Relation(Relation::Greater),
        "ne" | "neq" => Token::Relation(Relation::NotEqual),
        "in" => Token::Relation(Relation::In),
        "equiv" => Token::Relation(Relation::Equal),
        "approx" | "simeq" | "cong" | "doteq" | "thickapprox" => Token::Relation(Relation::About),
        "pmod" | "bmod" | "mod" => Token::Modulo,
        "lor" | "vee" => Token::Sign('∨'),
        "land" | "wedge" => Token::Sign('∧'),
        "textdegree" => Token::Sign('°'),
        "emptyset" | "varnothing" => Token::Name("emptyset".to_owned()),
        "displaystyle" | "textstyle" | "quad" | "qquad" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr"
        | "Bigl" | "Bigr" | "limits" | "space" | "thinspace" | "boxed" | "fbox" => return Some(None),
        "alpha" | "beta" | "gamma" | "delta" | "epsilon" | "varepsilon" | "zeta" | "eta" | "theta" | "vartheta"
        | "iota" | "kappa" | "lambda" | "mu" | "nu" | "xi" | "pi" | "rho" | "sigma" | "tau" | "upsilon" | "phi"
        | "varphi" | "chi" | "psi" | "omega" | "Gamma" | "Delta" | "Theta" | "Lambda" | "Xi" | "Pi" | "Sigma"
        | "Phi" | "Psi" | "Omega" | "ell" | "hbar" => Token::Name(name.to_owned()),
        _ => Token::Function(function(name)?),
    };
    Some(Some(token))
}

/// Meaning of a single character; inner `None` for ignored characters.
pub fn symbol(letter: char) -> Option<Option<Token>> {
    let token = match letter {
        '+' | '/' | '^' | '!' | '%' | '|' | ',' | '&' | '±' | '∓' | '∪' | '°' => Token::Sign(letter),
        ';' => Token::Sign(','),
        '-' | '−' | '–' => Token::Sign('-'),
        '*' | '×' | '·' | '⋅' | '∗' => Token::Sign('*'),
        '÷' => Token::Sign('/'),
        '(' | '[' | '{' | '⌊' | '⌈' => Token::Open(letter),
        ')' | ']' | '}' | '⌋' | '⌉' => Token::Close(letter),
        '⟨' => Token::Open('('),
        '⟩' => Token::Close(')'),
        '√' => Token::Root,
        '∞' => Token::Infinity,
        '∅' => Token::Name("emptyset".to_owned()),
        'π' => Token::Name("pi".to_owned()),
        'α' => Token::Name("alpha".to_owned()),
        'β' => Token::Name("beta".to_owned()),
        'γ' => Token::Name("gamma".to_owned()),
        'θ' => Token::Name("theta".to_owned()),
        'λ' => Token::Name("lambda".to_owned()),
        'μ' => Token::Name("mu".to_owned()),
        'σ' => Token::Name("sigma".to_owned()),
        'φ' => Token::Name("phi".to_owned()),
        'ω' => Token::Name("omega".to_owned()),
        '∨' | '∧' => Token::Sign(letter),
        '$' | '¢' | '£' | '¥' | '€' | '₩' | '₪' | '₫' | '₱' | '₹' | '₺' | '₽' | '₴' | '₦' | '฿' | '元' | '円' =>
        {
            return Some(None);
        }
        '~' | '`' | '\u{200b}' => return Some(None),
        letter if letter.is_alphabetic() => Token::Name(letter.into()),
        _ => return None,
    };
    Some(Some(token))
}
