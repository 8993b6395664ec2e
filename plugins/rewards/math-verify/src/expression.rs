//! Parser for the tightly binding parts of an expression: powers, brackets, functions, fractions and roots.

use num_traits::{One, ToPrimitive};

use crate::lexer::Token;
use crate::parser::{Parser, logarithm};
use crate::tree::{Expr, Function, Trouble};

/// Maximum number of postfix signs, such as `!`.
const MAX_POSTFIX: usize = 4;
/// Maximum degree of a root.
const MAX_DEGREE: u32 = 64;

impl Parser<'_> {
    /// Value with its power.
    pub fn power(&mut self) -> Result<Expr, Trouble> {
        let base = self.postfix()?;
        if self.degrees() || !self.eat('^') {
            return Ok(base);
        }
        let exponent = self.exponent()?;
        Ok(Expr::Power(Box::new(base), Box::new(exponent)))
    }

    /// Exponent after `^`, which may have a sign and a power.
    fn exponent(&mut self) -> Result<Expr, Trouble> {
        self.deeper(|parser| {
            if parser.eat('-') {
                return Ok(Expr::Negative(Box::new(parser.exponent()?)));
            }
            parser.power()
        })
    }

    /// Value with postfix `!`, `%` or, in the argument of a function, degrees.
    fn postfix(&mut self) -> Result<Expr, Trouble> {
        let mut value = self.atom()?;
        for _ in 0..=MAX_POSTFIX {
            if self.eat('!') {
                value = Expr::Apply(Function::Factorial, Box::new(value));
            } else if self.eat('%') {
                value = Expr::Quotient(Box::new(value), Box::new(Expr::integer(100)));
            } else if self.functions > 0 && (self.degrees() || self.peek() == Some(&Token::Sign('°'))) {
                self.place += usize::from(self.degrees());
                let braced = self.peek() == Some(&Token::Open('{'));
                self.place += if braced { 3 } else { 1 };
                let half_turn = Expr::Quotient(Box::new(Expr::Symbol("pi".to_owned())), Box::new(Expr::integer(180)));
                value = Expr::Product(vec![value, half_turn]);
            } else {
                return Ok(value);
            }
        }
        Err(Trouble::TooLarge)
    }

    fn atom(&mut self) -> Result<Expr, Trouble> {
        let token = self.peek().ok_or(Trouble::Unreadable)?;
        self.place += 1;
        match token {
            Token::Number(value, _) => Ok(Expr::Number(value.clone())),
            Token::Name(name) if name != "emptyset" => Ok(Expr::Symbol(name.clone())),
            Token::Infinity => Ok(Expr::Infinity),
            Token::Open(open) => self.brackets(*open),
            Token::Sign('|') => {
                self.bars += 1;
                let inside = self.deeper(Self::sum)?;
                self.bars -= 1;
                self.expect(&Token::Sign('|'))?;
                Ok(Expr::Apply(Function::Absolute, Box::new(inside)))
            }
            Token::Fraction => {
                let above = self.argument()?;
                Ok(Expr::Quotient(Box::new(above), Box::new(self.argument()?)))
            }
            Token::Choose => {
                let above = self.argument()?;
                let below = self.argument()?;
                Ok(choose(above, below))
            }
            Token::Root => self.root(),
            Token::Function(function) => self.function(*function),
            Token::Log => {
                let base = if self.eat('_') { self.argument()? } else { Expr::integer(10) };
                Ok(logarithm(base, self.function_argument()?))
            }
            _ => Err(Trouble::Unreadable),
        }
    }

    /// Bracketed expression; absolute-value bars nest inside.
    fn brackets(&mut self, open: char) -> Result<Expr, Trouble> {
        let bars = std::mem::take(&mut self.bars);
        let inside = self.deeper(Self::sum)?;
        self.bars = bars;
        let (close, function) = match open {
            '(' => (')', None),
            '[' => (']', None),
            '{' => ('}', None),
            '⌊' => ('⌋', Some(Function::Floor)),
            '⌈' => ('⌉', Some(Function::Ceiling)),
            _ => return Err(Trouble::Unreadable),
        };
        self.expect(&Token::Close(close))?;
        Ok(match function {
            Some(function) => Expr::Apply(function, Box::new(inside)),
            None => inside,
        })
    }

    /// Argument of `\frac` and similar commands: a group or one value.
    fn argument(&mut self) -> Result<Expr, Trouble> {
        self.deeper(Self::atom)
    }

    /// Root: `\sqrt{x}`, `\sqrt[3]{x}` or `sqrt(x)`.
    fn root(&mut self) -> Result<Expr, Trouble> {
        let mut degree = 2;
        if self.peek() == Some(&Token::Open('[')) {
            let Expr::Number(number) = self.argument()? else { return Err(Trouble::Unreadable) };
            let small = number.denom().is_one().then(|| number.numer().to_u32()).flatten();
            degree = small.filter(|degree| (1..=MAX_DEGREE).contains(degree)).ok_or(Trouble::TooLarge)?;
        }
        let inside = self.argument()?;
        Ok(Expr::Root(Box::new(inside), degree))
    }

    /// Function: `\sin x`, `\sin^2 x` or `\sin^{-1} x`.
    fn function(&mut self, function: Function) -> Result<Expr, Trouble> {
        let power = if self.eat('^') { Some(self.exponent()?) } else { None };
        let argument = self.function_argument()?;
        let minus_one = |power: &Expr| matches!(power, Expr::Negative(one) if **one == Expr::integer(1));
        let inverse = match function {
            Function::Sin => Some(Function::Arcsin),
            Function::Cos => Some(Function::Arccos),
            Function::Tan => Some(Function::Arctan),
            _ => None,
        };
        Ok(match (power, inverse) {
            (Some(power), Some(inverse)) if minus_one(&power) => Expr::Apply(inverse, Box::new(argument)),
            (Some(power), _) => Expr::Power(Box::new(Expr::Apply(function, Box::new(argument))), Box::new(power)),
            (None, _) => Expr::Apply(function, Box::new(argument)),
        })
    }

    /// Argument of a function: a bracket, or adjacent values up to the next sign or function.
    fn function_argument(&mut self) -> Result<Expr, Trouble> {
        self.functions += 1;
        let argument = self.deeper(|parser| {
            if let Some(Token::Open('(' | '[' | '{')) = parser.peek() {
                return parser.postfix();
            }
            let mut factors =
                vec![if parser.eat('-') { Expr::Negative(Box::new(parser.power()?)) } else { parser.power()? }];
            while let Some(Token::Name(_) | Token::Number(..) | Token::Fraction | Token::Root) = parser.peek() {
                factors.push(parser.power()?);
            }
            Ok(if factors.len() == 1 { factors.remove(0) } else { Expr::Product(factors) })
        });
        self.functions -= 1;
        argument
    }
}

/// Binomial coefficient: `n! / (k! (n − k)!)`.
fn choose(above: Expr, below: Expr) -> Expr {
    let factorial = |value| Expr::Apply(Function::Factorial, Box::new(value));
    let rest = Expr::Sum(vec![above.clone(), Expr::Negative(Box::new(below.clone()))]);
    let divisor = Expr::Product(vec![factorial(below), factorial(rest)]);
    Expr::Quotient(Box::new(factorial(above)), Box::new(divisor))
}
