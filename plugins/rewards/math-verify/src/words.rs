//! Meaning of names, commands and single characters.

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

/// Units of more than one letter that would otherwise be adjacent variables. One-letter units require `\text{}`.
const UNITS: [&str; 39] = [
    "cm", "mm", "km", "nm", "dm", "kg", "mg", "lb", "lbs", "oz", "ft", "in", "mi", "yd", "ml", "mL", "cl", "dl", "hr",
    "min", "sec", "ms", "kJ", "kW", "kN", "Hz", "Pa", "eV", "mol", "deg", "rad", "mph", "kph", "sq", "cc", "am", "pm",
    "AM", "PM",
];
/// Short words that are not variables.
const SHORT_WORDS: [&str; 14] =
    ["is", "the", "to", "of", "no", "yes", "at", "on", "if", "for", "not", "all", "are", "Yes"];

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

/// Meaning of a run of letters without a backslash.
pub fn meaning(run: &str) -> Meaning<'_> {
    let token = match run {
        "log" | "lg" => Token::Log,
        "sqrt" => Token::Root,
        "pi" => Token::Name("pi".to_owned()),
        "inf" | "infinity" | "Infinity" | "infty" => Token::Infinity,
        "or" | "and" => Token::Sign(','),
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
        '$' | '€' | '£' | '~' | '`' | '\u{200b}' => return Some(None),
        letter if letter.is_alphabetic() => Token::Name(letter.into()),
        _ => return None,
    };
    Some(Some(token))
}
