//! Exact conversion of expressions to fractions of polynomials.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use crate::polynomial::{Generator, MAX_BITS, Polynomial, Ring, bits};
use crate::tree::{Expr, Function, Trouble};

/// Bound of trial division for prime factors.
const MAX_FACTOR: u32 = 5_000;
/// Maximum argument of a factorial: its result has fewer than [`MAX_BITS`] bits.
const MAX_FACTORIAL: u32 = 400;
/// Maximum text length of an opaque generator.
const LONGEST_OPAQUE: usize = 4_000;

/// Fraction of polynomials with a nonzero denominator.
#[derive(Debug, Clone, PartialEq)]
pub struct Fraction {
    /// Numerator.
    pub above: Polynomial,
    /// Denominator.
    pub below: Polynomial,
}

impl Fraction {
    fn of(above: Polynomial) -> Self {
        Self { above, below: Polynomial::constant(BigRational::one()) }
    }

    fn number(value: BigRational) -> Self {
        Self::of(Polynomial::constant(value))
    }

    /// Rational value, if the fraction is a number.
    pub fn as_number(&self) -> Option<BigRational> {
        Some(self.above.as_constant()? / self.below.as_constant()?)
    }
}

/// Converts an expression to a fraction.
pub fn normal(expr: &Expr, ring: &mut Ring) -> Result<Fraction, Trouble> {
    ring.spend(1)?;
    match expr {
        Expr::Number(value) if bits(value) > MAX_BITS => Err(Trouble::TooLarge),
        Expr::Number(value) => Ok(Fraction::number(value.clone())),
        Expr::Symbol(name) => Ok(Fraction::of(ring.of(match name.as_str() {
            "i" => Generator::Imaginary,
            "pi" | "e" => Generator::Constant(name.clone()),
            _ => Generator::Variable(name.clone()),
        }))),
        // Infinity has no arithmetic; shapes accept it alone and with a sign.
        Expr::Infinity => Err(Trouble::Undefined),
        Expr::Negative(one) => {
            let Fraction { above, below } = normal(one, ring)?;
            Ok(Fraction { above: ring.scale(&above, &BigRational::from_integer((-1).into()))?, below })
        }
        Expr::Sum(all) => {
            let mut sum = Fraction::number(BigRational::zero());
            for one in all {
                let one = normal(one, ring)?;
                sum = add(&sum, &one, ring)?;
            }
            Ok(sum)
        }
        Expr::Product(all) => {
            let mut product = Fraction::number(BigRational::one());
            for one in all {
                let one = normal(one, ring)?;
                product = multiply(&product, &one, ring)?;
            }
            Ok(product)
        }
        Expr::Quotient(above, below) => {
            let (above, below) = (normal(above, ring)?, normal(below, ring)?);
            multiply(&above, &inverse(below)?, ring)
        }
        Expr::Power(base, exponent) => power(base, exponent, ring),
        Expr::Root(inside, degree) => {
            let inside = normal(inside, ring)?;
            root(&inside, *degree, ring)
        }
        Expr::Apply(function, argument) => apply(*function, argument, ring),
    }
}

fn simplified(above: Polynomial, below: Polynomial, ring: &mut Ring) -> Result<Fraction, Trouble> {
    match below.as_constant() {
        Some(number) if number.is_zero() => Err(Trouble::Undefined),
        Some(number) if number.is_one() => Ok(Fraction { above, below }),
        Some(number) => Ok(Fraction::of(ring.scale(&above, &number.recip())?)),
        None => Ok(Fraction { above, below }),
    }
}

fn add(one: &Fraction, other: &Fraction, ring: &mut Ring) -> Result<Fraction, Trouble> {
    if one.below == other.below {
        return simplified(ring.add(&one.above, &other.above)?, one.below.clone(), ring);
    }
    let (left, right) = (ring.multiply(&one.above, &other.below)?, ring.multiply(&other.above, &one.below)?);
    let (above, below) = (ring.add(&left, &right)?, ring.multiply(&one.below, &other.below)?);
    simplified(above, below, ring)
}

