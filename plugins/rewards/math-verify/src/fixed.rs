//! Fixed-point numbers with 256 fractional bits, and elementary functions.
//!
//! Errors are a few units in the last place for numbers of moderate size, far below the tolerance of comparisons.
//! Numbers above 2^1024 are too large.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::tree::Trouble;

/// Number of fractional bits.
pub const PRECISION: u64 = 256;
/// Maximum number of integer bits.
const MAX_BITS: u64 = 1024;
/// Number of halvings of an argument before its series.
const HALVINGS: u64 = 12;
/// Maximum number of terms of a series; each term adds at least two bits.
const MAX_STEPS: u32 = 300;

/// Number, stored as its value times 2^256.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed(BigInt);

impl Fixed {
    /// Nearest number below a rational number.
    pub fn of(value: &BigRational) -> Result<Self, Trouble> {
        Self::checked((value.numer() << PRECISION) / value.denom())
    }

    fn checked(value: BigInt) -> Result<Self, Trouble> {
        if value.bits() > PRECISION + MAX_BITS { Err(Trouble::TooLarge) } else { Ok(Self(value)) }
    }

    /// Integer.
    pub fn integer(value: i64) -> Self {
        Self(BigInt::from(value) << PRECISION)
    }

    /// Two to the negative of this power.
    pub fn small(power: u64) -> Self {
        Self(BigInt::one() << (PRECISION - power))
    }

    /// Whether the number is negative.
    pub fn is_negative(&self) -> bool {
        self.0.is_negative()
    }

    /// Absolute value.
    pub fn abs(&self) -> Self {
        Self(self.0.abs())
    }

    /// Negative.
    pub fn negative(&self) -> Self {
        Self(-&self.0)
    }

    /// Sum.
    pub fn add(&self, other: &Self) -> Result<Self, Trouble> {
        Self::checked(&self.0 + &other.0)
    }

    /// Difference.
    pub fn subtract(&self, other: &Self) -> Result<Self, Trouble> {
        Self::checked(&self.0 - &other.0)
    }

    /// Product.
    pub fn multiply(&self, other: &Self) -> Result<Self, Trouble> {
        Self::checked((&self.0 * &other.0) >> PRECISION)
    }

    /// Quotient; an error for a divisor close to 0.
    pub fn divide(&self, other: &Self) -> Result<Self, Trouble> {
        if other.abs() < Self::small(200) {
            return Err(Trouble::Undefined);
        }
        Self::checked((&self.0 << PRECISION) / &other.0)
    }

    fn halved(&self, times: u64) -> Self {
        Self(&self.0 >> times)
    }

    /// Floor.
    pub fn floor(&self) -> BigInt {
        &self.0 >> PRECISION
    }

    /// Nearest integer, if the number equals it up to rounding errors.
    pub fn whole(&self) -> Option<BigInt> {
        let nearest = (&self.0 + (BigInt::one() << (PRECISION - 1))) >> PRECISION;
        let error = Self((&nearest << PRECISION) - &self.0).abs();
        (error < Self::small(180)).then_some(nearest)
    }

    /// Square root.
    pub fn sqrt(&self) -> Result<Self, Trouble> {
        if self.is_negative() {
            return Err(Trouble::Undefined);
        }
        Ok(Self((&self.0 << PRECISION).sqrt()))
    }

    /// Integer power.
    pub fn power(&self, exponent: &BigInt) -> Result<Self, Trouble> {
        let mut left = exponent.abs().to_u32().ok_or(Trouble::TooLarge)?;
        if left > 1 << 14 {
            return Err(Trouble::TooLarge);
        }
        let (mut result, mut square) = (Self::integer(1), self.clone());
        while left > 0 {
            if left & 1 == 1 {
                result = result.multiply(&square)?;
            }
            left >>= 1;
            if left > 0 {
                square = square.multiply(&square)?;
            }
        }
        if exponent.is_negative() { Self::integer(1).divide(&result) } else { Ok(result) }
    }

