//! Training and sampling by PyTorch in processes of its own, one for each device.
//!
//! [`TorchChild`] starts `torchrun` with the Python module `gymkhana_rl.torch` and speaks the messages of
//! [`gymkhana_engine::message`] over a Unix socket. [`TorchEngine`] trains and [`TorchPolicy`] samples with it; they share
//! the weights.
//!
//! The crate never prints.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod child;
mod engine;
mod error;
mod policy;
mod process;
#[cfg(test)]
mod tests;

pub use child::{Reply, TorchChild};
pub use engine::TorchEngine;
pub use error::{Ended, TorchError};
pub use policy::TorchPolicy;
pub use process::{TorchDevice, TorchSettings};
