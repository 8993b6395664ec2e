//! Names of the studies: the one list, shared with `cargo xtask study` by `#[path]`.

use clap::ValueEnum;

/// A study, by the name that the command line takes. Its page is `studies/NAME.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StudyName {
    /// Masking of void turns (SimpleTIR)
    VoidTurns,
    /// A band around the entropy (EPO)
    EntropyBand,
    /// Corrections for stale episodes
    Stale,
    /// Masking of over-long episodes (Mini-o3)
    OverLong,
    /// Step-level groups on a long walk (GiGPO)
    Anchors,
    /// Step-level groups on FrozenLake (GiGPO)
    FrozenLake,
    /// Branching after tool calls (ARPO)
    Branching,
    /// Rewards behind a gate (G-RA)
    Gating,
    /// Rewards for few tool calls (OTC)
    FewCalls,
    /// A summary of the context (SUPO)
    Recall,
    /// The toy of other trainers' benches
    Toy,
    /// Self-play in Kuhn poker (SPIRAL)
    Kuhn,
    /// Samplers of training tasks
    Samplers,
    /// Training through an agent program on the `openai` client
    AgentProgram,
}