    /// Exponential function: the argument is halved, the series evaluated, and the result squared repeatedly.
    pub fn exp(&self) -> Result<Self, Trouble> {
        if self.abs() > Self::integer(700) {
            return Err(Trouble::TooLarge);
        }
        // e^x = 2^k e^r with small r.
        let two = ln_two();
        let turns = self.divide(&two)?.floor();
        let rest = self.subtract(&Self(&turns * &two.0))?.halved(HALVINGS);
        let (mut sum, mut term) = (Self::integer(1), Self::integer(1));
        for step in 1..MAX_STEPS {
            term = Self(term.multiply(&rest)?.0 / step);
            if term.0.is_zero() {
                break;
            }
            sum = sum.add(&term)?;
        }
        for _ in 0..HALVINGS {
            sum = sum.multiply(&sum)?;
        }
        let turns = turns.to_i64().ok_or(Trouble::TooLarge)?;
        Self::checked(if turns < 0 { sum.0 >> turns.unsigned_abs() } else { sum.0 << turns.unsigned_abs() })
    }

    /// Natural logarithm.
    pub fn ln(&self) -> Result<Self, Trouble> {
        if *self < Self::small(250) {
            return Err(Trouble::Undefined);
        }
        // x = m 2^k with m from 1/2 to 1, and ln m = 2 artanh((m − 1)/(m + 1)).
        let shift = self.0.bits() as i64 - PRECISION as i64;
        let scaled = Self(if shift < 0 { &self.0 << shift.unsigned_abs() } else { &self.0 >> shift.unsigned_abs() });
        let one = Self::integer(1);
        let mantissa = artanh(&scaled.subtract(&one)?.divide(&scaled.add(&one)?)?)?;
        Self::checked(mantissa.0 * 2 + ln_two().0 * shift)
    }

    /// Sine and cosine.
    pub fn sin_cos(&self) -> Result<(Self, Self), Trouble> {
        // A large argument leaves too few correct fractional bits.
        if self.0.bits() > PRECISION + 64 {
            return Err(Trouble::TooLarge);
        }
        let turn = Self(pi().0 * 2);
        let turns = self.divide(&turn)?.floor();
        let rest = self.subtract(&Self(turns * turn.0))?;
        let square = rest.multiply(&rest)?;
        let (mut sine, mut cosine) = (Self::integer(0), Self::integer(0));
        let (mut odd, mut even) = (rest, Self::integer(1));
        for step in 0..i64::from(MAX_STEPS) {
            if odd.0.is_zero() && even.0.is_zero() {
                break;
            }
            (sine, cosine) = (sine.add(&odd)?, cosine.add(&even)?);
            odd = Self(-odd.multiply(&square)?.0 / ((2 * step + 2) * (2 * step + 3)));
            even = Self(-even.multiply(&square)?.0 / ((2 * step + 1) * (2 * step + 2)));
        }
        Ok((sine, cosine))
    }

    /// Arctangent: atan x = 2 atan(x / (1 + √(1 + x²))) until x is small, then its series.
    pub fn atan(&self) -> Result<Self, Trouble> {
        let one = Self::integer(1);
        if self.abs() > one {
            let rest = one.divide(self)?.atan()?;
            let quarter = Self(pi().0 / 2);
            let quarter = if self.is_negative() { quarter.negative() } else { quarter };
            return quarter.subtract(&rest);
        }
        let (mut small, doublings) = (self.clone(), 4);
        for _ in 0..doublings {
            let root = one.add(&small.multiply(&small)?)?.sqrt()?;
            small = small.divide(&one.add(&root)?)?;
        }
        let sum = odd_series(&small, true)?;
        Self::checked(sum.0 << doublings)
    }
}

fn artanh(value: &Fixed) -> Result<Fixed, Trouble> {
    odd_series(value, false)
}

/// Sum of x ± x³/3 + x⁵/5 ± …, for |x| up to 1/2.
fn odd_series(value: &Fixed, alternating: bool) -> Result<Fixed, Trouble> {
    let square = value.multiply(value)?;
    let square = if alternating { square.negative() } else { square };
    let (mut sum, mut power) = (value.clone(), value.clone());
    for step in 1..MAX_STEPS {
        power = power.multiply(&square)?;
        // Because of rounding down, a negative power can remain at −1.
        if power.abs().0 <= BigInt::one() {
            break;
        }
        sum = sum.add(&Fixed(&power.0 / (2 * step + 1)))?;
    }
    Ok(sum)
}

