//! Evaluation: held-out tasks before and after each stage, and models by themselves.

mod figures;
mod held_out;
mod model;
pub(crate) mod points;

pub use figures::{AtTurn, Figures};
pub use model::{EvalRequest, Evaluated, EvaluatedEnvironment, evaluate};
