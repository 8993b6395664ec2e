//! The causes of failures: who owns them, and what becomes of the episode. A test of whole runs compares it with records.

use gymkhana_record::{Boundary, EpisodeRecord, Failure, FailureKind};

use crate::evidence::Evidence::{self, Test};

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureCause {
    /// An environment.
    Environment,
    /// A tool.
    Tool,
    /// A reward.
    Reward,
    /// A model that a plugin asks.
    Judge,
    /// A server that samples for the policy.
    PolicyServer,
    /// An instance of a plugin.
    Instance,
    /// An MCP server.
    McpServer,
    /// An agent program.
    AgentProgram,
    /// A client of a gateway.
    GatewayClient,
    /// A worker.
    Worker,
    /// A disk.
    Disk,
    /// More failures than the limit.
    Limit,
}

impl FailureCause {
    /// All causes.
    pub const ALL: [Self; 12] = [
        Self::Environment,
        Self::Tool,
        Self::Reward,
        Self::Judge,
        Self::PolicyServer,
        Self::Instance,
        Self::McpServer,
        Self::AgentProgram,
        Self::GatewayClient,
        Self::Worker,
        Self::Disk,
        Self::Limit,
    ];

    /// Name on the page.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Tool => "tool",
            Self::Reward => "reward",
            Self::Judge => "model of a plugin",
            Self::PolicyServer => "policy server",
            Self::Instance => "instance of a plugin",
            Self::McpServer => "MCP server",
            Self::AgentProgram => "agent program",
            Self::GatewayClient => "client of a gateway",
            Self::Worker => "worker",
            Self::Disk => "disk",
            Self::Limit => "more episodes than `failures.limit`",
        }
    }
}

/// Who pays for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureOwner {
    /// The agent's turn provoked it.
    Agent,
    /// Something else failed.
    Infrastructure,
}

impl FailureOwner {
    /// All owners.
    pub const ALL: [Self; 2] = [Self::Agent, Self::Infrastructure];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Agent => "Provoked by the agent",
            Self::Infrastructure => "Of the infrastructure",
        }
    }

    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Agent => {
                "The agent's turn is never better than a lost episode (`no_preset_rewards_a_provoked_failure`)."
            }
            Self::Infrastructure => {
                "No agent pays (`dropped_members_leave_no_trace_in_any_preset`, `dropped_members_change_nothing`)."
            }
        }
    }
}

/// What becomes of the episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureOutcome {
    /// It has the total of `failures.provoked`.
    Provoked,
    /// The agent reads the failure and plays on.
    Observed,
    /// It is absent.
    Absent,
    /// It is played again, and absent after the last attempt.
    Retried,
    /// Its group is scored again, and absent after the last attempt.
    GroupRetried,
    /// Nothing is lost.
    Nothing,
    /// The run waits, then ends with code 2 and can be resumed.
    Outage,
    /// The run ends with code 2 and can be resumed.
    Ends,
}

impl FailureOutcome {
    /// Text on the page.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Provoked => "the total of `failures.provoked`, by default the least",
            Self::Observed => "the agent reads it and plays on",
            Self::Absent => "absent",
            Self::Retried => "played again `failures.retries` times, then absent",
            Self::GroupRetried => "the group is scored again `failures.retries` times, then absent",
            Self::Nothing => "nothing is lost",
            Self::Outage => "the run waits up to `failures.outage_seconds`, then ends with code 2 and can be resumed",
            Self::Ends => "the run ends with code 2 and can be resumed",
        }
    }
}

/// Failures in records that belong to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// Boundary: the first word of its name, such as `tool`.
    pub boundary: &'static str,
    /// Kind.
    pub kind: FailureKind,
    /// Whether it happens before the agent's first turn; `None` for either.
    pub at_start: Option<bool>,
}

impl Signature {
    pub(super) fn matches(&self, record: &EpisodeRecord, failure: &Failure) -> bool {
        let boundary = match failure.at {
            Boundary::Environment(_) => "environment",
            Boundary::Tool(_) => "tool",
            Boundary::Reward(_) => "reward",
            Boundary::Agent => "agent",
            Boundary::Model => "model",
            Boundary::Host => "host",
        };
        let is_time = self.at_start.is_none_or(|at_start| at_start == record.policy_turns.is_empty());
        boundary == self.boundary && failure.kind == self.kind && is_time
    }
}

