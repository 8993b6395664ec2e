//! Agent programs: those that a run starts, and those elsewhere that open sessions.

mod agent;
mod gateway;

pub use agent::{AgentSandbox, AgentSection};
pub use gateway::{GatewayClient, GatewaySampling, GatewaySection};
