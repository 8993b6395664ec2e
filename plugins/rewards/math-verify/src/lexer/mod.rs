//! Tokenizer for LaTeX and plain text. It drops purely visual markup.

mod number;

use num_rational::BigRational;

use crate::notation::fraction;
use crate::tree::{Function, Relation, Trouble};
use crate::words::{self, Meaning};

/// Maximum length of an answer, in bytes.
pub const LONGEST: usize = 8_000;
/// Maximum nesting of text commands with numbers in them.
const DEEPEST_TEXT: u32 = 4;
/// Commands that are a space.
const SPACES: [&str; 7] = ["\\,", "\\;", "\\:", "\\ ", "~", "\\quad", "\\space"];

/// Token.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// Number, and whether it was written as an integer.
    Number(BigRational, bool),
    /// Variable or constant.
    Name(String),
    /// Text, such as a unit.
    Word(String),
    /// Function.
    Function(Function),
    /// `\log`, whose base may follow.
    Log,
    /// `\frac`
    Fraction,
    /// `\binom`
    Choose,
    /// `\sqrt`
    Root,
    /// `\pmod`, whose number follows.
    Modulo,
    /// `∞`
    Infinity,
    /// Relation.
    Relation(Relation),
    /// One of `+ - * / ^ _ ! % ° ± ∓ ∪ ∨ ∧ | , & \`; the last ends a row.
    Sign(char),
    /// One of `( [ { S`, the last of which is the brace of a set, and `⌊ ⌈`.
    Open(char),
    /// One of `) ] } T` and `⌋ ⌉`.
    Close(char),
    /// Start of a matrix.
    Begin,
    /// End of a matrix.
    End,
}

/// Tokenizes a text. With `symbols` a letter behind a number may be the symbol of a unit.
pub fn tokens(text: &str, symbols: bool) -> Result<Vec<Token>, Trouble> {
    if text.len() > LONGEST {
        return Err(Trouble::TooLarge);
    }
    let mut lexer = Lexer { rest: text, depth: 0, tokens: Vec::new(), symbols, is_spaced: false, nesting: 0 };
    lexer.whole()?;
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    rest: &'a str,
    /// Number of open brackets; inside brackets a comma separates members.
    depth: u32,
    tokens: Vec<Token>,
    symbols: bool,
    /// Whether a space precedes the next token.
    is_spaced: bool,
    /// Number of open text commands.
    nesting: u32,
}

impl<'a> Lexer<'a> {
    fn whole(&mut self) -> Result<(), Trouble> {
        while !self.rest.is_empty() {
            let before = self.rest;
            self.token()?;
            let eaten = &before[..before.len() - self.rest.len()];
            self.is_spaced = eaten.ends_with(char::is_whitespace) || SPACES.contains(&eaten);
        }
        Ok(())
    }

    fn push(&mut self, token: Token) {
        let token = self.turned_bracket(token);
        match token {
            Token::Open('(' | '[' | 'S') => self.depth += 1,
            Token::Close(')' | ']' | 'T') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.tokens.push(token);
    }

    /// Brackets of open intervals that are turned, `]0,1[`, as the usual ones.
    fn turned_bracket(&self, token: Token) -> Token {
        let rest = self.rest.trim_start();
        let begins = matches!(self.tokens.last(), None | Some(Token::Sign('∪' | ',' | '∨') | Token::Relation(_)));
        let ends =
            rest.is_empty() || ["∪", "\\cup", "\\text", "or", ",", "$", "."].iter().any(|next| rest.starts_with(next));
        match token {
            Token::Close(']') if self.depth == 0 && begins => Token::Open('('),
            Token::Open('[') if self.depth > 0 && !begins && ends => Token::Close(')'),
            other => other,
        }
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let eaten = self.rest.strip_prefix(prefix);
        self.rest = eaten.unwrap_or(self.rest);
        eaten.is_some()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|letter| !wanted(letter)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn token(&mut self) -> Result<(), Trouble> {
        let Some(first) = self.rest.chars().next() else { return Ok(()) };
        let second = self.rest[first.len_utf8()..].chars().next();
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|letter| letter.is_ascii_digit())) {
            return self.number();
        }
        if first.is_ascii_alphabetic() {
            let run = self.take_while(|letter| letter.is_ascii_alphabetic());
            self.letters(run);
            return Ok(());
        }
        if self.eat("\\") {
            return self.command();
        }
        if words::is_foreign(first) {
            let run = self.take_while(words::is_foreign);
            self.push(Token::Word(run.to_owned()));
            return Ok(());
        }
        // Markup before the first value.
        if first == '*' && self.tokens.is_empty() {
            self.take_while(|letter| letter == '*');
            return Ok(());
        }
        if self.eat("**") {
            self.push(Token::Sign('^'));
            return Ok(());
        }
        self.rest = &self.rest[first.len_utf8()..];
        match first {
            '_' => return self.subscript(),
            '\'' | '′' => match self.tokens.last_mut() {
                Some(Token::Name(name)) => name.push('\''),
                _ => return Err(Trouble::Unreadable),
            },
            '.' if self.rest.trim().is_empty() => {}
            letter if letter.is_whitespace() => {}
            letter if fraction(letter).is_some() => self.fraction(letter),
            letter => {
                let token = self.relation(letter).or_else(|| words::symbol(letter)).ok_or(Trouble::Unreadable)?;
                if let Some(token) = token {
                    self.push(token);
                }
            }
        }
        Ok(())
    }

