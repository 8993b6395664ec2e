//! The checks, one module each, with the table of their names in the order of the suite.

use futures::future::BoxFuture;

use crate::finding::Finding;
use crate::fixture::Fixture;

pub(crate) mod capabilities;
pub(crate) mod cost;
pub(crate) mod describe;
pub(crate) mod fuzz;
pub(crate) mod invalid;
pub(crate) mod limits;
pub(crate) mod option_limits;
pub(crate) mod options;
pub(crate) mod oracle;
mod overlap;
pub(crate) mod parameters;
pub(crate) mod scores;
pub(crate) mod splits;
pub(crate) mod state;

/// A check of a plugin that loads.
pub(crate) type Run = for<'a> fn(&'a Fixture) -> BoxFuture<'a, Finding>;

/// Name and description of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckInfo {
    /// Name in reports.
    pub name: &'static str,
    /// Description of the check.
    pub what: &'static str,
}

/// Check of loading, before any call.
pub(crate) const LOADS: CheckInfo =
    CheckInfo { name: "loads", what: "the engine loads the component, and its exports match its manifest" };
pub(crate) const CAPABILITIES: CheckInfo =
    CheckInfo { name: "capabilities", what: "the component imports exactly the capabilities in its manifest" };
/// Check of other options, after all others.
pub(crate) const OPTION_LIMITS: CheckInfo =
    CheckInfo { name: "option-limits", what: "a shorter suite passes at the limits of every option" };

/// Check of a plugin that loads.
pub(crate) struct SuiteCheck {
    pub info: CheckInfo,
    pub run: Run,
    /// Whether the shorter suite at the limits of options has it too.
    pub at_limits: bool,
}

/// Checks of a plugin that loads.
pub(crate) fn playing() -> Vec<SuiteCheck> {
    let once = |name, what, run: Run| SuiteCheck { info: CheckInfo { name, what }, run, at_limits: false };
    let check = |name, what, run: Run| SuiteCheck { at_limits: true, ..once(name, what, run) };
    vec![
        once("describes-itself", "its options, functions, seats and components have descriptions", |fixture| {
            Box::pin(describe::check(fixture))
        }),
        once("options", "unknown options and options of a wrong type are refused", |fixture| {
            Box::pin(options::check(fixture))
        }),
        check("splits-and-tasks", "splits have exactly the tasks that they list", |fixture| {
            Box::pin(splits::check(fixture))
        }),
        check("parameters", "functions take JSON Schemas, and arguments made from them are answered", |fixture| {
            Box::pin(parameters::check(fixture))
        }),
        check("same-seed-same-bytes", "the same start, seed and actions give the same bytes", |fixture| {
            Box::pin(state::check(fixture))
        }),
        check("snapshots", "a restored state continues like the saved one and like a replay", |fixture| {
            Box::pin(state::snapshots::check(fixture))
        }),
        once("bad-snapshots", "invalid snapshots are refused", |fixture| {
            Box::pin(state::snapshots::check_bad(fixture))
        }),
        check("state-keys", "equal states have equal keys, and different states different ones", |fixture| {
            Box::pin(state::state_keys::check(fixture))
        }),
        check("read-only", "reading a state does not change it", |fixture| Box::pin(state::read_only::check(fixture))),
        // At a limit, such as one turn, a task can be unsolvable.
        once("oracle", "the oracle's episodes end successfully", |fixture| Box::pin(oracle::check(fixture))),
        check("invalid-actions", "invalid actions are answered", |fixture| Box::pin(invalid::check(fixture))),
        check("isolation", "two episodes or sessions in one instance do not affect each other", |fixture| {
            Box::pin(state::isolation::check(fixture))
        }),
        check("fuzz", "random actions are answered, and rewards stay in their range", |fixture| {
            Box::pin(fuzz::check(fixture))
        }),
        check("scores", "finished episodes of all shapes get a finite score in range for each seat", |fixture| {
            Box::pin(scores::check(fixture))
        }),
        check("same-episodes-same-scores", "the same episodes get the same scores", |fixture| {
            Box::pin(scores::check_again(fixture))
        }),
        check("cost", "no call needs more instructions or memory than a run allows", |fixture| {
            Box::pin(cost::check(fixture))
        }),
    ]
}
