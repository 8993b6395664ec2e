//! Equality of two answers, with the rule that decided it.

use std::cmp::Ordering;

use num_rational::BigRational;
use num_traits::{One, Signed};

use crate::find::choice::{leading_letter, only_letter};
use crate::fixed::Fixed;
use crate::lexer::LONGEST;
use crate::normal::{Fraction, normal};
use crate::notation;
use crate::numeric;
use crate::parser::{Answer, read, read_with_symbols};
use crate::polynomial::{Generator, Polynomial, Ring, Work};
use crate::solutions::solution;
use crate::tree::{Expr, Relation, Shape, Trouble};

/// Work limit of exact algebra: a hundredth of a second in the sandbox. The textbook identities of the tests need less
/// than a sixth of it.
const ALGEBRA: u64 = 40_000;
/// Work limit of numeric evaluation, after algebra has failed.
const VALUES: u64 = 20_000;

/// Decimal places of an approximate number that are looked at.
const MAX_DECIMALS: usize = 40;

/// Spellings of the same text.
const SPELLINGS: [(&str, &str); 7] = [
    ("\\ldots", "\\dots"),
    ("\\cdots", "\\dots"),
    ("\\dotsc", "\\dots"),
    ("\\dotsb", "\\dots"),
    ("...", "\\dots"),
    ("{:}", ":"),
    ("\\colon", ":"),
];

/// Deciding rule: the weakest rule that was required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Text comparison, if one answer is not mathematics or the texts are equal.
    Text,
    /// Exact algebra.
    Exact,
    /// Values at seeded random points.
    Numeric,
    /// Closeness within the tolerance.
    Approximate,
    /// Undecided: too large, or without a value. Undecided answers count as not equal.
    Undecided,
}

impl Rule {
    /// Wording in evidence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Text => "by its text",
            Self::Exact => "by exact algebra",
            Self::Numeric => "by values at random points",
            Self::Approximate => "by nearness",
            Self::Undecided => "undecided: too large, or without a value",
        }
    }

    /// Number of the rule in the score's component.
    pub fn number(self) -> f64 {
        match self {
            Self::Text => 1.0,
            Self::Exact => 2.0,
            Self::Numeric => 3.0,
            Self::Approximate => 4.0,
            Self::Undecided => 5.0,
        }
    }
}

/// Settings of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Whether units are compared.
    pub units: bool,
    /// Tolerance of numbers, relative to the expected number.
    pub tolerance: f64,
    /// Seed of the random points.
    pub seed: u64,
}

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the answers are equal.
    pub equal: bool,
    /// Whether the agent's answer was parsed as mathematics.
    pub parsed: bool,
    /// Deciding rule.
    pub rule: Rule,
}

/// Compares the agent's answer with the expected one.
pub fn verify(said: &str, wanted: &str, settings: Settings) -> Verdict {
    if said.len().max(wanted.len()) > LONGEST {
        return Verdict { equal: false, parsed: false, rule: Rule::Undecided };
    }
    let (left, right) = read_both(said, wanted);
    let parsed = left.is_ok();
    let verdict = |equal, rule| Verdict { equal, parsed, rule };
    if plain(said) == plain(wanted) {
        return verdict(!plain(wanted).is_empty(), Rule::Text);
    }
    if let (Some(said), Some(wanted)) = (leading_letter(said), only_letter(wanted)) {
        return verdict(said == wanted, Rule::Text);
    }
    match (left, right) {
        (Ok(left), Ok(right)) => {
            if settings.units && left.units != right.units {
                return verdict(false, Rule::Text);
            }
            let mut judge = Judge { ring: Ring::new(ALGEBRA), values: Work(VALUES), settings, rule: Rule::Exact };
            match judge.same(&left.shape, &right.shape) {
                Ok(equal) => verdict(equal, judge.rule),
                Err(_) => verdict(false, Rule::Undecided),
            }
        }
        (Err(Trouble::TooLarge), _) | (_, Err(Trouble::TooLarge)) => verdict(false, Rule::Undecided),
        // Text comparison ignores case.
        _ => verdict(plain(said).to_lowercase() == plain(wanted).to_lowercase(), Rule::Text),
    }
}

/// Parses both answers. If one of them has no variable, a letter behind a number of the other is a unit.
fn read_both(said: &str, wanted: &str) -> (Result<Answer, Trouble>, Result<Answer, Trouble>) {
    let (left, right) = (read(said), read(wanted));
    let is_value = |one: &Result<Answer, Trouble>| one.as_ref().is_ok_and(|one| !one.shape.has_variables());
    let with_symbols = |one, text: &str, other: &Result<Answer, Trouble>| {
        if is_value(&one) || !is_value(other) { one } else { read_with_symbols(text).or(one) }
    };
    let said = with_symbols(left.clone(), said, &right);
    (said, with_symbols(right, wanted, &left))
}