fn multiply(one: &Fraction, other: &Fraction, ring: &mut Ring) -> Result<Fraction, Trouble> {
    let (above, below) = (ring.multiply(&one.above, &other.above)?, ring.multiply(&one.below, &other.below)?);
    simplified(above, below, ring)
}

fn inverse(one: Fraction) -> Result<Fraction, Trouble> {
    if one.above.is_zero() { Err(Trouble::Undefined) } else { Ok(Fraction { above: one.below, below: one.above }) }
}

fn power(base: &Expr, exponent: &Expr, ring: &mut Ring) -> Result<Fraction, Trouble> {
    let (base, exponent) = (normal(base, ring)?, normal(exponent, ring)?);
    let Some(number) = exponent.as_number() else {
        return opaque("power", &[&base, &exponent], ring);
    };
    if number.is_integer() {
        return whole_power(base, number.numer(), ring);
    }
    let degree = number.denom().to_u32().filter(|degree| *degree <= 64).ok_or(Trouble::TooLarge)?;
    let root = root(&base, degree, ring)?;
    whole_power(root, number.numer(), ring)
}

fn whole_power(base: Fraction, exponent: &BigInt, ring: &mut Ring) -> Result<Fraction, Trouble> {
    let one = BigRational::one();
    if exponent.is_zero() {
        // 0^0 is 1 as an empty product and undefined elsewhere, so it is left undecided here.
        return if base.above.is_zero() { Err(Trouble::Undefined) } else { Ok(Fraction::number(one)) };
    }
    let base = if exponent.is_negative() { inverse(base)? } else { base };
    let size = exponent.abs();
    if let Some(number) = base.as_number() {
        // Powers of these stay small.
        if number.is_zero() || number.is_one() {
            return Ok(Fraction::number(number));
        }
        if (-number.clone()).is_one() {
            return Ok(Fraction::number(if size.bit(0) { number } else { one }));
        }
        let size = size.to_u32().ok_or(Trouble::TooLarge)?;
        if (bits(&number) - 1).saturating_mul(size.into()) > MAX_BITS || size > 1 << 14 {
            return Err(Trouble::TooLarge);
        }
        ring.spend(MAX_BITS / 64)?;
        return Ok(Fraction::number(Pow::pow(number, size)));
    }
    let size = size.to_u32().ok_or(Trouble::TooLarge)?;
    let (above, below) = (ring.power(&base.above, size)?, ring.power(&base.below, size)?);
    simplified(above, below, ring)
}

/// Simplifies the root of a number; the root of any other expression becomes an opaque generator.
fn root(inside: &Fraction, degree: u32, ring: &mut Ring) -> Result<Fraction, Trouble> {
    if degree == 1 {
        return Ok(inside.clone());
    }
    let Some(number) = inside.as_number() else {
        return opaque(&format!("root {degree}"), &[inside], ring);
    };
    let negative = number.is_negative();
    if negative && degree.is_multiple_of(2) && degree != 2 {
        return Err(Trouble::Undefined);
    }
    if degree == 2 {
        let positive = square_root(&number.abs(), ring)?;
        if !negative {
            return Ok(positive);
        }
        let imaginary = Fraction::of(ring.of(Generator::Imaginary));
        return multiply(&positive, &imaginary, ring);
    }
    ring.spend(bits(&number) * u64::from(degree))?;
    // With an integer denominator, equal roots have equal texts more often.
    let scaled = number.numer().abs() * Pow::pow(number.denom().clone(), degree - 1);
    let exact = scaled.nth_root(degree);
    let sign = BigRational::from_integer(if negative { (-1).into() } else { 1.into() });
    let divided = sign / BigRational::from_integer(number.denom().clone());
    if Pow::pow(exact.clone(), degree) == scaled {
        return Ok(Fraction::number(divided * BigRational::from_integer(exact)));
    }
    let value = Fraction::number(BigRational::from_integer(scaled));
    let root = opaque(&format!("root {degree}"), &[&value], ring)?;
    multiply(&root, &Fraction::number(divided), ring)
}

