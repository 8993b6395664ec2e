//! What an answer is once it is read: expressions, and the shapes that hold them.

use num_rational::BigRational;

/// Why something could not be read or decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It is not mathematics as this plugin reads it.
    Unreadable,
    /// It would take more work or room than an answer is worth.
    TooLarge,
    /// It has no value: a division by zero, a logarithm of a negative number.
    Undefined,
}

/// A function of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Sine, of radians.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Cotangent.
    Cot,
    /// Secant.
    Sec,
    /// Cosecant.
    Csc,
    /// Arcsine, from −π/2 to π/2.
    Arcsin,
    /// Arccosine, from 0 to π.
    Arccos,
    /// Arctangent.
    Arctan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Hyperbolic tangent.
    Tanh,
    /// e to a power.
    Exp,
    /// The natural logarithm.
    Ln,
    /// The absolute value.
    Absolute,
    /// The greatest whole number that is not greater.
    Floor,
    /// The least whole number that is not less.
    Ceiling,
    /// The factorial of a whole number.
    Factorial,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// An exact number.
    Number(BigRational),
    /// A variable, or one of `pi`, `e` and `i`.
    Symbol(String),
    /// Infinity, which no arithmetic may touch but a sign.
    Infinity,
    /// Less than nothing.
    Negative(Box<Self>),
    /// A sum.
    Sum(Vec<Self>),
    /// A product.
    Product(Vec<Self>),
    /// A quotient.
    Quotient(Box<Self>, Box<Self>),
    /// A power.
    Power(Box<Self>, Box<Self>),
    /// The root of a whole degree; of a negative number it is real where the degree is odd.
    Root(Box<Self>, u32),
    /// A function's value.
    Apply(Function, Box<Self>),
}

impl Expr {
    /// A whole number.
    pub fn integer(value: i64) -> Self {
        Self::Number(BigRational::from_integer(value.into()))
    }

    /// The variables in it, each once.
    pub fn variables(&self, found: &mut Vec<String>) {
        match self {
            Self::Symbol(name) if !matches!(name.as_str(), "pi" | "e" | "i") => {
                if !found.contains(name) {
                    found.push(name.clone());
                }
            }
            Self::Number(_) | Self::Symbol(_) | Self::Infinity => {}
            Self::Negative(one) | Self::Root(one, _) | Self::Apply(_, one) => one.variables(found),
            Self::Sum(all) | Self::Product(all) => all.iter().for_each(|one| one.variables(found)),
            Self::Quotient(one, other) | Self::Power(one, other) => {
                one.variables(found);
                other.variables(found);
            }
        }
    }

    /// Whether it may stand before `=` as the name of what follows: `x`, `f(x)`.
    pub fn is_name(&self) -> bool {
        let symbol = |one: &Self| matches!(one, Self::Symbol(name) if !matches!(name.as_str(), "pi" | "e" | "i"));
        match self {
            Self::Product(all) => all.len() == 2 && all.iter().all(symbol),
            one => symbol(one),
        }
    }
}

/// How two sides are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `=`
    Equal,
    /// `≠`
    NotEqual,
    /// `<`
    Less,
    /// `≤`
    AtMost,
    /// `>`
    Greater,
    /// `≥`
    AtLeast,
    /// `∈`
    In,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// One value.
    Scalar(Expr),
    /// A tuple, a point or an interval: order and brackets count.
    Sequence(char, Vec<Self>, char),
    /// A set or a list of solutions: order does not count.
    Set(Vec<Self>),
    /// Several intervals or sets together.
    Union(Vec<Self>),
    /// Rows of one length.
    Matrix(Vec<Vec<Expr>>),
    /// Sides and the relations between them, one fewer.
    Chain(Vec<Self>, Vec<Relation>),
}
