//! Sections of the page, in order, and the types that they describe.

/// A section of the page.
pub(super) struct Section {
    /// Level of the heading.
    pub level: usize,
    /// Heading in Markdown.
    pub heading: &'static str,
    /// Generated content.
    pub body: SectionBody,
    /// Default column of a required key.
    pub required: &'static str,
    /// Text after the generated content.
    pub note: &'static str,
}

/// Generated content of a section.
pub(super) enum SectionBody {
    /// Keys of the run file itself.
    Root,
    /// Descriptions and keys of types, by the names of their definitions.
    Types(&'static [&'static str]),
    /// Names of the algorithm presets.
    Presets,
    /// No generated content.
    Text,
}

impl Section {
    const fn new(level: usize, heading: &'static str, body: SectionBody, note: &'static str) -> Self {
        Self { level, heading, body, required: "required", note }
    }

    const fn of(level: usize, heading: &'static str, types: &'static [&'static str]) -> Self {
        Self::new(level, heading, SectionBody::Types(types), "")
    }
}

const TOOL_FORMATS: &str = "[Tool formats](tool-formats.md) describes the values of `tool_format`.";

const GATES: &str = "\
A condition has the form `NAME SIGN NUMBER`: the name is `environment.FACT`, `REWARD.COMPONENT` or `REWARD.total`; the
sign is `>=`, `>`, `<=` or `<`; the number is finite. An example is `answer-match.correct >= 0.5`. A reward counts if
its own condition holds and the reward in this condition counts itself. Gates must not form a circle.";

const ENVIRONMENTS: &str = "[Train on several environments](../how-to/several-environments.md) explains them.";

const SAMPLERS: &str = "[Choose tasks](../how-to/choose-tasks.md) explains them.";

const PLUGINS: &str = "[Grant capabilities](../how-to/grant-capabilities.md) explains the grants.";

const SOURCES: &str = "[Learn from records](../how-to/learn-from-records.md) explains them and filter expressions.";

const MCP: &str = "[Use MCP servers](../how-to/use-mcp-servers.md) explains them.";

const PRESETS: &str = "\
[Algorithms](../explanation/algorithms.md) describes them and names the companions that some of them require. A stage
without its companion is rejected with the missing lines.";

const FLAGS: &str = "\
These are the keys of a stage's `settings`. The default column is the value of a flag that neither the preset nor
`settings` gives; \"preset\" marks a flag that every preset gives.";

/// All sections.
pub(super) const SECTIONS: &[Section] = &[
    Section::new(2, "Top level", SectionBody::Root, ""),
    Section::new(2, "`[policy]`", SectionBody::Types(&["PolicySection"]), TOOL_FORMATS),
    Section::of(3, "Models by folder or hub", &["Checkpoint", "HubModel"]),
    Section::of(3, "`policy.tool_format` as a table", &["ToolFormatMarks"]),
    Section::of(3, "`policy.thoughts` as a table", &["ThoughtsMarks"]),
    Section::of(3, "`policy.tiny`", &["TinyModel"]),
    Section::of(3, "`policy.lora`", &["Lora"]),
    Section::of(3, "`policy.server`", &["ServerSection"]),
    Section::of(2, "`[trainer]`", &["TrainerSection"]),
    Section::of(3, "`[trainer]` with `kind = \"tinker\"`", &["TinkerSection"]),
    Section::of(3, "`[trainer]` with `kind = \"torch\"`", &["TorchSection"]),
    Section::of(2, "`[seats.NAME]`", &["SeatSection"]),
    Section::of(2, "`[environment]`", &["EnvironmentSection"]),
    Section::new(2, "`[[environments]]`", SectionBody::Types(&["EnvironmentEntry"]), ENVIRONMENTS),
    Section::of(3, "`[environments.plugins.NAME]`", &["EnvironmentPlugin"]),
    Section::of(3, "`[environments.advantage]`", &["EnvironmentAdvantage"]),
    Section::of(3, "Schedules", &["WeightSchedule"]),
    Section::new(3, "Gates", SectionBody::Text, GATES),
    Section::new(2, "`[sampler]`", SectionBody::Types(&["SamplerSection"]), SAMPLERS),
    Section::of(3, "`[[sampler.phases]]`", &["SamplerPhase"]),
    Section::new(2, "`[plugins.NAME]`", SectionBody::Types(&["PluginSection"]), PLUGINS),
    Section::of(3, "`[[plugins.NAME.http]]`", &["HttpSection"]),
    Section::new(3, "`plugins.NAME.mcp`", SectionBody::Types(&["McpSection"]), MCP),
    Section::of(2, "`[agent]`", &["AgentSection"]),
    Section::of(2, "`[gateway]`", &["GatewaySection"]),
    Section::of(3, "`[gateway.clients.NAME]`", &["GatewayClient"]),
    Section::of(2, "`[limits]`", &["LimitsSection"]),
    Section::of(2, "`[context]`", &["ContextStrategy"]),
    Section::of(2, "`[probe]`", &["TurnProbe"]),
    Section::of(2, "`[sandbox]`", &["SandboxSection"]),
    Section::of(2, "`[models.NAME]`", &["ModelSection"]),
    Section::of(2, "`[failures]`", &["FailuresSection"]),
    Section::of(2, "`[evaluation]`", &["EvaluationSection"]),
    Section::of(2, "`[checkpoints]`", &["CheckpointsSection"]),
    Section::of(2, "`[[stages]]`", &["Stage"]),
    Section::of(3, "Supervised fine-tuning: `kind = \"sft\"`", &["SftStage"]),
    Section::new(4, "`[[stages.source]]`", SectionBody::Types(&["SourceSection"]), SOURCES),
    Section::of(3, "Expert iteration: `kind = \"best-of-n\"`", &["BestOfNStage"]),
    Section::of(3, "Reinforcement learning: `kind = \"rl\"`, `\"dpo\"`, `\"kto\"` or `\"distill\"`", &["RlStage"]),
    Section::of(3, "Optimizer", &["Optimizer"]),
    Section::of(4, "Parameter groups", &["ParameterGroup"]),
    Section::of(3, "Demonstrations in reinforcement learning", &["Demonstrations"]),
    Section::of(3, "Recorded preferences", &["RecordedPreferences"]),
    Section::of(3, "`[stages.seats.NAME]`", &["StageSeat"]),
    Section::of(3, "Turn schedule", &["TurnSchedule"]),
    Section::of(3, "Sampling plans", &["SamplingPlan"]),
    Section::new(3, "Presets", SectionBody::Presets, PRESETS),
    Section {
        level: 3,
        heading: "Algorithm flags",
        body: SectionBody::Types(&["Algorithm"]),
        required: "preset",
        note: FLAGS,
    },
    Section::of(4, "Credit", &["Credit"]),
    Section::of(4, "Bounds", &["Bounds"]),
    Section::of(4, "Critic", &["Critic"]),
    Section::of(4, "Surrogate", &["Surrogate"]),
    Section::of(4, "KL", &["Kl"]),
    Section::of(4, "Updates of the reference", &["ReferenceUpdate"]),
    Section::of(4, "Entropy band", &["EntropyBand"]),
    Section::of(4, "Off-policy correction", &["OffPolicy"]),
    Section::of(4, "Replay", &["Replay"]),
];

/// The section that describes a type.
pub(super) fn section_of(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| matches!(section.body, SectionBody::Types(types) if types.contains(&name)))
}
