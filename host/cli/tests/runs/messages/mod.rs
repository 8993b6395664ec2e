//! What a run tells its user: its plan, warnings, and its health.

mod dry_run;
mod health;
mod symptoms;
mod warnings;