/// Sum of 1/n ∓ 1/3n³ …, with a few extra bits.
fn inverse_series(of: u32, alternating: bool) -> BigInt {
    let mut power = (BigInt::one() << (PRECISION + 32)) / of;
    let (mut sum, mut step) = (BigInt::zero(), 1_u32);
    while !power.is_zero() {
        let negative = alternating && step % 4 == 3;
        let term = &power / step;
        sum += if negative { -term } else { term };
        power /= of * of;
        step += 2;
    }
    sum
}

/// π, by Machin's formula.
pub fn pi() -> Fixed {
    Fixed((inverse_series(5, true) * 16 - inverse_series(239, true) * 4) >> 32)
}

/// ln 2 = 2 artanh(1/3).
fn ln_two() -> Fixed {
    Fixed((inverse_series(3, false) * 2) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fifty decimals, truncated.
    fn shown(value: &Fixed) -> String {
        let scaled = (&value.0 * num_traits::Pow::pow(BigInt::from(10), 50_u32)) >> PRECISION;
        let digits = format!("{:0>51}", scaled.to_string());
        let (whole, fraction) = digits.split_at(digits.len() - 50);
        format!("{whole}.{fraction}")
    }

    fn of(above: i64, below: i64) -> Fixed {
        Fixed::of(&BigRational::new(above.into(), below.into())).expect("a small number")
    }

    /// The decimals are those of published tables.
    #[test]
    fn constants_and_functions_have_the_known_decimals() {
        let good = "a number that is not too large";
        assert_eq!(shown(&pi()), "3.14159265358979323846264338327950288419716939937510");
        assert_eq!(shown(&ln_two()), "0.69314718055994530941723212145817656807550013436025");
        assert_eq!(shown(&of(1, 1).exp().expect(good)), "2.71828182845904523536028747135266249775724709369995");
        assert_eq!(shown(&of(2, 1).sqrt().expect(good)), "1.41421356237309504880168872420969807856967187537694");
        assert_eq!(shown(&of(10, 1).ln().expect(good)), "2.30258509299404568401799145468436420760110148862877");
        let (sine, cosine) = of(1, 1).sin_cos().expect(good);
        assert_eq!(shown(&sine), "0.84147098480789650665250232163029899962256306079837");
        assert_eq!(shown(&cosine), "0.54030230586813971740093660744297660373231042061792");
        assert_eq!(shown(&of(1, 2).atan().expect(good)), "0.46364760900080611621425623146121440202853705428612");
    }

    #[test]
    fn functions_undo_each_other() {
        for (above, below) in [(1, 7), (-5, 3), (40, 1), (-100, 9), (123, 10), (3, 1000)] {
            let value = of(above, below);
            let near = |found: Fixed| {
                let error = found.subtract(&value).expect("a small number").abs();
                assert!(error < Fixed::small(170), "{above}/{below}: {}", shown(&error));
            };
            near(value.exp().and_then(|power| power.ln()).expect("a logarithm of a power"));
            let (sine, cosine) = value.atan().and_then(|angle| angle.sin_cos()).expect("an angle");
            near(sine.divide(&cosine).expect("a tangent"));
        }
    }

    #[test]
    fn missing_and_excessive_values_are_reported() {
        assert_eq!(of(-1, 1).ln(), Err(Trouble::Undefined));
        assert_eq!(of(-1, 1).sqrt(), Err(Trouble::Undefined));
        assert_eq!(of(1, 1).divide(&of(0, 1)), Err(Trouble::Undefined));
        assert_eq!(of(100_000, 1).exp(), Err(Trouble::TooLarge));
        assert_eq!(of(10, 1).power(&BigInt::from(30_000_000)), Err(Trouble::TooLarge));
        assert!(of(10, 1).power(&BigInt::from(300)).is_ok());
    }
}
