//! Evaluation: held-out tasks before and after each stage, and models by themselves.

mod figures;
pub(crate) mod held_out;
mod model;

pub use figures::{AtTurn, Figures};
pub use model::{EvalRequest, Evaluated, evaluate};
