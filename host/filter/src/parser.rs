//! The parser: `or` of `and` of comparisons, `not` and parentheses.

use gymkhana_nearest::did_you_mean;

use crate::error::FilterError;
use crate::expression::{Expression, Number};
use crate::figure::{ComponentFigure, FIGURES, Figure, NumberFigure, TextFigure};
use crate::token::{FilterToken, PlacedToken, Sign, tokens};

/// Most parentheses and `not` inside each other.
const MAX_DEPTH: usize = 64;

/// One side of a comparison.
enum Side {
    Figure(Figure),
    Flag(bool),
    Number(f64),
    Text(String),
}

/// Parses an expression.
pub(crate) fn parse(text: &str) -> Result<Expression, FilterError> {
    let mut parser = FilterParser { text, tokens: tokens(text)?, next: 0, depth: 0 };
    let expression = parser.any()?;
    match parser.tokens.get(parser.next) {
        None => Ok(expression),
        Some(PlacedToken { token: FilterToken::Close, column }) => {
            Err(parser.wrong(*column, "this parenthesis closes nothing"))
        }
        Some(PlacedToken { column, .. }) => Err(parser.wrong(*column, "expected `and`, `or` or the end")),
    }
}

struct FilterParser<'t> {
    text: &'t str,
    tokens: Vec<PlacedToken>,
    next: usize,
    depth: usize,
}

impl FilterParser<'_> {
    fn wrong(&self, column: usize, problem: impl Into<String>) -> FilterError {
        FilterError { text: self.text.to_owned(), column, problem: problem.into() }
    }

    /// Takes the next token if it is this one.
    fn takes(&mut self, token: &FilterToken) -> bool {
        let found = self.tokens.get(self.next).is_some_and(|placed| placed.token == *token);
        self.next += usize::from(found);
        found
    }

    /// Column of the next token, or of the end.
    fn column(&self) -> usize {
        self.tokens.get(self.next).map_or_else(|| self.text.chars().count() + 1, |placed| placed.column)
    }

    fn any(&mut self) -> Result<Expression, FilterError> {
        let mut parts = vec![self.all()?];
        while self.takes(&FilterToken::Or) {
            parts.push(self.all()?);
        }
        Ok(single_or(parts, Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, FilterError> {
        let mut parts = vec![self.part()?];
        while self.takes(&FilterToken::And) {
            parts.push(self.part()?);
        }
        Ok(single_or(parts, Expression::All))
    }

    fn part(&mut self) -> Result<Expression, FilterError> {
        let column = self.column();
        if self.takes(&FilterToken::Not) {
            return self.nested(column, |parser| Ok(Expression::Not(Box::new(parser.part()?))));
        }
        if self.takes(&FilterToken::Open) {
            return self.nested(column, |parser| {
                let inner = parser.any()?;
                if parser.takes(&FilterToken::Close) {
                    return Ok(inner);
                }
                Err(parser.wrong(parser.column(), format!("expected `)` for the parenthesis of column {column}")))
            });
        }
        self.comparison()
    }

    fn nested(
        &mut self,
        column: usize,
        inner: impl FnOnce(&mut Self) -> Result<Expression, FilterError>,
    ) -> Result<Expression, FilterError> {
        if self.depth == MAX_DEPTH {
            return Err(self.wrong(column, format!("more than {MAX_DEPTH} parentheses and `not` inside each other")));
        }
        self.depth += 1;
        let expression = inner(self)?;
        self.depth -= 1;
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression, FilterError> {
        let column = self.column();
        let left = self.side()?;
        let sign_column = self.column();
        let Some(PlacedToken { token: FilterToken::Sign(sign), .. }) = self.tokens.get(self.next) else {
            return match left {
                Side::Figure(Figure::Flag(figure)) => Ok(Expression::Flag { figure, value: true }),
                _ => Err(self.wrong(sign_column, "expected a comparison, such as `>= 1`")),
            };
        };
        let sign = *sign;
        self.next += 1;
        let right_column = self.column();
        let right = self.side()?;
        match compared(left, sign, right) {
            Ok(expression) => Ok(expression),
            Err(ComparisonMismatch::Sign(problem)) => Err(self.wrong(sign_column, problem)),
            Err(ComparisonMismatch::Left(problem)) => Err(self.wrong(column, problem)),
            Err(ComparisonMismatch::Right(problem)) => Err(self.wrong(right_column, problem)),
        }
    }

    fn side(&mut self) -> Result<Side, FilterError> {
        let column = self.column();
        let Some(PlacedToken { token, .. }) = self.tokens.get(self.next).cloned() else {
            return Err(self.wrong(column, "expected a figure, such as `success` or `calls <= 3`"));
        };
        self.next += 1;
        match token {
            FilterToken::Flag(flag) => Ok(Side::Flag(flag)),
            FilterToken::Number(number) => Ok(Side::Number(number)),
            FilterToken::Text(text) => Ok(Side::Text(text)),
            FilterToken::Name(name) => figure(&name).map(Side::Figure).map_err(|problem| self.wrong(column, problem)),
            FilterToken::Open
            | FilterToken::Close
            | FilterToken::And
            | FilterToken::Or
            | FilterToken::Not
            | FilterToken::Sign(_) => Err(self.wrong(column, "expected a figure, a number or a text in quotes")),
        }
    }
}

/// The only part, or all parts together.
fn single_or(mut parts: Vec<Expression>, together: impl Fn(Vec<Expression>) -> Expression) -> Expression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            together(parts)
        }
    }
}

