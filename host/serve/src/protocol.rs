//! The protocols, by name.

/// A protocol, in records, metrics and traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// OpenEnv's server.
    OpenEnv,
    /// Open Reward Standard.
    Ors,
    /// Model Context Protocol.
    Mcp,
    /// VerlTool's tool server.
    VerlTool,
}

impl Protocol {
    /// All endpoints.
    pub const ALL: [Self; 4] = [Self::OpenEnv, Self::Ors, Self::Mcp, Self::VerlTool];

    /// The word in metrics, traces and configuration.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::OpenEnv => "openenv",
            Self::Ors => "ors",
            Self::Mcp => "mcp",
            Self::VerlTool => "verltool",
        }
    }
}
