//! Equality of two answers, with the rule that decided it.

use std::cmp::Ordering;

use num_rational::BigRational;
use num_traits::{One, Signed};

use crate::fixed::Fixed;
use crate::lexer::LONGEST;
use crate::normal::{Fraction, normal};
use crate::numeric;
use crate::parser::{read, turned};
use crate::polynomial::{Generator, Polynomial, Ring, Work};
use crate::tree::{Expr, Relation, Shape, Trouble};

/// Work limit of exact algebra: a hundredth of a second in the sandbox. The textbook identities of the tests need less
/// than a sixth of it.
const ALGEBRA: u64 = 40_000;
/// Work limit of numeric evaluation, after algebra has failed.
const VALUES: u64 = 20_000;

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
    let (left, right) = (read(said), read(wanted));
    let parsed = left.is_ok();
    let verdict = |equal, rule| Verdict { equal, parsed, rule };
    if plain(said) == plain(wanted) {
        return verdict(!plain(wanted).is_empty(), Rule::Text);
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

/// Text without spaces, dollars, text commands and a final period.
fn plain(text: &str) -> String {
    let bare = ["\\text{", "\\textbf{", "\\mathrm{", "\\left", "\\right", "\\!", "\\,", "\\ ", "$"];
    let text = bare
        .iter()
        .fold(text.to_owned(), |text, dress| text.replace(dress, if dress.ends_with('{') { "{" } else { "" }));
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
        let found = match self.named_value(sides, by)? {
            Some(value) => Some(value),
            None if matches!(other, Shape::Sequence(..) | Shape::Union(_)) => interval(sides, by),
            None => None,
        };
        match found {
            Some(found) if chain_said => self.same(&found, other),
            Some(found) => self.same(other, &found),
            None => Ok(false),
        }
    }

    /// Value behind a name, as in `x = 5`, `6·7 = 42` or `x ∈ (1, 2)`; contradicting sides give no value.
    fn named_value(&mut self, sides: &[Shape], by: &[Relation]) -> Result<Option<Shape>, Trouble> {
        if by == [Relation::In] {
            return Ok(sides.last().cloned());
        }
        if by.iter().any(|relation| *relation != Relation::Equal) {
            return Ok(None);
        }
        let values = if name(&sides[0]).is_some() { &sides[1..] } else { sides };
        for pair in values.windows(2) {
            if !self.same(&pair[0], &pair[1])? {
                return Ok(None);
            }
        }
        Ok(values.last().cloned())
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
        if let ([Shape::Scalar(left), Shape::Scalar(right)], [Shape::Scalar(wanted_left), Shape::Scalar(wanted_right)]) =
            (said.0, wanted.0)
            && infinite(left).or(infinite(right)).or(infinite(wanted_left)).or(infinite(wanted_right)).is_none()
        {
            let (said_by, wanted_by) = (said.1[0], wanted.1[0]);
            let sign = match (said_by == wanted_by, turned(said_by) == wanted_by) {
                (true, true) => 0,
                (true, false) => 1,
                (false, true) => -1,
                (false, false) => return Ok(false),
            };
            let factor = self.factor((left, right), (wanted_left, wanted_right))?;
            return Ok(factor.is_some_and(|factor| sign == 0 || (factor.is_positive() == (sign > 0))));
        }
        let backwards: Vec<Relation> = said.1.iter().rev().map(|relation| turned(*relation)).collect();
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

fn name(side: &Shape) -> Option<&Expr> {
    match side {
        Shape::Scalar(expr) if expr.is_name() => Some(expr),
        _ => None,
    }
}

/// Interval of a chain such as `x > 1` or `1 < x ≤ 2`.
fn interval(sides: &[Shape], by: &[Relation]) -> Option<Shape> {
    let rising = |relation: Relation| match relation {
        Relation::Less => Some((true, false)),
        Relation::AtMost => Some((true, true)),
        Relation::Greater => Some((false, false)),
        Relation::AtLeast => Some((false, true)),
        Relation::Equal | Relation::NotEqual | Relation::In => None,
    };
    let infinity = |negative: bool| {
        Shape::Scalar(if negative { Expr::Negative(Box::new(Expr::Infinity)) } else { Expr::Infinity })
    };
    let (low, high) = match (sides, by) {
        ([left, right], [relation]) => {
            let (up, closed) = rising(*relation)?;
            let (value, above) = match (name(left), name(right)) {
                (Some(_), None) => (right, !up),
                (None, Some(_)) => (left, up),
                _ => return None,
            };
            let value = (value.clone(), closed);
            if above { (value, (infinity(false), false)) } else { ((infinity(true), false), value) }
        }
        ([left, middle, right], [first, second]) if name(middle).is_some() => {
            let ((up, first), (also, second)) = (rising(*first)?, rising(*second)?);
            let (left, right) = ((left.clone(), first), (right.clone(), second));
            match (up, also) {
                (true, true) => (left, right),
                (false, false) => (right, left),
                _ => return None,
            }
        }
        _ => return None,
    };
    let (open, close) = (if low.1 { '[' } else { '(' }, if high.1 { ']' } else { ')' });
    Some(Shape::Sequence(open, vec![low.0, high.0], close))
}
