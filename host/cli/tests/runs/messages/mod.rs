//! What a run tells its user: its plan, and warnings.

mod dry_run;
mod symptoms;
mod warnings;
