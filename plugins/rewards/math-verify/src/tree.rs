//! Parsed answers: expressions and the shapes that contain them.

use num_rational::BigRational;

/// Reason why an answer cannot be parsed or decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Not mathematics in a supported notation.
    Unreadable,
    /// Requires more work or memory than the limits.
    TooLarge,
    /// No value, such as a division by zero or the logarithm of a negative number.
    Undefined,
}

/// Function of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Sine, in radians.
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
    /// Exponential function.
    Exp,
    /// Natural logarithm.
    Ln,
    /// Absolute value.
    Absolute,
    /// Floor.
    Floor,
    /// Ceiling.
    Ceiling,
    /// Factorial of an integer.
    Factorial,
}

/// Expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// Exact number.
    Number(BigRational),
    /// Variable, or one of `pi`, `e` and `i`.
    Symbol(String),
    /// Infinity, which allows no arithmetic except a sign.
    Infinity,
    /// Negation.
    Negative(Box<Self>),
    /// Sum.
    Sum(Vec<Self>),
    /// Product.
    Product(Vec<Self>),
    /// Quotient.
    Quotient(Box<Self>, Box<Self>),
    /// Power.
    Power(Box<Self>, Box<Self>),
    /// Root of an integer degree; real for a negative number if the degree is odd.
    Root(Box<Self>, u32),
    /// Value of a function.
    Apply(Function, Box<Self>),
}

impl Expr {
    /// Integer.
    pub fn integer(value: i64) -> Self {
        Self::Number(BigRational::from_integer(value.into()))
    }

    /// Distinct variables of the expression.
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

    /// Whether the expression can be a name before `=`, such as `x` or `f(x)`.
    pub fn is_name(&self) -> bool {
        let symbol = |one: &Self| matches!(one, Self::Symbol(name) if !matches!(name.as_str(), "pi" | "e" | "i"));
        match self {
            Self::Product(all) => all.len() == 2 && all.iter().all(symbol),
            one => symbol(one),
        }
    }
}

/// Relation between two sides.
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
    /// `≈`
    About,
}

impl Relation {
    /// Relation with swapped sides.
    pub fn turned(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::AtMost => Self::AtLeast,
            Self::Greater => Self::Less,
            Self::AtLeast => Self::AtMost,
            other => other,
        }
    }
}

/// Answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// One value.
    Scalar(Expr),
    /// Tuple, point or interval: order and brackets count.
    Sequence(char, Vec<Self>, char),
    /// Set or list of solutions: order is ignored.
    Set(Vec<Self>),
    /// Union of intervals or sets.
    Union(Vec<Self>),
    /// Matrix rows of equal length.
    Matrix(Vec<Vec<Expr>>),
    /// Value modulo another.
    Residue(Expr, Expr),
    /// Sides and the relations between them, one fewer than sides.
    Chain(Vec<Self>, Vec<Relation>),
}

impl Shape {
    /// Whether a value has a variable. The name before `=` is not part of the value.
    pub fn has_variables(&self) -> bool {
        let has = |expr: &Expr| {
            let mut names = Vec::new();
            expr.variables(&mut names);
            !names.is_empty()
        };
        match self {
            Self::Scalar(expr) => has(expr),
            Self::Residue(value, modulus) => has(value) || has(modulus),
            Self::Sequence(_, all, _) | Self::Set(all) | Self::Union(all) => all.iter().any(Self::has_variables),
            Self::Matrix(rows) => rows.iter().flatten().any(has),
            Self::Chain(sides, _) => {
                let is_name = matches!(&sides[0], Self::Scalar(expr) if expr.is_name());
                sides[usize::from(is_name)..].iter().any(Self::has_variables)
            }
        }
    }
}
