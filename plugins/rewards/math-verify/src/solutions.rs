//! Solutions of inequalities and of equations with an absolute value, as intervals and sets.

use crate::tree::{Expr, Function, Relation, Shape};

/// A variable with the set of its values.
pub type Solution<'a> = (&'a Expr, Shape);

/// End of an interval: its value, and whether it belongs to the interval.
type End = (Shape, bool);

/// Solution of a chain such as `x > 1`, `1 < x ≤ 2`, `x ≠ 0` or `|x − 1| < 3`.
pub fn solution<'a>(sides: &'a [Shape], by: &[Relation]) -> Option<Solution<'a>> {
    match (sides, by) {
        ([Shape::Scalar(left), right], [relation]) if left.is_name() => one_sided(left, *relation, right),
        ([left, Shape::Scalar(right)], [relation]) if right.is_name() => one_sided(right, relation.turned(), left),
        ([Shape::Scalar(Expr::Apply(Function::Absolute, inside)), Shape::Scalar(bound)], [relation]) => {
            absolute(inside, *relation, bound)
        }
        ([left, Shape::Scalar(middle), right], [first, second]) if middle.is_name() => {
            let ((up, first), (also, second)) = (direction(*first)?, direction(*second)?);
            let (left, right) = ((left.clone(), first), (right.clone(), second));
            let shape = match (up, also) {
                (true, true) => interval(left, right),
                (false, false) => interval(right, left),
                _ => return None,
            };
            Some((middle, shape))
        }
        _ => None,
    }
}

/// Solutions of several chains for one variable, of which one holds: their union.
pub fn union_of(chains: &[Shape]) -> Option<Shape> {
    let solutions = solutions(chains)?;
    let mut parts = Vec::new();
    for solution in solutions {
        match solution {
            Shape::Union(inner) => parts.extend(inner),
            part @ Shape::Sequence(..) => parts.push(part),
            _ => return None,
        }
    }
    Some(Shape::Union(parts))
}

/// Solution of two chains for one variable that both hold: one bounds it below, the other above.
pub fn intersection_of(chains: &[Shape]) -> Option<Shape> {
    let [first, second] = &solutions(chains)?[..] else { return None };
    let (Shape::Sequence(open, one, close), Shape::Sequence(other_open, other, other_close)) = (first, second) else {
        return None;
    };
    match (is_infinite(&one[0]), is_infinite(&one[1]), is_infinite(&other[0]), is_infinite(&other[1])) {
        (false, true, true, false) => {
            Some(Shape::Sequence(*open, vec![one[0].clone(), other[1].clone()], *other_close))
        }
        (true, false, false, true) => {
            Some(Shape::Sequence(*other_open, vec![other[0].clone(), one[1].clone()], *close))
        }
        _ => None,
    }
}

/// Solutions of chains for one variable.
fn solutions(chains: &[Shape]) -> Option<Vec<Shape>> {
    let mut variable = None;
    let mut solutions = Vec::new();
    for chain in chains {
        let Shape::Chain(sides, by) = chain else { return None };
        let (name, shape) = solution(sides, by)?;
        if variable.is_some_and(|other| other != name) {
            return None;
        }
        variable = Some(name);
        solutions.push(shape);
    }
    Some(solutions)
}

/// All real numbers.
pub fn real_line() -> Shape {
    interval((infinity(true), false), (infinity(false), false))
}

/// Values that stand in a relation to a bound.
fn one_sided<'a>(name: &'a Expr, relation: Relation, bound: &Shape) -> Option<Solution<'a>> {
    let below = |closed| interval((infinity(true), false), (bound.clone(), closed));
    let above = |closed| interval((bound.clone(), closed), (infinity(false), false));
    let shape = match relation {
        Relation::NotEqual => Shape::Union(vec![below(false), above(false)]),
        _ => match direction(relation)? {
            (true, closed) => below(closed),
            (false, closed) => above(closed),
        },
    };
    Some((name, shape))
}

/// Values of `x` with `|x − c|` in a relation to a bound that is not negative.
fn absolute<'a>(inside: &'a Expr, relation: Relation, bound: &Expr) -> Option<Solution<'a>> {
    if !is_positive(bound) {
        return None;
    }
    let (name, center) = shifted(inside)?;
    let end = |negative: bool| {
        let bound = if negative { Expr::Negative(Box::new(bound.clone())) } else { bound.clone() };
        Shape::Scalar(center.clone().map_or(bound.clone(), |center| Expr::Sum(vec![center, bound])))
    };
    let shape = match relation {
        Relation::Equal => Shape::Set(vec![end(true), end(false)]),
        Relation::NotEqual | Relation::In | Relation::About => return None,
        _ => match direction(relation)? {
            (true, closed) => interval((end(true), closed), (end(false), closed)),
            (false, closed) => Shape::Union(vec![
                interval((infinity(true), false), (end(true), closed)),
                interval((end(false), closed), (infinity(false), false)),
            ]),
        },
    };
    Some((name, shape))
}

/// Variable and center of `x`, `x − c` or `x + c`.
fn shifted(inside: &Expr) -> Option<(&Expr, Option<Expr>)> {
    match inside {
        name if name.is_name() => Some((name, None)),
        Expr::Sum(terms) => match &terms[..] {
            [name, Expr::Negative(center)] if name.is_name() => Some((name, Some((**center).clone()))),
            [name, center] if name.is_name() => Some((name, Some(Expr::Negative(Box::new(center.clone()))))),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a bound is surely not negative.
fn is_positive(expr: &Expr) -> bool {
    match expr {
        Expr::Number(number) => !num_traits::Signed::is_negative(number),
        Expr::Symbol(name) => matches!(name.as_str(), "pi" | "e"),
        Expr::Root(inside, _) => is_positive(inside),
        Expr::Quotient(one, other) => is_positive(one) && is_positive(other),
        Expr::Sum(all) | Expr::Product(all) => all.iter().all(is_positive),
        _ => false,
    }
}

/// Whether the right side is the larger one, and whether the sides may be equal.
fn direction(relation: Relation) -> Option<(bool, bool)> {
    match relation {
        Relation::Less => Some((true, false)),
        Relation::AtMost => Some((true, true)),
        Relation::Greater => Some((false, false)),
        Relation::AtLeast => Some((false, true)),
        Relation::Equal | Relation::NotEqual | Relation::In | Relation::About => None,
    }
}

fn interval(low: End, high: End) -> Shape {
    let (open, close) = (if low.1 { '[' } else { '(' }, if high.1 { ']' } else { ')' });
    Shape::Sequence(open, vec![low.0, high.0], close)
}

fn infinity(negative: bool) -> Shape {
    Shape::Scalar(if negative { Expr::Negative(Box::new(Expr::Infinity)) } else { Expr::Infinity })
}

fn is_infinite(shape: &Shape) -> bool {
    *shape == infinity(true) || *shape == infinity(false)
}
