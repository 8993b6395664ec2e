//! Exact polynomials in several generators over the rational numbers, with bounded work.
//!
//! A generator is a variable, a constant or an opaque expression. Square roots of primes and `i` are generators with
//! known squares, so every product is reduced. Such roots and their products are linearly independent over the rational
//! numbers, so a polynomial in them is zero only if all coefficients are zero.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use crate::tree::Trouble;

/// Maximum number of bits of a coefficient's numerator or denominator.
pub const MAX_BITS: u64 = 4_096;
/// Maximum number of terms of a polynomial.
const MAX_TERMS: usize = 2_000;
/// Maximum exponent.
const MAX_EXPONENT: u32 = 10_000;
/// Work units of multiplying two monomials.
const PAIR: u64 = 16;

/// Generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Generator {
    /// Variable.
    Variable(String),
    /// π or e, each transcendental.
    Constant(String),
    /// Square root of −1.
    Imaginary,
    /// Square root of a prime.
    PrimeRoot(BigInt),
    /// Opaque expression, identified by its text: equal texts are equal, different texts may be equal.
    Opaque(String),
}

impl Generator {
    fn square(&self) -> Option<BigRational> {
        match self {
            Self::Imaginary => Some(BigRational::from_integer((-1).into())),
            Self::PrimeRoot(prime) => Some(BigRational::from_integer(prime.clone())),
            Self::Variable(_) | Self::Constant(_) | Self::Opaque(_) => None,
        }
    }
}

/// Generators with their exponents, in ascending order; empty for 1.
type Monomial = Vec<(usize, u32)>;

/// Polynomial without zero coefficients.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Polynomial {
    terms: BTreeMap<Monomial, BigRational>,
}

impl Polynomial {
    /// Constant polynomial.
    pub fn constant(value: BigRational) -> Self {
        let mut terms = BTreeMap::new();
        if !value.is_zero() {
            terms.insert(vec![], value);
        }
        Self { terms }
    }

    /// Rational value, if the polynomial is constant.
    pub fn as_constant(&self) -> Option<BigRational> {
        match self.terms.len() {
            0 => Some(BigRational::zero()),
            1 => self.terms.get(&vec![]).cloned(),
            _ => None,
        }
    }

    /// Whether the polynomial is zero.
    pub fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// Coefficient of the last monomial, in an order that all polynomials of a ring share.
    pub fn leading(&self) -> Option<(&[(usize, u32)], &BigRational)> {
        self.terms.last_key_value().map(|(monomial, coefficient)| (monomial.as_slice(), coefficient))
    }

    /// Generators in the polynomial.
    pub fn generators(&self) -> impl Iterator<Item = usize> {
        self.terms.keys().flatten().map(|(generator, _)| *generator)
    }
}

/// Remaining work; a unit takes at most some tenths of a microsecond.
#[derive(Debug)]
pub struct Work(pub u64);

impl Work {
    /// Spends work units.
    pub fn spend(&mut self, work: u64) -> Result<(), Trouble> {
        self.0 = self.0.checked_sub(work).ok_or(Trouble::TooLarge)?;
        Ok(())
    }
}

/// Generators of a comparison, with the remaining work.
#[derive(Debug)]
pub struct Ring {
    generators: Vec<Generator>,
    work: Work,
}

impl Ring {
    /// Ring with a work limit.
    pub fn new(work: u64) -> Self {
        Self { generators: Vec::new(), work: Work(work) }
    }

    /// Spends work units.
    pub fn spend(&mut self, work: u64) -> Result<(), Trouble> {
        self.work.spend(work)
    }

    /// Definition of a generator.
    pub fn generator(&self, place: usize) -> &Generator {
        &self.generators[place]
    }

    /// Generator as a polynomial.
    pub fn of(&mut self, generator: Generator) -> Polynomial {
        let known = self.generators.iter().position(|known| *known == generator);
        let place = known.unwrap_or_else(|| {
            self.generators.push(generator);
            self.generators.len() - 1
        });
        Polynomial { terms: [(vec![(place, 1)], BigRational::one())].into() }
    }

    /// Sum.
    pub fn add(&mut self, one: &Polynomial, other: &Polynomial) -> Result<Polynomial, Trouble> {
        let mut sum = one.clone();
        for (monomial, coefficient) in &other.terms {
            self.put(&mut sum, monomial, coefficient.clone())?;
        }
        Ok(sum)
    }

    /// Product with a number.
    pub fn scale(&mut self, one: &Polynomial, by: &BigRational) -> Result<Polynomial, Trouble> {
        self.multiply(one, &Polynomial::constant(by.clone()))
    }

    /// Product.
    pub fn multiply(&mut self, one: &Polynomial, other: &Polynomial) -> Result<Polynomial, Trouble> {
        let mut product = Polynomial::default();
        for (left, first) in &one.terms {
            for (right, second) in &other.terms {
                self.spend(PAIR + cost(first) + cost(second))?;
                let (monomial, factor) = self.join(left, right)?;
                self.put(&mut product, &monomial, first * second * factor)?;
            }
        }
        Ok(product)
    }

    /// Power, by repeated squaring.
    pub fn power(&mut self, base: &Polynomial, exponent: u32) -> Result<Polynomial, Trouble> {
        if exponent > MAX_EXPONENT {
            return Err(Trouble::TooLarge);
        }
        let (mut result, mut square, mut left) = (Polynomial::constant(BigRational::one()), base.clone(), exponent);
        loop {
            if left & 1 == 1 {
                result = self.multiply(&result, &square)?;
            }
            left >>= 1;
            if left == 0 {
                return Ok(result);
            }
            square = self.multiply(&square, &square)?;
        }
    }

    fn put(&mut self, into: &mut Polynomial, monomial: &Monomial, coefficient: BigRational) -> Result<(), Trouble> {
        self.spend(cost(&coefficient))?;
        let entry = into.terms.entry(monomial.clone()).or_insert_with(BigRational::zero);
        *entry += coefficient;
        if bits(entry) > MAX_BITS {
            return Err(Trouble::TooLarge);
        }
        if entry.is_zero() {
            into.terms.remove(monomial);
        }
        if into.terms.len() > MAX_TERMS { Err(Trouble::TooLarge) } else { Ok(()) }
    }

    /// Product of two monomials, and the number from reducing known squares.
    fn join(&self, left: &Monomial, right: &Monomial) -> Result<(Monomial, BigRational), Trouble> {
        let mut exponents: BTreeMap<usize, u32> = left.iter().copied().collect();
        for (generator, exponent) in right {
            *exponents.entry(*generator).or_default() += exponent;
        }
        let mut factor = BigRational::one();
        for (generator, exponent) in &mut exponents {
            if *exponent > MAX_EXPONENT {
                return Err(Trouble::TooLarge);
            }
            // Both factors are reduced, so exponents are at most 2.
            if let Some(square) = self.generators[*generator].square().filter(|_| *exponent >= 2) {
                *exponent -= 2;
                factor *= square;
            }
        }
        Ok((exponents.into_iter().filter(|(_, exponent)| *exponent > 0).collect(), factor))
    }
}

/// Number of bits of the longer of numerator and denominator.
pub fn bits(number: &BigRational) -> u64 {
    number.numer().bits().max(number.denom().bits())
}

/// Sums of fractions compute a greatest common divisor, whose time grows with the square of the length.
fn cost(number: &BigRational) -> u64 {
    let words = bits(number) / 64;
    1 + words * words
}
