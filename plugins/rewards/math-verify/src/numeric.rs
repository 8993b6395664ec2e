//! Comparison of two expressions at seeded random points, as the last rule.
//!
//! An agent that knew the points could write an expression that is correct only there, so the seed comes from the
//! host's random stream, which agents cannot see. Values that agree in 150 bits count as equal.

use gymkhana_sdk::Rng;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive};

use crate::fixed::{Fixed, pi};
use crate::polynomial::Work;
use crate::tree::{Expr, Function, Trouble};

/// Number of points at which both expressions must have a value.
const POINTS: u32 = 6;
/// Maximum number of points to try.
const TRIES: u32 = 24;
/// Two values are equal if they differ by less than 2 to the negative of this, relative to the larger value if that
/// exceeds 1.
const AGREEING_BITS: u64 = 150;
/// Values below 2 to the negative of this are indistinguishable from 0.
const SMALLEST: u64 = 90;

/// Whether two expressions have equal values at all points where both have a value.
///
/// # Errors
/// Too few such points, or values that are too large or too small to compare.
pub fn equal(one: &Expr, other: &Expr, seed: u64, work: &mut Work) -> Result<bool, Trouble> {
    let mut names = Vec::new();
    one.variables(&mut names);
    other.variables(&mut names);
    let mut rng = Rng::new(seed);
    let (wanted, tries) = if names.is_empty() { (1, 1) } else { (POINTS, TRIES) };
    let mut compared = 0;
    let mut trouble = Trouble::Undefined;
    for place in 0..tries {
        let mut point = Vec::with_capacity(names.len());
        for (name, negative) in names.iter().zip(signs(place, names.len(), &mut rng)) {
            point.push((name.clone(), coordinate(negative, &mut rng)?));
        }
        let values = value(one, &point, work).and_then(|left| Ok((left, value(other, &point, work)?)));
        match values {
            Ok((left, right)) => {
                if !near(&left, &right)? {
                    return Ok(false);
                }
                compared += 1;
                if compared == wanted {
                    return Ok(true);
                }
            }
            Err(found) => trouble = found,
        }
    }
    Err(trouble)
}

/// Value of an expression without variables.
pub fn constant(expr: &Expr, work: &mut Work) -> Result<Fixed, Trouble> {
    value(expr, &[], work)
}

/// Negative coordinates of a point. Every other point is positive, because many expressions have values only there. The
/// first point in between is entirely negative and the rest are mixed, so that `√(x²)` differs from `x` and `√(x²y²)`
/// from `xy`.
fn signs(place: u32, count: usize, rng: &mut Rng) -> Vec<bool> {
    let whole = place == 1 || count < 2;
    let mut signs = vec![place % 2 == 1 && whole; count];
    if place % 2 == 1 && !whole {
        signs.iter_mut().for_each(|sign| *sign = rng.below(2) == 0);
        // At least one coordinate of each sign.
        let one = rng.below(count as u64) as usize;
        (signs[one], signs[(one + 1) % count]) = (true, false);
    }
    signs
}

/// Coordinate from 1/8 to 4: most functions have values there and do not coincide.
fn coordinate(negative: bool, rng: &mut Rng) -> Result<Fixed, Trouble> {
    let size = rng.between(1 << 37, 1 << 42);
    let value = BigRational::new(size.into(), BigInt::one() << 40);
    Fixed::of(&if negative { -value } else { value })
}

fn near(left: &Fixed, right: &Fixed) -> Result<bool, Trouble> {
    let larger = left.abs().max(right.abs());
    let difference = left.subtract(right)?.abs();
    if larger < Fixed::small(SMALLEST) && left != right {
        return Err(Trouble::Undefined);
    }
    let bound = Fixed::small(AGREEING_BITS).multiply(&larger.max(Fixed::integer(1)))?;
    Ok(difference < bound)
}

