//! A linear layer: a matrix with its bias and adapter.
#![allow(non_snake_case)]

use tch::Tensor;

use super::product::product;

/// A matrix with its bias and adapter. Suffixes of names are axes: I inputs, O outputs, R ranks.
#[derive(Debug)]
pub(super) struct Linear {
    pub weight_OI: Tensor,
    pub bias_O: Option<Tensor>,
    /// Factors of the adapter; the second one includes the adapter's factor.
    pub adapter: Option<[Tensor; 2]>,
}

impl Linear {
    pub fn of(&self, x: &Tensor) -> Tensor {
        let product = product(x, &self.weight_OI, self.bias_O.as_ref());
        match &self.adapter {
            None => product,
            Some([down_RI, up_OR]) => product + x.linear::<&Tensor>(down_RI, None).linear::<&Tensor>(up_OR, None),
        }
    }
}