/// A cause of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureRow {
    /// What fails.
    pub cause: FailureCause,
    /// How it fails.
    pub how: &'static str,
    /// Who pays.
    pub owner: FailureOwner,
    /// What becomes of the episode.
    pub outcome: FailureOutcome,
    /// Failures that the matrix of whole runs provokes; empty if other tests do.
    pub signatures: &'static [Signature],
    /// What shows it.
    pub evidence: &'static [Evidence],
}

const fn at(boundary: &'static str, kind: FailureKind, at_start: bool) -> Signature {
    Signature { boundary, kind, at_start: Some(at_start) }
}

const fn any(boundary: &'static str, kind: FailureKind) -> Signature {
    Signature { boundary, kind, at_start: None }
}

use FailureCause as C;
use FailureOwner::{Agent, Infrastructure};

const MATRIX: Evidence = Test("host/cli/tests/runs/absence/mod.rs", "failures_leave_no_trace_in_runs_of_every_plan");
const OF_SERVER: Evidence =
    Test("host/cli/tests/runs/absence/mod.rs", "members_that_a_policy_server_lost_leave_no_trace");
const EPISODES: &str = "tests/tests/episodes/failures.rs";
const PLACES: &str = "tests/tests/episodes/host_faults.rs";
const PROGRAMS: &str = "tests/tests/episodes/agents/mod.rs";
const OUTAGES: &str = "host/cli/tests/runs/servers/outages.rs";
const MCP: &str = "host/mcp/tests/mcp/main.rs";
const FULL_DISKS: &str = "host/cli/tests/folders/workers/full_disks.rs";

const LIMITS: &str = "trap, fuel, time, memory or an error";

use FailureKind::{Budget, Capacity, Fault, Fuel, Memory, Refused, Trap};

