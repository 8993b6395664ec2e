//! Syntax trees of templates.

use std::sync::Arc;

use crate::builtin::{FilterFunction, Test};
use crate::text::Str;

/// A name of a variable, as its place in the template's list of names.
pub(crate) type Symbol = usize;

/// A value that the source contains.
#[derive(Debug, Clone)]
pub(crate) enum Constant {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Str),
}

/// An expression.
#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) line: u32,
    /// Levels of the tree.
    pub(crate) depth: u16,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Constant(Constant),
    Name(Symbol),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Arithmetic(&'static str, Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// Condition, value and alternative.
    Conditional(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    Attribute(Box<Expr>, Arc<str>),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Box<[Option<Expr>; 3]>),
    Call(Box<Expr>, Arguments),
    Filter(Box<Expr>, FilterCall),
    Test(Box<Expr>, TestCall),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// Arguments of a call in the source.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Expr>,
    pub(crate) named: Vec<(Arc<str>, Expr)>,
    /// The value of `*args`.
    pub(crate) sequence: Option<Box<Expr>>,
    /// The value of `**kwargs`.
    pub(crate) mapping: Option<Box<Expr>>,
}

/// A filter with its arguments.
#[derive(Debug)]
pub(crate) struct FilterCall {
    pub(crate) line: u32,
    pub(crate) name: Arc<str>,
    /// The filter; nothing if the language has none of this name.
    pub(crate) filter: Option<FilterFunction>,
    pub(crate) arguments: Arguments,
}

/// A test with its arguments.
#[derive(Debug)]
pub(crate) struct TestCall {
    pub(crate) name: Arc<str>,
    /// The test; nothing if the language has none of this name.
    pub(crate) test: Option<Test>,
    pub(crate) arguments: Arguments,
    /// Whether the test is behind `is not`.
    pub(crate) is_negated: bool,
}

/// What a value is assigned to.
#[derive(Debug)]
pub(crate) enum AssignmentTarget {
    Name(Symbol),
    Tuple(Vec<AssignmentTarget>),
    /// An attribute of a namespace.
    Attribute(Symbol, Arc<str>),
}

/// A statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) line: u32,
    pub(crate) kind: StatementKind,
}

#[derive(Debug)]
pub(crate) enum StatementKind {
    Text(Str),
    Print(Expr),
    /// Branches and the statements of `else`.
    If(Vec<(Expr, Vec<Statement>)>, Vec<Statement>),
    For(Arc<Loop>),
    Set(AssignmentTarget, Expr),
    SetBlock(AssignmentTarget, Vec<FilterCall>, Vec<Statement>),
    Macro(Arc<Macro>),
    /// A call with a body, which the called macro may call.
    CallBlock(Arc<Macro>, Expr),
    FilterBlock(Vec<FilterCall>, Vec<Statement>),
    With(Vec<(AssignmentTarget, Expr)>, Vec<Statement>),
    /// Statements with variables of their own.
    Scoped(Vec<Statement>),
    Break,
    Continue,
    /// A statement that needs other templates.
    Refused(&'static str),
}

/// A loop.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) target: AssignmentTarget,
    pub(crate) items: Expr,
    pub(crate) condition: Option<Expr>,
    pub(crate) is_recursive: bool,
    pub(crate) body: Vec<Statement>,
    pub(crate) otherwise: Vec<Statement>,
}

/// A macro or the body of a call.
#[derive(Debug)]
pub(crate) struct Macro {
    pub(crate) name: Arc<str>,
    pub(crate) symbol: Option<Symbol>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Vec<Statement>,
    pub(crate) extra: Extra,
}

/// A parameter of a macro.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Arc<str>,
    pub(crate) symbol: Symbol,
    pub(crate) default: Option<Expr>,
}

/// Special names that the body of a macro uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extra {
    pub(crate) caller: bool,
    pub(crate) varargs: bool,
    pub(crate) kwargs: bool,
}

impl Expr {
    /// An expression one level above its parts.
    pub(crate) fn new(line: u32, kind: ExprKind) -> Self {
        let depth = kind.depth_of_parts().saturating_add(1);
        Self { line, depth, kind }
    }
}

impl ExprKind {
    fn depth_of_parts(&self) -> u16 {
        let of = |expr: &Expr| expr.depth;
        match self {
            Self::Constant(_) | Self::Name(_) => 0,
            Self::List(items) | Self::Tuple(items) | Self::Concat(items) => deepest(items),
            Self::Dict(entries) => entries.iter().map(|(key, value)| key.depth.max(value.depth)).max().unwrap_or(0),
            Self::Negative(part) | Self::Positive(part) | Self::Not(part) | Self::Attribute(part, _) => of(part),
            Self::And(left, right)
            | Self::Or(left, right)
            | Self::Arithmetic(_, left, right)
            | Self::Item(left, right) => left.depth.max(right.depth),
            Self::Compare(left, others) => others.iter().map(|(_, other)| other.depth).fold(left.depth, u16::max),
            Self::Conditional(condition, value, other) => {
                condition.depth.max(value.depth).max(other.as_deref().map_or(0, of))
            }
            Self::Slice(part, bounds) => bounds.iter().flatten().map(of).fold(part.depth, u16::max),
            Self::Call(part, arguments) => part.depth.max(arguments.depth()),
            Self::Filter(part, call) => part.depth.max(call.arguments.depth()),
            Self::Test(part, call) => part.depth.max(call.arguments.depth()),
        }
    }
}

impl Arguments {
    fn depth(&self) -> u16 {
        let named = self.named.iter().map(|(_, value)| value.depth);
        let others = [&self.sequence, &self.mapping].into_iter().flatten().map(|value| value.depth);
        named.chain(others).fold(deepest(&self.positional), u16::max)
    }
}

fn deepest(exprs: &[Expr]) -> u16 {
    exprs.iter().map(|expr| expr.depth).max().unwrap_or(0)
}
