//! Parser from tokens to an answer. It accepts the usual notations of final answers and rejects others.

use num_rational::BigRational;

use crate::lexer::{Token, tokens};
use crate::notation::plain;
use crate::solutions::{intersection_of, real_line, union_of};
use crate::tree::{Expr, Function, Relation, Shape, Trouble};

/// Maximum nesting of brackets, powers and signs.
const DEEPEST: u32 = 48;
/// Maximum number of list members, and of rows or columns of a matrix.
const MAX_MEMBERS: usize = 64;
/// Maximum number of tokens of an answer.
const MAX_TOKENS: usize = 2_000;

/// Answer with the units of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Parsed answer.
    pub shape: Shape,
    /// Words after numbers, in order.
    pub units: Vec<String>,
}

/// Words for all real numbers, without spaces.
const REALS: [&str; 4] = ["allrealnumbers", "allreals", "therealnumbers", "allrealvalues"];

/// Parses an answer.
pub fn read(text: &str) -> Result<Answer, Trouble> {
    parse(text, false)
}

/// Parses an answer in which a letter behind a number may be the symbol of a unit, such as the `m` of `5 m`.
pub fn read_with_symbols(text: &str) -> Result<Answer, Trouble> {
    parse(text, true)
}

fn parse(text: &str, symbols: bool) -> Result<Answer, Trouble> {
    let tokens = tokens(&plain(text), symbols)?;
    if tokens.len() > MAX_TOKENS {
        return Err(Trouble::TooLarge);
    }
    let plus = Parser::new(&tokens, true).whole()?;
    if !tokens.iter().any(|token| matches!(token, Token::Sign('±' | '∓'))) {
        return Ok(plus);
    }
    // All `±` signs flip together, so there are two answers.
    let minus = Parser::new(&tokens, false).whole()?;
    Ok(Answer { shape: Shape::Set(vec![plus.shape, minus.shape]), units: plus.units })
}

/// Token reader; `expression.rs` contains the parsers of expressions.
pub struct Parser<'a> {
    pub tokens: &'a [Token],
    pub place: usize,
    pub depth: u32,
    /// Current choice of the `±` sign.
    pub plus: bool,
    /// Nesting depth in arguments of functions, where `°` means degrees.
    pub functions: u32,
    /// Nesting depth of absolute-value bars.
    pub bars: u32,
    units: Vec<String>,
}

impl<'a> Parser<'a> {
    fn new(tokens: &'a [Token], plus: bool) -> Self {
        Self { tokens, place: 0, depth: 0, plus, functions: 0, bars: 0, units: Vec::new() }
    }