/// All causes.
#[rustfmt::skip]
pub const TABLE: &[FailureRow] = &[
    FailureRow { cause: C::Environment, how: LIMITS, owner: Agent, outcome: FailureOutcome::Provoked,
        signatures: &[at("environment", Trap, false), at("environment", Fuel, false), at("environment", Budget, false),
            at("environment", Memory, false), at("environment", Refused, false)],
        evidence: &[MATRIX, Test(EPISODES, "a_provoked_failure_costs_the_least_declared_total")] },
    FailureRow { cause: C::Reward, how: LIMITS, owner: Agent, outcome: FailureOutcome::Provoked,
        signatures: &[any("reward", Trap), any("reward", Fuel), any("reward", Budget), any("reward", Memory)],
        evidence: &[MATRIX] },
    FailureRow { cause: C::Tool, how: LIMITS, owner: Agent, outcome: FailureOutcome::Observed,
        signatures: &[any("tool", Trap), any("tool", Fuel), any("tool", Budget), any("tool", Memory)],
        evidence: &[MATRIX,
            Test("host/cli/tests/folders/failures.rs", "a_tool_that_always_traps_is_an_observation_and_the_run_goes_on")] },
    FailureRow { cause: C::McpServer, how: "a local one dies, hangs or floods", owner: Agent, outcome: FailureOutcome::Observed,
        signatures: &[],
        evidence: &[Test(MCP, "hostile_servers_end_their_session_and_nothing_else"),
            Test(MCP, "a_stopped_server_is_named_and_ended")] },
    FailureRow { cause: C::AgentProgram, how: "killed, an error or the time limit, after its first request", owner: Agent,
        outcome: FailureOutcome::Provoked, signatures: &[],
        evidence: &[Test(PROGRAMS, "programs_that_fail_are_failures_of_the_agent")] },
    FailureRow { cause: C::Environment, how: "the same before the agent's first turn", owner: Infrastructure,
        outcome: FailureOutcome::Absent,
        signatures: &[at("environment", Trap, true), at("environment", Fuel, true), at("environment", Budget, true),
            at("environment", Memory, true)],
        evidence: &[MATRIX, Test(EPISODES, "a_failure_before_the_first_turn_is_not_the_agents")] },
    FailureRow { cause: C::Judge, how: "500, 429, hang-up, garbage or silence, asked by an environment or a tool",
        owner: Infrastructure, outcome: FailureOutcome::Retried, signatures: &[any("tool", Fault), any("environment", Fault)],
        evidence: &[MATRIX,
            Test("tests/tests/plugins/asking.rs", "an_unreachable_server_drops_the_episode_without_reward")] },
    FailureRow { cause: C::Judge, how: "the same, asked by a reward", owner: Infrastructure,
        outcome: FailureOutcome::GroupRetried, signatures: &[any("reward", Fault)],
        evidence: &[MATRIX, Test("tests/tests/plugins/asking.rs", "an_unreachable_judge_drops_the_group")] },
    FailureRow { cause: C::PolicyServer, how: "500, 429, hang-up or garbage, up to `policy.server.retries` times",
        owner: Infrastructure, outcome: FailureOutcome::Nothing, signatures: &[],
        evidence: &[Test("host/cli/tests/runs/servers/mod.rs", "passing_faults_cost_nothing"),
            Test("tests/tests/policies/policy_servers.rs", "faults_are_retried_up_to_the_limit")] },
    FailureRow { cause: C::PolicyServer, how: "the same, more often", owner: Infrastructure, outcome: FailureOutcome::Retried,
        signatures: &[any("model", Fault)], evidence: &[OF_SERVER] },
    FailureRow { cause: C::PolicyServer, how: "silent for all episodes of a step or an evaluation", owner: Infrastructure,
        outcome: FailureOutcome::Outage, signatures: &[],
        evidence: &[Test(OUTAGES, "a_server_that_dies_ends_the_run_and_a_resume_goes_on"),
            Test(OUTAGES, "an_outage_is_waited_out_and_the_server_gets_its_weights_again")] },
    FailureRow { cause: C::Instance, how: "none is free in time, or another episode ended a shared one",
        owner: Infrastructure, outcome: FailureOutcome::Retried,
        signatures: &[any("environment", Capacity), any("tool", Capacity)],
        evidence: &[Test(PLACES, "a_tool_without_a_place_drops_the_episode"),
            Test(PLACES, "a_reward_without_a_place_is_called_again_then_drops_the_group")] },
    FailureRow { cause: C::McpServer, how: "does not start, or the connection to a remote one ends",
        owner: Infrastructure, outcome: FailureOutcome::Retried, signatures: &[],
        evidence: &[Test("host/mcp/src/tool.rs", "the_end_of_a_remote_connection_is_a_fault")] },
    FailureRow { cause: C::AgentProgram, how: "does not start, or ends without a request", owner: Infrastructure,
        outcome: FailureOutcome::Retried, signatures: &[],
        evidence: &[Test(PROGRAMS, "a_program_that_does_not_start_is_a_fault_of_the_host"),
            Test(PROGRAMS, "programs_that_fail_are_failures_of_the_agent")] },
    FailureRow { cause: C::GatewayClient, how: "leaves its session, or the gateway is killed", owner: Infrastructure,
        outcome: FailureOutcome::Absent, signatures: &[],
        evidence: &[Test("host/gateway/src/control/tests.rs", "sessions_are_bounded_and_idle_ones_end"),
            Test("host/cli/tests/runs/agents/gateway.rs", "a_killed_gateway_loses_no_finished_turn_of_its_open_sessions")] },
    FailureRow { cause: C::Worker, how: "killed, stopped or late", owner: Infrastructure, outcome: FailureOutcome::Nothing,
        signatures: &[],
        evidence: &[Test("host/cli/tests/folders/workers/mod.rs", "killed_stopped_and_late_workers_change_nothing")] },
    FailureRow { cause: C::Worker, how: "killed with a session of a gateway whose plugins have no snapshots",
        owner: Infrastructure, outcome: FailureOutcome::Absent, signatures: &[],
        evidence: &[Test("host/cli/tests/runs/agents/gateway_workers.rs", "sessions_without_snapshots_are_reported_as_lost")] },
    FailureRow { cause: C::Disk, how: "full, of a worker or the bus", owner: Infrastructure, outcome: FailureOutcome::Nothing,
        signatures: &[],
        evidence: &[Test(FULL_DISKS, "a_worker_with_a_full_disk_ends_and_another_one_plays"),
            Test(FULL_DISKS, "a_run_waits_for_a_full_bus")] },
    FailureRow { cause: C::Disk, how: "full, of the run", owner: Infrastructure, outcome: FailureOutcome::Ends, signatures: &[],
        evidence: &[Test("host/cli/tests/commands/mistakes.rs", "a_full_disk_ends_a_run_that_can_be_resumed")] },
    FailureRow { cause: C::Limit, how: "any failure, before a step trains on the others", owner: Infrastructure, outcome: FailureOutcome::Ends, signatures: &[],
        evidence: &[Test("host/cli/tests/folders/failures.rs",
            "too_many_failures_stop_the_run_with_their_count_and_the_last_of_them")] },
];