/// Text without spaces, dollars, text commands and a final period, with one spelling of dots.
fn plain(text: &str) -> String {
    let text = SPELLINGS.iter().fold(notation::plain(text), |text, (one, other)| text.replace(one, other));
    let bare = ["\\text{", "\\textbf{", "\\mathrm{", "\\left", "\\right", "\\!", "\\,", "\\ ", "$"];
    let text = bare.iter().fold(text, |text, dress| text.replace(dress, if dress.ends_with('{') { "{" } else { "" }));
    let text = without_spaces(&text);
    let text = text.strip_suffix('.').unwrap_or(&text);
    let inside =
        text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).filter(|text| !text.contains(['{', '}', ',']));
    inside.unwrap_or(text).to_owned()
}

/// Text that keeps spaces only between letters or digits, so that `4 2` differs from `42`.
fn without_spaces(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if kept.ends_with(char::is_alphanumeric) && word.starts_with(char::is_alphanumeric) {
            kept.push(' ');
        }
        kept.push_str(word);
    }
    kept
}

struct Judge {
    ring: Ring,
    values: Work,
    settings: Settings,
    rule: Rule,
}

impl Judge {
    fn by(&mut self, rule: Rule) {
        self.rule = self.rule.max(rule);
    }

    /// Whether two answers are equal; the agent's answer is the first argument.
    fn same(&mut self, said: &Shape, wanted: &Shape) -> Result<bool, Trouble> {
        match (said, wanted) {
            (Shape::Scalar(said), Shape::Scalar(wanted)) => self.same_value(said, wanted),
            (Shape::Chain(left, by), other) if by.contains(&Relation::About) => {
                self.same_as_chain(left, by, other, true)
            }
            (other, Shape::Chain(right, by)) if by.contains(&Relation::About) => {
                self.same_as_chain(right, by, other, false)
            }
            (Shape::Chain(left, by), Shape::Chain(right, wanted)) => self.same_relation((left, by), (right, wanted)),
            (Shape::Chain(sides, by), other) => self.same_as_chain(sides, by, other, true),
            (other, Shape::Chain(sides, by)) => self.same_as_chain(sides, by, other, false),
            (Shape::Set(said), Shape::Set(wanted)) | (Shape::Union(said), Shape::Union(wanted)) => {
                self.same_members(said, wanted)
            }
            // A set of one solution equals that solution.
            (Shape::Set(one), other) if one.len() == 1 => self.same(&one[0], other),
            (other, Shape::Set(one)) if one.len() == 1 => self.same(other, &one[0]),
            (Shape::Sequence(open, said, close), Shape::Sequence(wanted_open, wanted, wanted_close)) => {
                Ok(open == wanted_open && close == wanted_close && self.all_same(said, wanted)?)
            }
            (Shape::Residue(said, modulus), Shape::Residue(wanted, wanted_modulus)) => {
                Ok(self.same_value(modulus, wanted_modulus)? && self.congruent(said, wanted, wanted_modulus)?)
            }
            (Shape::Matrix(said), Shape::Matrix(wanted)) => {
                let sizes = |rows: &[Vec<Expr>]| (rows.len(), rows[0].len());
                if sizes(said) != sizes(wanted) {
                    return Ok(false);
                }
                for (one, other) in said.iter().flatten().zip(wanted.iter().flatten()) {
                    if !self.same_value(one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn all_same(&mut self, said: &[Shape], wanted: &[Shape]) -> Result<bool, Trouble> {
        if said.len() != wanted.len() {
            return Ok(false);
        }
        for (one, other) in said.iter().zip(wanted) {
            if !self.same(one, other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Set equality: order and repetition are ignored.
    fn same_members(&mut self, said: &[Shape], wanted: &[Shape]) -> Result<bool, Trouble> {
        for one in said {
            if !self.is_among(|judge, other| judge.same(one, other), wanted)? {
                return Ok(false);
            }
        }
        for one in wanted {
            if !self.is_among(|judge, other| judge.same(other, one), said)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_among(
        &mut self,
        same: impl Fn(&mut Self, &Shape) -> Result<bool, Trouble>,
        all: &[Shape],
    ) -> Result<bool, Trouble> {
        for other in all {
            if same(self, other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn same_value(&mut self, said: &Expr, wanted: &Expr) -> Result<bool, Trouble> {
        let signs = (infinite(said), infinite(wanted));
        if signs != (None, None) {
            return Ok(signs.0 == signs.1);
        }
        match self.exactly(said, wanted) {
            Ok(Some(true)) => return Ok(true),
            Ok(Some(false)) => {}
            // Expressions that are too large for exact algebra may still have values.
            Ok(None) | Err(Trouble::TooLarge) => {
                self.by(Rule::Numeric);
                if numeric::equal(said, wanted, self.settings.seed, &mut self.values)? {
                    return Ok(true);
                }
            }
            Err(trouble) => return Err(trouble),
        }
        self.nearly(said, wanted)
    }

    /// Whether the expressions are equal, if algebra can decide.
    fn exactly(&mut self, said: &Expr, wanted: &Expr) -> Result<Option<bool>, Trouble> {
        let (left, right) = (normal(said, &mut self.ring)?, normal(wanted, &mut self.ring)?);
        let ring = &mut self.ring;
        let (one, other) = (ring.multiply(&left.above, &right.below)?, ring.multiply(&right.above, &left.below)?);
        let difference = subtract(&one, &other, ring)?;
        if difference.is_zero() {
            return Ok(Some(true));
        }
        Ok(independent(&difference, ring).then_some(false))
    }

    /// Whether two constants are within the tolerance.
    fn nearly(&mut self, said: &Expr, wanted: &Expr) -> Result<bool, Trouble> {
        let mut names = Vec::new();
        said.variables(&mut names);
        wanted.variables(&mut names);
        let Some(tolerance) = BigRational::from_float(self.settings.tolerance).filter(Signed::is_positive) else {
            return Ok(false);
        };
        if !names.is_empty() {
            return Ok(false);
        }
        let (said, wanted) = (numeric::constant(said, &mut self.values)?, numeric::constant(wanted, &mut self.values)?);
        let most = wanted.abs().multiply(&Fixed::of(&tolerance)?)?;
        let near = said.subtract(&wanted)?.abs() <= most;
        if near {
            self.by(Rule::Approximate);
        }
        Ok(near)
    }

    /// Compares a value or an interval with a chain of relations; `chain_said` tells whether the agent wrote the chain.
    fn same_as_chain(
        &mut self,
        sides: &[Shape],
        by: &[Relation],
        other: &Shape,
        chain_said: bool,
    ) -> Result<bool, Trouble> {
        let mut found = self.named_values(sides, by)?;
        if found.is_empty() && matches!(other, Shape::Sequence(..) | Shape::Union(_) | Shape::Set(_)) {
            found.extend(solution(sides, by).map(|(_, shape)| shape));
        }
        for found in &found {
            let is_same = if chain_said { self.same(found, other)? } else { self.same(other, found)? };
            if is_same {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Values behind a name, as in `x = 5`, `6·7 = 42` or `x ∈ (1, 2)`; contradicting sides give no value. Of an approximate
    /// value and the exact one, both count.
    fn named_values(&mut self, sides: &[Shape], by: &[Relation]) -> Result<Vec<Shape>, Trouble> {
        let last = || sides.last().cloned().into_iter().collect();
        if by == [Relation::In] {
            return Ok(last());
        }
        if by.iter().any(|relation| !matches!(relation, Relation::Equal | Relation::About)) {
            return Ok(vec![]);
        }
        let first = usize::from(name(&sides[0]).is_some());
        let values = &sides[first..];
        for (pair, relation) in values.windows(2).zip(&by[first..]) {
            let agree = match relation {
                Relation::About => self.about(&pair[0], &pair[1])?,
                _ => self.same(&pair[0], &pair[1])?,
            };
            if !agree {
                return Ok(vec![]);
            }
        }
        Ok(if by.contains(&Relation::About) { values.to_vec() } else { last() })
    }

    /// Whether one of two constants is the other one, rounded or cut off to its decimals.
    fn about(&mut self, one: &Shape, other: &Shape) -> Result<bool, Trouble> {
        let (Shape::Scalar(one), Shape::Scalar(other)) = (one, other) else { return Ok(false) };
        let Some(unit) = [one, other].into_iter().filter_map(last_place).max() else { return Ok(false) };
        let (one, other) = (numeric::constant(one, &mut self.values)?, numeric::constant(other, &mut self.values)?);
        Ok(one.subtract(&other)?.abs() < Fixed::of(&unit)?)
    }

    /// Whether two values are equal, or are integers whose difference the modulus divides.
    fn congruent(&mut self, said: &Expr, wanted: &Expr, modulus: &Expr) -> Result<bool, Trouble> {
        let mut number = |expr: &Expr| Ok::<_, Trouble>(normal(expr, &mut self.ring)?.as_number());
        match (number(said)?, number(wanted)?, number(modulus)?) {
            (Some(said), Some(wanted), Some(modulus)) if modulus.is_positive() => {
                Ok(((said - wanted) / modulus).is_integer())
            }
            _ => self.same_value(said, wanted),
        }
    }

    /// Compares two relations: equal sides in either direction, or equations that differ by a factor.
    fn same_relation(
        &mut self,
        said: (&[Shape], &[Relation]),
        wanted: (&[Shape], &[Relation]),
    ) -> Result<bool, Trouble> {
        let equations = said.1 == [Relation::Equal] && wanted.1 == [Relation::Equal];
        if equations && name(&said.0[0]).is_some() && name(&said.0[0]) == name(&wanted.0[0]) {
            return self.same(&said.0[1], &wanted.0[1]);
        }
        if let (Some((variable, said)), Some((other, wanted))) =
            (solution(said.0, said.1), solution(wanted.0, wanted.1))
            && variable == other
        {
            return self.same(&said, &wanted);
        }
        if let ([Shape::Scalar(left), Shape::Scalar(right)], [Shape::Scalar(wanted_left), Shape::Scalar(wanted_right)]) =
            (said.0, wanted.0)
            && infinite(left).or(infinite(right)).or(infinite(wanted_left)).or(infinite(wanted_right)).is_none()
        {
            let (said_by, wanted_by) = (said.1[0], wanted.1[0]);
            let sign = match (said_by == wanted_by, said_by.turned() == wanted_by) {
                (true, true) => 0,
                (true, false) => 1,
                (false, true) => -1,
                (false, false) => return Ok(false),
            };
            let factor = self.factor((left, right), (wanted_left, wanted_right))?;
            return Ok(factor.is_some_and(|factor| sign == 0 || (factor.is_positive() == (sign > 0))));
        }
        let backwards: Vec<Relation> = said.1.iter().rev().map(|relation| relation.turned()).collect();
        if said.1 == wanted.1 && self.all_same(said.0, wanted.0)? {
            return Ok(true);
        }
        let sides: Vec<Shape> = said.0.iter().rev().cloned().collect();
        Ok(backwards == wanted.1 && self.all_same(&sides, wanted.0)?)
    }

    /// Factor between the differences of the sides of two relations, if it exists.
    fn factor(&mut self, said: (&Expr, &Expr), wanted: (&Expr, &Expr)) -> Result<Option<BigRational>, Trouble> {
        let difference = |(left, right): (&Expr, &Expr), ring: &mut Ring| -> Result<Fraction, Trouble> {
            normal(&Expr::Sum(vec![left.clone(), Expr::Negative(Box::new(right.clone()))]), ring)
        };
        let (one, other) = (difference(said, &mut self.ring)?, difference(wanted, &mut self.ring)?);
        let ring = &mut self.ring;
        let (one, other) = (ring.multiply(&one.above, &other.below)?, ring.multiply(&other.above, &one.below)?);
        let (Some((first, above)), Some((second, below))) = (one.leading(), other.leading()) else {
            return Ok(None);
        };
        if first.cmp(second) != Ordering::Equal {
            return Ok(None);
        }
        let factor = above / below;
        let scaled = ring.scale(&other, &factor)?;
        Ok(subtract(&one, &scaled, ring)?.is_zero().then_some(factor))
    }
}

fn subtract(one: &Polynomial, other: &Polynomial, ring: &mut Ring) -> Result<Polynomial, Trouble> {
    let negative = ring.scale(other, &-BigRational::one())?;
    ring.add(one, &negative)
}

/// Whether a nonzero polynomial contains generators without relations unknown to the ring. No relation between π and e
/// is known or excluded.
fn independent(polynomial: &Polynomial, ring: &Ring) -> bool {
    let mut constants: Vec<&str> = Vec::new();
    for place in polynomial.generators() {
        match ring.generator(place) {
            Generator::Opaque(_) => return false,
            Generator::Constant(name) if !constants.contains(&name.as_str()) => constants.push(name),
            _ => {}
        }
    }
    constants.len() <= 1
}

/// Plus or minus infinity, as a sign.
fn infinite(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Infinity => Some(true),
        Expr::Negative(one) => infinite(one).map(|sign| !sign),
        _ => None,
    }
}

/// Unit of the last decimal place of a number.
fn last_place(expr: &Expr) -> Option<BigRational> {
    let number = match expr {
        Expr::Number(number) => number,
        Expr::Negative(inside) => return last_place(inside),
        _ => return None,
    };
    let ten = BigRational::from_integer(10.into());
    let units = std::iter::successors(Some(BigRational::one()), |unit| Some(unit / &ten));
    units.take(MAX_DECIMALS).find(|unit| (number / unit).is_integer())
}

fn name(side: &Shape) -> Option<&Expr> {
    match side {
        Shape::Scalar(expr) if expr.is_name() => Some(expr),
        _ => None,
    }
}