    /// Relation of one or two characters.
    fn relation(&mut self, first: char) -> Option<Option<Token>> {
        let or_equal = |lexer: &mut Self, with, without| if lexer.eat("=") { with } else { without };
        let relation = match first {
            '=' => or_equal(self, Relation::Equal, Relation::Equal),
            '<' => or_equal(self, Relation::AtMost, Relation::Less),
            '>' => or_equal(self, Relation::AtLeast, Relation::Greater),
            '!' if self.eat("=") => Relation::NotEqual,
            '≤' | '⩽' => Relation::AtMost,
            '≥' | '⩾' => Relation::AtLeast,
            '≠' => Relation::NotEqual,
            '∈' => Relation::In,
            '≡' => Relation::Equal,
            '≈' | '≃' | '≅' => Relation::About,
            _ => return None,
        };
        Some(Some(Token::Relation(relation)))
    }

    /// Letters without a backslash: a function, a unit, adjacent variables or a word.
    fn letters(&mut self, run: &str) {
        if self.quantity(run) {
            return;
        }
        match words::meaning(run) {
            Meaning::Token(token) => self.push(token),
            Meaning::Variables => run.chars().for_each(|letter| self.push(Token::Name(letter.into()))),
            Meaning::Function(function, argument) => {
                self.push(Token::Function(function));
                self.push(Token::Name(argument.to_owned()));
            }
            Meaning::Word => self.push(Token::Word(run.to_owned())),
        }
    }

    /// Pushes letters that belong to a number: a currency, a unit, or a word that changes its value. Returns whether they do.
    fn quantity(&mut self, run: &str) -> bool {
        let last = self.tokens.last();
        let before_last = self.tokens.len().checked_sub(2).map(|place| &self.tokens[place]);
        let is_number = matches!(last, Some(Token::Number(..) | Token::Close(_)));
        let is_unit = matches!(last, Some(Token::Word(_)))
            || matches!((before_last, last), (Some(Token::Word(_)), Some(Token::Sign('/' | '*'))));
        let is_degree = matches!(last, Some(Token::Sign('°')))
            || matches!((before_last, last), (Some(Token::Sign('°')), Some(Token::Close('}'))));
        let rest = self.rest.trim_start_matches(['\\', '$', '*', ' ']);
        let is_amount = rest.starts_with(|letter: char| letter.is_ascii_digit() || ".-−".contains(letter));
        if words::is_currency(run) && !is_number && is_amount {
            return true;
        }
        if is_number && let Some(scale) = words::scale(run) {
            self.tokens.extend(scale);
            return true;
        }
        let is_word = is_degree && matches!(run, "C" | "F" | "K")
            || is_number && words::is_unit(run, self.is_spaced)
            || is_unit && (words::is_unit(run, true) || matches!(run, "a" | "an" | "per"))
            || self.symbols && (is_number && self.is_spaced || is_unit) && words::is_symbol(run);
        if is_word {
            self.tokens.push(Token::Word(run.to_owned()));
        }
        is_word
    }

    /// Command after a backslash.
    fn command(&mut self) -> Result<(), Trouble> {
        let name = self.take_while(|letter| letter.is_ascii_alphabetic());
        if name.is_empty() {
            let Some(letter) = self.rest.chars().next() else { return Ok(()) };
            self.rest = &self.rest[letter.len_utf8()..];
            match letter {
                '{' => self.push(Token::Open('S')),
                '}' => self.push(Token::Close('T')),
                '\\' => self.push(Token::Sign('\\')),
                '%' => self.push(Token::Sign('%')),
                '|' => self.push(Token::Sign('|')),
                // Spaces, dollars and delimiters of a formula.
                ',' | ';' | ':' | '!' | ' ' | '$' | '(' | ')' | '[' | ']' => {}
                _ => return Err(Trouble::Unreadable),
            }
            return Ok(());
        }
        match name {
            "begin" | "end" => self.block(name == "begin"),
            "text" | "textbf" | "textit" | "textrm" | "mathrm" | "mathbf" | "mathit" | "mathbb" | "mathcal"
            | "mbox" | "operatorname" | "boldsymbol" | "overline" | "vec" | "hat" | "bar" | "underline" => {
                self.wrapped(name)
            }
            // The bracket follows; a dot stands for an invisible bracket.
            "left" | "right" => {
                let _ = self.eat(".");
                Ok(())
            }
            _ => {
                if let Some(token) = words::command(name).ok_or(Trouble::Unreadable)? {
                    let arguments = match token {
                        Token::Fraction | Token::Choose => 2,
                        Token::Root => 1,
                        _ => 0,
                    };
                    self.push(token);
                    self.bare_arguments(arguments);
                }
                Ok(())
            }
        }
    }

