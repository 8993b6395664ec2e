//! Tokens of conversations, and served policies.

mod chat;
#[path = "../peer/mod.rs"]
mod peer;
mod policy_servers;
mod server_pool;
mod stop_texts;