fn value(expr: &Expr, point: &[(String, Fixed)], work: &mut Work) -> Result<Fixed, Trouble> {
    work.spend(4)?;
    match expr {
        Expr::Number(number) => Fixed::of(number),
        Expr::Symbol(name) => match name.as_str() {
            "pi" => Ok(pi()),
            "e" => Fixed::integer(1).exp(),
            _ => {
                point.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).ok_or(Trouble::Undefined)
            }
        },
        Expr::Infinity => Err(Trouble::Undefined),
        Expr::Negative(one) => Ok(value(one, point, work)?.negative()),
        Expr::Sum(all) => all.iter().try_fold(Fixed::integer(0), |sum, one| sum.add(&value(one, point, work)?)),
        Expr::Product(all) => {
            all.iter().try_fold(Fixed::integer(1), |product, one| product.multiply(&value(one, point, work)?))
        }
        Expr::Quotient(above, below) => value(above, point, work)?.divide(&value(below, point, work)?),
        Expr::Power(base, exponent) => power(base, exponent, point, work),
        Expr::Root(inside, degree) => {
            let inside = value(inside, point, work)?;
            root(&inside, *degree, work)
        }
        Expr::Apply(function, argument) => {
            let argument = value(argument, point, work)?;
            work.spend(200)?;
            apply(*function, &argument)
        }
    }
}

fn power(base: &Expr, exponent: &Expr, point: &[(String, Fixed)], work: &mut Work) -> Result<Fixed, Trouble> {
    let (base, exponent) = (value(base, point, work)?, value(exponent, point, work)?);
    if let Some(whole) = exponent.whole() {
        work.spend(20)?;
        return base.power(&whole);
    }
    if base.is_negative() {
        return Err(Trouble::Undefined);
    }
    work.spend(400)?;
    exponent.multiply(&base.ln()?)?.exp()
}

fn root(inside: &Fixed, degree: u32, work: &mut Work) -> Result<Fixed, Trouble> {
    if degree == 2 {
        return inside.sqrt();
    }
    if inside.is_negative() && degree.is_multiple_of(2) {
        return Err(Trouble::Undefined);
    }
    work.spend(400)?;
    let size = inside.abs();
    let root = size.ln()?.divide(&Fixed::integer(degree.into()))?.exp()?;
    Ok(if inside.is_negative() { root.negative() } else { root })
}

fn apply(function: Function, argument: &Fixed) -> Result<Fixed, Trouble> {
    let one = Fixed::integer(1);
    let half = |value: Fixed| value.divide(&Fixed::integer(2));
    let powers = || Ok((argument.exp()?, argument.negative().exp()?));
    match function {
        Function::Sin => Ok(argument.sin_cos()?.0),
        Function::Cos => Ok(argument.sin_cos()?.1),
        Function::Tan => argument.sin_cos().and_then(|(sine, cosine)| sine.divide(&cosine)),
        Function::Cot => argument.sin_cos().and_then(|(sine, cosine)| cosine.divide(&sine)),
        Function::Sec => one.divide(&argument.sin_cos()?.1),
        Function::Csc => one.divide(&argument.sin_cos()?.0),
        Function::Arctan => argument.atan(),
        Function::Arcsin => arcsin(argument),
        Function::Arccos => half(pi())?.subtract(&arcsin(argument)?),
        Function::Sinh => powers().and_then(|(up, down)| half(up.subtract(&down)?)),
        Function::Cosh => powers().and_then(|(up, down)| half(up.add(&down)?)),
        Function::Tanh => powers().and_then(|(up, down)| up.subtract(&down)?.divide(&up.add(&down)?)),
        Function::Exp => argument.exp(),
        Function::Ln => argument.ln(),
        Function::Absolute => Ok(argument.abs()),
        Function::Floor => whole(argument.whole().unwrap_or_else(|| argument.floor())),
        Function::Ceiling => whole(argument.whole().unwrap_or_else(|| argument.floor() + 1)),
        Function::Factorial => {
            let count = argument.whole().filter(|count| !count.is_negative()).ok_or(Trouble::Undefined)?;
            let count = count.to_u32().filter(|count| *count <= 150).ok_or(Trouble::TooLarge)?;
            whole((1..=count).map(BigInt::from).product())
        }
    }
}

fn whole(value: BigInt) -> Result<Fixed, Trouble> {
    Fixed::of(&BigRational::from_integer(value))
}

/// arcsin x = arctan(x / √(1 − x²)).
fn arcsin(value: &Fixed) -> Result<Fixed, Trouble> {
    let one = Fixed::integer(1);
    let size = value.abs();
    if size == one {
        let quarter = pi().divide(&Fixed::integer(2))?;
        return Ok(if value.is_negative() { quarter.negative() } else { quarter });
    }
    value.divide(&one.subtract(&value.multiply(value)?)?.sqrt()?)?.atan()
}
