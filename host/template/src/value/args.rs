//! Arguments of calls.

use super::{Val, number_of};
use crate::error::{Fault, fail};
use crate::text::Str;

/// The arguments of a call.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Val>,
    /// Names keep their origins, since `dict(**values)` makes keys of them.
    pub(crate) named: Vec<(Str, Val)>,
}

impl Args {
    pub(crate) fn of(positional: Vec<Val>) -> Self {
        Self { positional, named: Vec::new() }
    }

    /// Assigns the arguments to parameters, of which the first `required` must be given. Others
    /// that are missing are undefined.
    pub(crate) fn bind<const N: usize>(
        self,
        function: &str,
        names: [&str; N],
        required: usize,
    ) -> Result<[Val; N], Fault> {
        if self.positional.len() > N {
            return fail(format!("`{function}` takes at most {N} arguments, got {}", self.positional.len()));
        }
        let mut values = [const { None }; N];
        for (slot, value) in values.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            match names.iter().position(|known| *known == name.as_str()).and_then(|at| values.get_mut(at)) {
                Some(slot @ None) => *slot = Some(value),
                Some(_) => return fail(format!("`{function}` got two values for its argument `{}`", name.as_str())),
                None => return fail(format!("`{function}` has no argument `{}`", name.as_str())),
            }
        }
        if let Some((name, _)) = names.iter().zip(&values).take(required).find(|(_, value)| value.is_none()) {
            return fail(format!("`{function}` needs its argument `{name}`"));
        }
        Ok(values.map(|value| value.unwrap_or(Val::Undefined(None))))
    }
}

impl Val {
    /// The value unless it is undefined.
    pub(crate) fn given(&self) -> Option<&Self> {
        (!self.is_undefined()).then_some(self)
    }

    /// The value unless it is undefined or `None`.
    pub(crate) fn present(&self) -> Option<&Self> {
        (!self.is_undefined() && !self.is_none()).then_some(self)
    }

    /// A string argument.
    pub(crate) fn need_str(&self, what: &str) -> Result<&Str, Fault> {
        match self {
            Self::Str(text) => Ok(text),
            other => fail(format!("{what} must be a string, not `{}`", other.type_name())),
        }
    }

    /// A whole number as an argument.
    pub(crate) fn need_int(&self, what: &str) -> Result<i128, Fault> {
        match self.as_int() {
            Some(number) => Ok(number),
            None => fail(format!("{what} must be a whole number, not `{}`", self.type_name())),
        }
    }

    /// A number as an argument.
    pub(crate) fn need_number(&self, what: &str) -> Result<f64, Fault> {
        match number_of(self) {
            Some(number) => Ok(number),
            None => fail(format!("{what} must be a number, not `{}`", self.type_name())),
        }
    }
}