    /// Next token.
    pub fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.place)
    }

    /// Consumes this sign if it is next.
    pub fn eat(&mut self, sign: char) -> bool {
        let eaten = self.peek() == Some(&Token::Sign(sign));
        self.place += usize::from(eaten);
        eaten
    }

    /// Consumes this token, or fails.
    pub fn expect(&mut self, token: &Token) -> Result<(), Trouble> {
        if self.peek() != Some(token) {
            return Err(Trouble::Unreadable);
        }
        self.place += 1;
        Ok(())
    }

    /// Runs a parser one level deeper.
    pub fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Trouble>) -> Result<T, Trouble> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Trouble::TooLarge);
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn whole(mut self) -> Result<Answer, Trouble> {
        if self.are_reals() {
            return Ok(Answer { shape: real_line(), units: vec![] });
        }
        let mut members = self.members(self.tokens.len())?;
        let joined = |sign| self.tokens.contains(&Token::Sign(sign));
        let shape = match members.len() {
            0 => return Err(Trouble::Unreadable),
            1 => members.remove(0),
            _ if joined('∧') => intersection_of(&members).unwrap_or(Shape::Set(members)),
            _ => union_of(&members).unwrap_or(Shape::Set(members)),
        };
        Ok(Answer { shape, units: self.units })
    }

    /// Whether the tokens are words for all real numbers.
    fn are_reals(&self) -> bool {
        let words =
            self.tokens.iter().map(|token| if let Token::Word(word) = token { Some(word.as_str()) } else { None });
        let words: Option<String> = words.collect();
        words.is_some_and(|words| REALS.contains(&&*words.replace(char::is_whitespace, "").to_ascii_lowercase()))
    }

    /// Members between commas, up to the token `end`.
    fn members(&mut self, end: usize) -> Result<Vec<Shape>, Trouble> {
        let mut members = Vec::new();
        while self.place < end {
            if members.len() == MAX_MEMBERS {
                return Err(Trouble::TooLarge);
            }
            members.push(self.chain()?);
            // `1, 2, and 3` has two adjacent separators.
            let mut separated = false;
            while self.place < end && (self.eat(',') || self.eat('∨') || self.eat('∧')) {
                separated = true;
            }
            if self.place < end && !separated {
                return Err(Trouble::Unreadable);
            }
        }
        if self.place == end { Ok(members) } else { Err(Trouble::Unreadable) }
    }

    /// Sides with relations between them.
    fn chain(&mut self) -> Result<Shape, Trouble> {
        // `≈ 3.14` leaves the name out.
        self.place += usize::from(self.peek() == Some(&Token::Relation(Relation::About)));
        let mut sides = vec![self.union()?];
        let mut relations = Vec::new();
        while let Some(Token::Relation(relation)) = self.peek() {
            self.place += 1;
            relations.push(*relation);
            sides.push(self.union()?);
        }
        if relations.len() > MAX_MEMBERS {
            return Err(Trouble::TooLarge);
        }
        Ok(if relations.is_empty() { sides.remove(0) } else { Shape::Chain(sides, relations) })
    }

    /// Union of sets and intervals.
    fn union(&mut self) -> Result<Shape, Trouble> {
        let mut parts = vec![self.member()?];
        while self.eat('∪') {
            if parts.len() == MAX_MEMBERS {
                return Err(Trouble::TooLarge);
            }
            parts.push(self.member()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Shape::Union(parts) })
    }

    /// A sequence, a set, a matrix or one value with its unit.
    fn member(&mut self) -> Result<Shape, Trouble> {
        if self.peek() == Some(&Token::Begin) {
            return self.matrix();
        }
        if self.peek() == Some(&Token::Name("emptyset".to_owned())) {
            self.place += 1;
            return Ok(Shape::Set(vec![]));
        }
        let reals = Token::Name("mathbb(R)".to_owned());
        if self.peek() == Some(&reals) && self.ends_member(self.place + 1) {
            self.place += 1;
            return Ok(real_line());
        }
        if let Some(end) = self.bracketed() {
            return self.sequence(end);
        }
        let value = self.sum()?;
        if let Some(modulus) = self.modulus()? {
            return Ok(Shape::Residue(value, modulus));
        }
        self.unit();
        Ok(Shape::Scalar(value))
    }

    /// Number behind `\\pmod`, `\\bmod` or `(mod`.
    fn modulus(&mut self) -> Result<Option<Expr>, Trouble> {
        let bracket = usize::from(self.begins_modulus());
        if self.tokens.get(self.place + bracket) != Some(&Token::Modulo) {
            return Ok(None);
        }
        self.place += bracket + 1;
        let modulus = self.deeper(Self::sum)?;
        if bracket == 1 {
            self.expect(&Token::Close(')'))?;
        }
        Ok(Some(modulus))
    }

    /// Whether a bracket with a modulus follows.
    fn begins_modulus(&self) -> bool {
        self.peek() == Some(&Token::Open('(')) && self.tokens.get(self.place + 1) == Some(&Token::Modulo)
    }

    /// Position of the closing bracket, if the next bracket encloses a sequence or a set instead of a subexpression.
    fn bracketed(&self) -> Option<usize> {
        let Some(Token::Open(open)) = self.peek() else { return None };
        let mut depth = 0_u32;
        let mut comma = false;
        let close = (self.place..self.tokens.len()).find(|place| {
            match &self.tokens[*place] {
                Token::Open(_) | Token::Begin => depth += 1,
                Token::Close(_) | Token::End => depth = depth.saturating_sub(1),
                Token::Sign(',') if depth == 1 => comma = true,
                _ => {}
            }
            depth == 0
        })?;
        let alone = self.ends_member(close + 1);
        let set = *open == 'S';
        (alone && (comma || set) && matches!(open, '(' | '[' | '{' | 'S')).then_some(close)
    }

    /// Whether a member ends before this place.
    fn ends_member(&self, place: usize) -> bool {
        self.tokens.get(place).is_none_or(|token| {
            matches!(token, Token::Sign(',' | '∪' | '∨' | '∧') | Token::Relation(_) | Token::Close(_) | Token::Word(_))
        })
    }

    fn sequence(&mut self, close: usize) -> Result<Shape, Trouble> {
        let (Some(Token::Open(open)), Token::Close(end)) = (self.peek(), &self.tokens[close]) else {
            return Err(Trouble::Unreadable);
        };
        self.place += 1;
        let members = self.deeper(|parser| parser.members(close))?;
        self.place = close + 1;
        match (open, end) {
            ('S', 'T') | ('{', '}') => Ok(Shape::Set(members)),
            ('(' | '[', ')' | ']') => Ok(Shape::Sequence(*open, members, *end)),
            _ => Err(Trouble::Unreadable),
        }
    }

    fn matrix(&mut self) -> Result<Shape, Trouble> {
        self.place += 1;
        let mut rows = vec![vec![]];
        loop {
            if self.peek() == Some(&Token::End) {
                self.place += 1;
                break;
            }
            if rows.len() * rows[0].len().max(1) > MAX_MEMBERS * 4 {
                return Err(Trouble::TooLarge);
            }
            let value = self.deeper(Self::sum)?;
            if let Some(row) = rows.last_mut() {
                row.push(value);
            }
            match self.peek() {
                Some(Token::Sign('&')) => self.place += 1,
                Some(Token::Sign('\\')) => {
                    self.place += 1;
                    if self.peek() != Some(&Token::End) {
                        rows.push(vec![]);
                    }
                }
                Some(Token::End) => {}
                _ => return Err(Trouble::Unreadable),
            }
        }
        let width = rows[0].len();
        let even = width > 0 && rows.iter().all(|row| row.len() == width);
        if even { Ok(Shape::Matrix(rows)) } else { Err(Trouble::Unreadable) }
    }

    /// Unit after a value: `cm`, `cm^2`, `miles / hour`, `°`.
    fn unit(&mut self) {
        let mut unit = String::new();
        loop {
            match self.peek() {
                Some(Token::Word(word)) => unit.push_str(word),
                Some(Token::Sign('°')) => unit.push('°'),
                Some(Token::Sign(sign @ ('^' | '/' | '*'))) if !unit.is_empty() => unit.push(*sign),
                Some(Token::Number(number, true)) if unit.ends_with('^') => unit.push_str(&number.to_string()),
                Some(Token::Open('{') | Token::Close('}')) if unit.contains('^') => {}
                // `30^\circ`, with or without braces.
                Some(Token::Sign('^')) if self.degrees() => {}
                Some(Token::Open('{')) if self.tokens.get(self.place + 1) == Some(&Token::Sign('°')) => {}
                Some(Token::Close('}'))
                    if unit.ends_with('°')
                        && self.tokens.get(self.place.wrapping_sub(2)) == Some(&Token::Open('{')) => {}
                _ => break,
            }
            self.place += 1;
        }
        if !unit.is_empty() {
            self.units.push(unit.split_whitespace().collect::<String>().to_lowercase());
        }
    }

    /// Whether `^` and degrees follow.
    pub fn degrees(&self) -> bool {
        let at = |step: usize| self.tokens.get(self.place + step);
        let braced = at(1) == Some(&Token::Open('{')) && at(2) == Some(&Token::Sign('°'));
        at(0) == Some(&Token::Sign('^')) && (at(1) == Some(&Token::Sign('°')) || braced)
    }

    /// Sum.
    pub fn sum(&mut self) -> Result<Expr, Trouble> {
        let mut terms = vec![self.product()?];
        loop {
            let negative = match self.peek() {
                Some(Token::Sign('+')) => false,
                Some(Token::Sign('-')) => true,
                Some(Token::Sign('±')) => !self.plus,
                Some(Token::Sign('∓')) => self.plus,
                _ => break,
            };
            self.place += 1;
            let term = self.product()?;
            terms.push(if negative { Expr::Negative(Box::new(term)) } else { term });
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Expr::Sum(terms) })
    }

    /// Factors, with or without a sign between them.
    fn product(&mut self) -> Result<Expr, Trouble> {
        let mut value = self.signed()?;
        let mut factors: Vec<Expr> = Vec::new();
        loop {
            if self.eat('*') {
                factors.push(value);
                value = self.signed()?;
            } else if self.eat('/') {
                // A flat product avoids a deep tree for a long row of bars.
                factors.push(value);
                value = Expr::Power(Box::new(self.signed()?), Box::new(Expr::integer(-1)));
            } else if let Some(mixed) = self.mixed(&value)? {
                value = mixed;
            } else if self.begins_factor() {
                factors.push(value);
                value = self.power()?;
            } else {
                factors.push(value);
                return Ok(product_of(factors));
            }
            if factors.len() > MAX_TOKENS {
                return Err(Trouble::TooLarge);
            }
        }
    }

    /// Mixed number, `3\frac{1}{2}` or `3 1/2`: an integer followed by a fraction of integers.
    fn mixed(&mut self, value: &Expr) -> Result<Option<Expr>, Trouble> {
        let whole = matches!(self.tokens.get(self.place.wrapping_sub(1)), Some(Token::Number(_, true)));
        let Expr::Number(_) = value else { return Ok(None) };
        if !whole {
            return Ok(None);
        }
        let add = |fraction: Expr| Some(Expr::Sum(vec![value.clone(), fraction]));
        match self.peek() {
            Some(Token::Fraction) => {
                let fraction = self.power()?;
                let plain = matches!(&fraction, Expr::Quotient(one, other)
                    if matches!((&**one, &**other), (Expr::Number(_), Expr::Number(_))));
                Ok(if plain { add(fraction) } else { Some(Expr::Product(vec![value.clone(), fraction])) })
            }
            Some(Token::Number(above, true)) => match self.tokens.get(self.place + 1..self.place + 3) {
                Some([Token::Sign('/'), Token::Number(below, true)]) => {
                    self.place += 3;
                    let part = |number: &BigRational| Box::new(Expr::Number(number.clone()));
                    Ok(add(Expr::Quotient(part(above), part(below))))
                }
                // Two adjacent numbers are not a product.
                _ => Err(Trouble::Unreadable),
            },
            Some(Token::Number(..)) => Err(Trouble::Unreadable),
            _ => Ok(None),
        }
    }

    /// Whether a factor may follow without a multiplication sign.
    fn begins_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Open(open)) => {
                // A brace with a degree belongs to a unit, and a bracket with a modulus to the whole.
                !self.begins_modulus() && *open != 'S' && self.tokens.get(self.place + 1) != Some(&Token::Sign('°'))
            }
            Some(Token::Sign('|')) => self.bars == 0,
            Some(
                Token::Name(_)
                | Token::Function(_)
                | Token::Log
                | Token::Fraction
                | Token::Choose
                | Token::Root
                | Token::Infinity,
            ) => true,
            _ => false,
        }
    }

    /// Factor with leading signs.
    fn signed(&mut self) -> Result<Expr, Trouble> {
        let negative = match self.peek() {
            Some(Token::Sign('+')) => false,
            Some(Token::Sign('-')) => true,
            Some(Token::Sign('±')) => !self.plus,
            Some(Token::Sign('∓')) => self.plus,
            _ => return self.power(),
        };
        self.place += 1;
        // The sign applies to a whole mixed number, and to a power.
        let value = self.deeper(Self::signed)?;
        let value = self.mixed(&value)?.unwrap_or(value);
        Ok(if negative { Expr::Negative(Box::new(value)) } else { value })
    }
}

/// Product of one or more factors.
fn product_of(mut factors: Vec<Expr>) -> Expr {
    if factors.len() == 1 { factors.remove(0) } else { Expr::Product(factors) }
}

/// Logarithm to a base.
pub fn logarithm(base: Expr, argument: Expr) -> Expr {
    let ln = |value| Box::new(Expr::Apply(Function::Ln, Box::new(value)));
    Expr::Quotient(ln(argument), ln(base))
}