/// Root of a nonnegative number, as integer parts and roots of primes.
fn square_root(number: &BigRational, ring: &mut Ring) -> Result<Fraction, Trouble> {
    // √(a/b) = √(ab) / b.
    let mut rest = number.numer() * number.denom();
    if rest.is_zero() {
        return Ok(Fraction::number(BigRational::zero()));
    }
    let mut outside = BigRational::new(BigInt::one(), number.denom().clone());
    let mut root = Fraction::number(BigRational::one());
    ring.spend(rest.bits() * 4)?;
    let mut factor = 2_u32;
    while factor <= MAX_FACTOR && BigInt::from(u64::from(factor) * u64::from(factor)) <= rest {
        let mut odd = false;
        while (&rest % factor).is_zero() {
            rest /= factor;
            ring.spend(1 + rest.bits() / 64)?;
            if odd {
                outside *= BigRational::from_integer(factor.into());
            }
            odd = !odd;
        }
        if odd {
            let prime = ring.of(Generator::PrimeRoot(factor.into()));
            root = multiply(&root, &Fraction::of(prime), ring)?;
        }
        factor += 1 + factor % 2;
    }
    let whole = rest.sqrt();
    if &whole * &whole == rest {
        outside *= BigRational::from_integer(whole);
    } else if BigInt::from(u64::from(MAX_FACTOR) * u64::from(MAX_FACTOR)) > rest {
        // A number without a factor up to its square root is prime.
        let prime = ring.of(Generator::PrimeRoot(rest));
        root = multiply(&root, &Fraction::of(prime), ring)?;
    } else {
        let left = opaque("root 2", &[&Fraction::number(BigRational::from_integer(rest))], ring)?;
        root = multiply(&root, &left, ring)?;
    }
    multiply(&root, &Fraction::number(outside), ring)
}

fn apply(function: Function, argument: &Expr, ring: &mut Ring) -> Result<Fraction, Trouble> {
    let argument = normal(argument, ring)?;
    let number = argument.as_number();
    let whole = |value: BigInt| Ok(Fraction::number(BigRational::from_integer(value)));
    match (function, number) {
        (Function::Absolute, Some(number)) => Ok(Fraction::number(number.abs())),
        (Function::Floor, Some(number)) => whole(number.floor().to_integer()),
        (Function::Ceiling, Some(number)) => whole(number.ceil().to_integer()),
        (Function::Factorial, Some(number)) => {
            if !number.is_integer() || number.is_negative() {
                return Err(Trouble::Undefined);
            }
            let size = number.numer().to_u32().filter(|size| *size <= MAX_FACTORIAL).ok_or(Trouble::TooLarge)?;
            ring.spend(u64::from(size))?;
            whole((1..=size).map(BigInt::from).product())
        }
        (Function::Ln, Some(number)) if number.is_one() => whole(BigInt::zero()),
        (Function::Ln, Some(number)) if number.is_zero() => Err(Trouble::Undefined),
        (Function::Exp, _) => {
            let euler = Fraction::of(ring.of(Generator::Constant("e".to_owned())));
            match argument.as_number().filter(BigRational::is_integer) {
                Some(number) => whole_power(euler, number.numer(), ring),
                None => opaque("power", &[&euler, &argument], ring),
            }
        }
        _ => opaque(&format!("{function:?}"), &[&argument], ring),
    }
}

/// Opaque generator, identified by its structure.
fn opaque(name: &str, parts: &[&Fraction], ring: &mut Ring) -> Result<Fraction, Trouble> {
    let text = format!("{name} {parts:?}");
    ring.spend(text.len() as u64 / 16)?;
    if text.len() > LONGEST_OPAQUE {
        return Err(Trouble::TooLarge);
    }
    Ok(Fraction::of(ring.of(Generator::Opaque(text))))
}
