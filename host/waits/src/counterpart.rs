//! The kinds of counterparts.

/// What the program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counterpart {
    /// A server with the policy, such as vLLM or SGLang.
    PolicyServer,
    /// A Tinker server, which trains.
    Tinker,
    /// The processes of PyTorch that train.
    Torch,
    /// The trainer or server of a run, as its workers see it.
    Owner,
    /// The NATS server between a run and its workers.
    Bus,
    /// A worker of a run or of a server.
    Worker,
    /// An MCP server of a run.
    McpServer,
    /// An agent program.
    AgentProgram,
    /// A registry of plugins.
    Registry,
    /// A hub of models.
    Hub,
    /// A disk.
    Disk,
    /// The process that compiles a plugin to native code.
    Compiler,
    /// A program that is started for its result, such as cargo, Python or pip.
    BuildTool,
    /// The thread that owns the model.
    TrainerThread,
    /// Episodes of a run in this process.
    Episodes,
    /// Another process that holds a file: a run's folder, a project, a download.
    RunLock,
    /// A client of a server of this program, such as a browser or a harness.
    Client,
    /// A model or website that a plugin asks.
    OutboundCall,
    /// The receiver of spans.
    Telemetry,
    /// A free place, permit or thread of this process.
    Place,
}

impl Counterpart {
    /// All kinds, in the order of the documentation.
    pub const ALL: [Self; 20] = [
        Self::PolicyServer,
        Self::Tinker,
        Self::Torch,
        Self::TrainerThread,
        Self::Episodes,
        Self::Bus,
        Self::Worker,
        Self::Owner,
        Self::McpServer,
        Self::AgentProgram,
        Self::OutboundCall,
        Self::Compiler,
        Self::BuildTool,
        Self::Registry,
        Self::Hub,
        Self::RunLock,
        Self::Disk,
        Self::Client,
        Self::Telemetry,
        Self::Place,
    ];

    /// Name in messages, with its article.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PolicyServer => "the policy server",
            Self::Tinker => "the Tinker server",
            Self::Torch => "PyTorch",
            Self::Owner => "the trainer",
            Self::Bus => "the bus",
            Self::Worker => "the worker",
            Self::McpServer => "the MCP server",
            Self::AgentProgram => "the agent program",
            Self::Registry => "the registry",
            Self::Hub => "the hub",
            Self::Disk => "the disk",
            Self::Compiler => "the compiler",
            Self::BuildTool => "the program",
            Self::TrainerThread => "the trainer thread",
            Self::Episodes => "the episodes",
            Self::RunLock => "the process that holds the lock",
            Self::Client => "the client",
            Self::OutboundCall => "the server of a plugin's request",
            Self::Telemetry => "the receiver of spans",
            Self::Place => "this process",
        }
    }
}
