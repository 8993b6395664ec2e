//! The bench programs, one module each.

pub mod async_rollouts;
pub mod data;
pub mod density;
pub mod gateway;
pub mod hung;
pub mod neighbours;
pub mod plugin_calls;
pub mod python_code;
pub mod registry;
pub mod replay;
pub mod rollouts;
pub mod sandbox;
pub mod torch;
pub mod trainer;
pub mod workers;