/// The figure of a name.
fn figure(name: &str) -> Result<Figure, String> {
    if let Some((_, figure)) = FIGURES.iter().find(|(known, _)| *known == name) {
        return Ok(figure.clone());
    }
    if let Some((source, component)) =
        name.split_once('.').filter(|(left, right)| !left.is_empty() && !right.is_empty())
    {
        let (source, name) = (source.to_owned(), component.to_owned());
        return Ok(Figure::Number(NumberFigure::Component(ComponentFigure { source, name })));
    }
    let known = || FIGURES.iter().map(|(name, _)| *name);
    let near = match did_you_mean(name, known()) {
        none if none.is_empty() => {
            format!("; the figures are {} and `REWARD.COMPONENT`", known().collect::<Vec<_>>().join(", "))
        }
        near => near,
    };
    Err(format!("`{name}` is not a figure of episodes{near}"))
}

/// Sides that cannot be compared: where, and why.
enum ComparisonMismatch {
    Sign(String),
    Left(String),
    Right(String),
}

fn compared(left: Side, sign: Sign, right: Side) -> Result<Expression, ComparisonMismatch> {
    match (left, right) {
        (Side::Figure(Figure::Flag(figure)), Side::Flag(value))
        | (Side::Flag(value), Side::Figure(Figure::Flag(figure))) => {
            let equal = equality(sign, "true or false")?;
            Ok(Expression::Flag { figure, value: value == equal })
        }
        (Side::Figure(Figure::Text(figure)), Side::Text(text)) => {
            text_is(figure, sign, text).map_err(|near| near.map_or_else(order_of_texts, ComparisonMismatch::Right))
        }
        (Side::Text(text), Side::Figure(Figure::Text(figure))) => {
            text_is(figure, sign, text).map_err(|near| near.map_or_else(order_of_texts, ComparisonMismatch::Left))
        }
        (Side::Figure(Figure::Flag(_)), _) => Err(ComparisonMismatch::Right("expected `true` or `false`".to_owned())),
        (Side::Figure(Figure::Text(_)), _) => Err(ComparisonMismatch::Right("expected a text in quotes".to_owned())),
        (left, right) => match (number(left), number(right)) {
            (Some(Number::Literal(_)), Some(Number::Literal(_))) => {
                Err(ComparisonMismatch::Left("two numbers are compared; name a figure, such as `calls`".to_owned()))
            }
            // A figure stands on the left, so that equal filters are equal.
            (Some(left @ Number::Literal(_)), Some(right)) => {
                Ok(Expression::Numbers { left: right, sign: sign.flipped(), right: left })
            }
            (Some(left), Some(right)) => Ok(Expression::Numbers { left, sign, right }),
            (Some(_), None) => Err(ComparisonMismatch::Right("expected a number".to_owned())),
            (None, _) => Err(ComparisonMismatch::Left("expected a figure".to_owned())),
        },
    }
}

fn number(side: Side) -> Option<Number> {
    match side {
        Side::Number(number) => Some(Number::Literal(number)),
        Side::Figure(Figure::Number(figure)) => Some(Number::Figure(figure)),
        Side::Figure(Figure::Flag(_) | Figure::Text(_)) | Side::Flag(_) | Side::Text(_) => None,
    }
}

fn equality(sign: Sign, what: &str) -> Result<bool, ComparisonMismatch> {
    match sign {
        Sign::Equal => Ok(true),
        Sign::Unequal => Ok(false),
        Sign::Less | Sign::AtMost | Sign::Greater | Sign::AtLeast => {
            Err(ComparisonMismatch::Sign(format!("{what} has no order; use `==` or `!=`")))
        }
    }
}

fn order_of_texts() -> ComparisonMismatch {
    ComparisonMismatch::Sign("texts have no order; use `==` or `!=`".to_owned())
}

/// A comparison of texts. The error is the problem of the text; none if the sign is the problem.
fn text_is(figure: TextFigure, sign: Sign, text: String) -> Result<Expression, Option<String>> {
    let equal = match sign {
        Sign::Equal => true,
        Sign::Unequal => false,
        Sign::Less | Sign::AtMost | Sign::Greater | Sign::AtLeast => return Err(None),
    };
    if let Some(words) = figure.words().filter(|words| !words.contains(&text)) {
        let words = || words.iter().map(String::as_str);
        let near = match did_you_mean(&text, words()) {
            none if none.is_empty() => format!("; the values are {}", words().collect::<Vec<_>>().join(", ")),
            near => near,
        };
        return Err(Some(format!("`{text}` is not a value of this figure{near}")));
    }
    Ok(Expression::Text { figure, equal, text })
}
