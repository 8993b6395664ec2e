//! Sums of the stories: small expressions over letters, evaluated exactly.

/// Sum over the letters `a`, `b`, `c` …, such as `(a+b)*c`. Letters stand for the numbers of a story in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum(pub &'static str);

impl Sum {
    /// Sum with numbers instead of letters, in the calculator's syntax: `(12+30)*45`.
    pub fn filled(self, numbers: &[u64]) -> String {
        let digits = |letter: char| match number(letter, numbers) {
            Some(number) => number.to_string(),
            None => letter.to_string(),
        };
        self.0.chars().map(digits).collect()
    }

    /// Value of the sum; `None` if it or any part of it is below 1, because stories contain no negative amounts.
    pub fn value(self, numbers: &[u64]) -> Option<u64> {
        let mut rest = self.0;
        value_of(&mut rest, numbers)
    }
}

fn number(letter: char, numbers: &[u64]) -> Option<u64> {
    let place = (letter as usize).checked_sub('a' as usize)?;
    numbers.get(place).copied()
}

/// Parses sums of products from the start of `rest`.
fn value_of(rest: &mut &str, numbers: &[u64]) -> Option<u64> {
    let mut value = product_of(rest, numbers)?;
    while let Some(operator @ ('+' | '-')) = rest.chars().next() {
        *rest = &rest[1..];
        let right = product_of(rest, numbers)?;
        value = if operator == '+' { value + right } else { value.checked_sub(right).filter(|left| *left > 0)? };
    }
    Some(value)
}

/// Parses products of letters and parentheses.
fn product_of(rest: &mut &str, numbers: &[u64]) -> Option<u64> {
    let mut value = factor_of(rest, numbers)?;
    while let Some(after) = rest.strip_prefix('*') {
        *rest = after;
        value *= factor_of(rest, numbers)?;
    }
    Some(value)
}

fn factor_of(rest: &mut &str, numbers: &[u64]) -> Option<u64> {
    let first = rest.chars().next()?;
    *rest = &rest[1..];
    if first != '(' {
        return number(first, numbers);
    }
    let value = value_of(rest, numbers)?;
    *rest = rest.strip_prefix(')')?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_the_rules_of_arithmetic() {
        for (sum, numbers, expected) in [
            ("a*b-c", &[37, 84, 59][..], 3049),
            ("(a+b)*c", &[12, 30, 45], 1890),
            ("a-b-c", &[9, 3, 2], 4),
            ("a*b+c*d-e", &[2, 3, 4, 5, 6], 20),
            ("(a-b)*(c+d)", &[5, 2, 1, 3], 12),
        ] {
            assert_eq!(Sum(sum).value(numbers), Some(expected), "{sum}");
        }
        assert_eq!(Sum("a-b+c").value(&[3, 3, 9]), None, "nothing is left on the way");
        assert_eq!(Sum("(a-b)*c").value(&[2, 3, 9]), None);
    }

    #[test]
    fn a_filled_sum_is_written_for_a_calculator() {
        assert_eq!(Sum("(a+b)*c").filled(&[12, 30, 45]), "(12+30)*45");
    }
}