    /// Arguments without braces are single digits: `\frac12` is one half.
    fn bare_arguments(&mut self, count: usize) {
        for _ in 0..count {
            let rest = self.rest.trim_start();
            let Some(digit) = rest.chars().next().and_then(|letter| letter.to_digit(10)) else { return };
            self.rest = &rest[1..];
            self.push(Token::Number(BigRational::from_integer(digit.into()), true));
        }
    }

    /// `\begin{pmatrix}` and similar; the column letters of an array are dropped.
    fn block(&mut self, begins: bool) -> Result<(), Trouble> {
        let name = self.braced().ok_or(Trouble::Unreadable)?;
        match name.trim_end_matches('*') {
            "pmatrix" | "bmatrix" | "matrix" | "vmatrix" | "Bmatrix" | "smallmatrix" => {}
            "array" if begins => {
                let _ = self.braced();
            }
            "array" => {}
            _ => return Err(Trouble::Unreadable),
        }
        self.push(if begins { Token::Begin } else { Token::End });
        Ok(())
    }

    /// `\text{…}` and similar.
    fn wrapped(&mut self, name: &str) -> Result<(), Trouble> {
        let inside = match self.braced() {
            Some(inside) => inside.trim(),
            None => self.take_while(|letter| letter.is_ascii_alphabetic()),
        };
        if inside.is_empty() {
            return Ok(());
        }
        let upright = matches!(name, "text" | "textbf" | "textit" | "textrm" | "mathrm" | "mbox" | "operatorname");
        // The letter of a multiple-choice answer may be in brackets.
        let letter = inside.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
        let inside = letter.filter(|letter| letter.chars().count() == 1).unwrap_or(inside);
        let single = inside.chars().count() == 1 && inside.chars().all(char::is_alphabetic);
        let is_number = matches!(self.tokens.last(), Some(Token::Number(..) | Token::Close(_)));
        if upright && is_number && single && words::is_symbol(inside) {
            self.tokens.push(Token::Word(inside.to_owned()));
            return Ok(());
        }
        if upright && self.quantity(inside) {
            return Ok(());
        }
        if upright && !single && inside.contains(|letter: char| letter.is_ascii_digit() || letter == '$') {
            return self.text(inside);
        }
        match words::meaning(inside) {
            Meaning::Token(token) if !single => self.push(token),
            // An accent, such as a bar or an arrow, makes a different variable.
            _ if !upright && name != "mathbf" && name != "mathit" && name != "boldsymbol" => {
                self.push(Token::Name(format!("{name}({inside})")));
            }
            _ if single => self.push(Token::Name(inside.to_owned())),
            _ => self.push(Token::Word(inside.to_owned())),
        }
        Ok(())
    }

    /// Text with a number or a currency, which is read like text outside of a command.
    fn text(&mut self, inside: &'a str) -> Result<(), Trouble> {
        if self.nesting == DEEPEST_TEXT {
            return Err(Trouble::TooLarge);
        }
        self.nesting += 1;
        let rest = std::mem::replace(&mut self.rest, inside);
        let read = self.whole();
        self.rest = rest;
        self.nesting -= 1;
        read
    }

    /// Content of the next braces, which may be nested.
    fn braced(&mut self) -> Option<&'a str> {
        let inside = self.rest.trim_start().strip_prefix('{')?;
        let mut depth = 1_u32;
        let end = inside.char_indices().find(|(_, letter)| {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        self.rest = &inside[end.0 + 1..];
        Some(&inside[..end.0])
    }

    /// Appends a subscript to its name; the parser handles the base of a logarithm.
    fn subscript(&mut self) -> Result<(), Trouble> {
        if let Some(Token::Name(_)) = self.tokens.last() {
            let inside = match self.braced() {
                Some(inside) => inside,
                None => {
                    let first = self.rest.trim_start();
                    let length = first.chars().next().ok_or(Trouble::Unreadable)?.len_utf8();
                    self.rest = &first[length..];
                    &first[..length]
                }
            };
            let plain: String = inside.chars().filter(|letter| !letter.is_whitespace()).collect();
            if let Some(Token::Name(name)) = self.tokens.last_mut() {
                name.push('_');
                name.push_str(&plain);
            }
        } else {
            self.push(Token::Sign('_'));
        }
        Ok(())
    }
}
