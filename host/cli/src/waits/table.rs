//! The waits: what is waited for, for how long, and what happens then. Tests compare it with the sources.

use std::time::Duration;

use gymkhana_waits::Counterpart;

use crate::evidence::Evidence;

/// The bound of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundOfWait {
    /// A key of the run file in seconds: its table there, its name, and its default.
    Key(&'static str, &'static str, &'static str),
    /// An option of the command line in seconds: its command, its name, and its default.
    Argument(&'static str, &'static str, &'static str),
    /// A constant: its file, its name, and its value.
    Constant(&'static str, &'static str, Duration),
    /// No bound. The wait is reported after the constant, and every ten minutes then.
    Reported(&'static str, &'static str, Duration),
    /// No wait.
    None,
}

/// What happens after the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterWait {
    /// The program goes on without the answer.
    GoesOn(&'static str),
    /// It asks again.
    Retried(&'static str),
    /// A call or an episode fails, and the run goes on.
    Fails(&'static str),
    /// The command ends with this exit code and a hint.
    Ends(u8, &'static str),
}

/// A wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitRow {
    /// Who is waited for.
    pub counterpart: Counterpart,
    /// What is waited for.
    pub what: &'static str,
    /// How long.
    pub bound: BoundOfWait,
    /// What happens then.
    pub after: AfterWait,
    /// What shows it.
    pub evidence: Evidence,
}

const fn row(
    counterpart: Counterpart,
    what: &'static str,
    bound: BoundOfWait,
    after: AfterWait,
    evidence: Evidence,
) -> WaitRow {
    WaitRow { counterpart, what, bound, after, evidence }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

use AfterWait::{Ends, Fails, GoesOn, Retried};
use BoundOfWait::{Argument, Constant, Key, Reported};
use Counterpart as C;
use Evidence::{Missing, Test};

const NETWORK: &str = "host/net/src/http.rs";
const BUS: &str = "host/workers/src/bus.rs";
const BUS_TESTS: &str = "host/cli/tests/folders/workers/silent.rs";
const FAULT_TESTS: &str = "host/cli/tests/folders/workers/faults.rs";
const CLOCK_TESTS: &str = "host/cli/tests/folders/workers/clocks.rs";
const BUILD: &str = "host/cli/src/plugin/build/mod.rs";
const BUILD_TESTS: &str = "host/cli/src/plugin/build/together.rs";
const CHILD_TESTS: &str = "host/waits/src/child.rs";
const MCP_TESTS: &str = "host/mcp/tests/mcp/main.rs";
const EGRESS_TESTS: &str = "host/egress/tests/egress/http.rs";
const REGISTRY_LIMITS: &str = "registry/client/src/transport/limits.rs";
const REGISTRY_TESTS: &str = "registry/client/tests/client/silent.rs";
const LISTENER_TESTS: &str = "host/http/tests/listener.rs";
const PIPELINE: &str = "host/run/src/stages/pipeline.rs";

/// All waits, by counterparts.
#[rustfmt::skip]
pub const TABLE: &[WaitRow] = &[
    row(C::PolicyServer, "a connection", Constant(NETWORK, "CONNECT_TIMEOUT", seconds(10)),
        Retried("`policy.server.retries` times, then as in an outage"),
        Missing("a connection on loopback is made or refused at once")),
    row(C::PolicyServer, "tokens and log-probabilities", Key("`policy.server`", "seconds", "600.0"),
        Retried("`policy.server.retries` times, then as in an outage"),
        Test("tests/tests/policies/policy_servers.rs", "a_hanging_server_is_retried_with_a_status_message")),
    row(C::PolicyServer, "new weights", Key("`policy.server`", "update_seconds", "600.0"),
        Retried("`policy.server.retries` times, then as in an outage"),
        Test("tests/tests/policies/policy_servers.rs", "faults_are_retried_up_to_the_limit")),
    row(C::PolicyServer, "the end of an outage", Key("`[failures]`", "outage_seconds", "600.0"),
        Ends(2, "the run says before each attempt what is silent, and can be resumed"),
        Test("host/cli/tests/runs/servers/outages.rs", "a_server_that_dies_ends_the_run_and_a_resume_goes_on")),
    row(C::Tinker, "the result of a call", Key("`[trainer]` with `kind = \"tinker\"`", "seconds", "3600.0"),
        Ends(2, "the run can be resumed"),
        Test("host/tinker/src/tests.rs", "a_server_without_a_result_is_named_after_the_bound")),
    row(C::Torch, "the first message of its processes", Key("`[trainer]` with `kind = \"torch\"`", "start_seconds", "600.0"),
        Ends(2, "the message names the remedy where one is known"),
        Test("host/torch/src/tests.rs", "a_python_without_the_module_is_named_with_the_remedy")),
    row(C::Torch, "a message while a request waits", Key("`[trainer]` with `kind = \"torch\"`", "seconds", "3600.0"),
        Ends(2, "its processes are killed; the run can be resumed"),
        Test("host/torch/src/tests.rs", "silence_is_named_after_the_bound")),
    row(C::Torch, "the end of killed processes", Constant("host/torch/src/process.rs", "LAST", seconds(10)),
        GoesOn("without their last words"),
        Missing("a killed process ends at once")),
    row(C::TrainerThread, "a training step", Reported(PIPELINE, "QUIET", seconds(300)),
        GoesOn("its time depends on the model"),
        Test("host/waits/src/reminder.rs", "a_wait_without_a_bound_is_reported_every_so_often")),
    row(C::Episodes, "the next finished group", Reported(PIPELINE, "QUIET", seconds(300)),
        GoesOn("each wait inside of an episode has its own bound"),
        Test(CLOCK_TESTS, "a_run_says_how_long_a_step_has_waited")),
    row(C::Bus, "a connection", Constant(BUS, "CONNECT", seconds(10)),
        Ends(2, "at the start; later it is renewed for as long as the run lasts"),
        Test(BUS_TESTS, "a_stopped_bus_is_named_at_the_start")),
    row(C::Bus, "the answer to a request", Constant(BUS, "REQUEST", seconds(10)),
        Retried("after 30 s the trainer and its workers say so, and wait on"),
        Test(BUS_TESTS, "a_stopped_bus_is_named_and_costs_nothing")),
    row(C::Bus, "the answer to each of three pings", Constant(BUS, "PING", seconds(20)),
        Retried("the connection is renewed, as for a half-open socket"),
        Test(FAULT_TESTS, "a_network_that_is_cut_longer_than_a_lease_changes_nothing")),
    row(C::Bus, "further bytes of an object", Constant("host/workers/src/objects.rs", "IDLE", seconds(15)),
        Fails("a worker offers its result again; a file that is missing ends the worker with code 2"),
        Test(FAULT_TESTS, "a_worker_ends_if_the_bus_lost_a_file")),
    row(C::Bus, "the records of a group", Constant("host/workers/src/trainer/results.rs", "FETCHED", seconds(120)),
        Retried("the worker offers them again"),
        Test("host/cli/tests/folders/workers/full_disks.rs", "a_run_waits_for_a_full_bus")),
    row(C::Worker, "a sign of life", Argument("host run", "--lease", "30"),
        GoesOn("its groups go to other workers"),
        Test("host/cli/tests/folders/workers/mod.rs", "killed_stopped_and_late_workers_change_nothing")),
    row(C::Worker, "any worker, while groups wait", Reported(BUS, "SILENCE", seconds(30)),
        GoesOn("the run waits for workers, and a stop ends it with code 130"),
        Test(BUS_TESTS, "a_stopped_worker_is_named")),
    row(C::Worker, "a place for a session of a gateway", Key("`[gateway]`", "wait_seconds", "30.0"),
        Fails("the request is refused with 503"),
        Test("host/cli/tests/runs/agents/gateway_workers.rs", "sessions_wait_for_workers_and_are_refused_without_a_place")),
    row(C::Worker, "the answer to a call of a gateway", Key("`[gateway]`", "answer_seconds", "300.0"),
        Fails("the episode fails, and its session ends"),
        Test("host/cli/tests/runs/agents/gateway_workers.rs", "a_call_of_a_silent_worker_ends_after_its_bound")),
    row(C::Owner, "an answer, as a worker asks it", Argument("host worker", "--trainer-timeout", "1800"),
        GoesOn("the worker says so after 30 s, and leaves the run after the bound"),
        Test(FAULT_TESTS, "a_worker_leaves_a_run_that_lost_its_trainer_and_comes_back")),
    row(C::McpServer, "the start of a session", Key("`plugins.NAME.mcp`", "start_seconds", "30.0"),
        Fails("the episode is dropped; at the start of a run the command ends with code 2"),
        Test(MCP_TESTS, "a_server_that_stops_at_the_start_is_named")),
    row(C::McpServer, "the answer to a call", Key("`plugins.NAME.mcp`", "seconds", "30.0"),
        Fails("the agent reads that the tool ran out of time, and the server is ended"),
        Test(MCP_TESTS, "a_stopped_server_is_named_and_ended")),
    row(C::AgentProgram, "the end of an episode", Key("`[agent]`", "seconds", "600.0"),
        Fails("the program is ended, and the episode has what it said so far"),
        Test("host/cli/tests/runs/agents/stopped.rs", "a_stopped_program_ends_at_its_limit")),
    row(C::AgentProgram, "its last output", Constant("host/gateway/src/program.rs", "LAST_OUTPUT", seconds(1)),
        GoesOn("what other processes write later is left out"),
        Test("host/gateway/src/program.rs", "output_is_bounded_and_children_of_the_program_end_with_it")),
    row(C::OutboundCall, "the answer to a plugin's request", Key("`[[plugins.NAME.http]]`", "seconds", "10.0"),
        Fails("the plugin reads the failure"),
        Test(EGRESS_TESTS, "half_open_and_trickling_servers_end_at_the_bound")),
    row(C::OutboundCall, "a completion for a plugin", Key("`[models.NAME]`", "seconds", "60.0"),
        Retried("`models.NAME.retries` times; then the episode is dropped"),
        Test("host/egress/tests/egress/model.rs", "a_server_that_stays_broken_is_a_fault_of_the_host")),
    row(C::Compiler, "a compiled plugin", Constant("host/sandbox/src/compiler/program.rs", "DEADLINE", seconds(300)),
        Ends(2, "the plugin is refused"),
        Test("host/cli/tests/compiling.rs", "a_stopped_compiler_is_named_and_ended")),
    row(C::BuildTool, "tests and build of a plugin's folder", Constant(BUILD, "LONGEST", seconds(3600)),
        Ends(2, "the program is ended; reported after 60 s"),
        Test(BUILD_TESTS, "a_stopped_program_is_named_and_ended_with_the_other")),
    row(C::BuildTool, "the dry run of `host init`", Constant("host/cli/src/init/mod.rs", "LONGEST_CHECK", seconds(1800)),
        Ends(2, "the program is ended; reported after 60 s"),
        Test(CHILD_TESTS, "a_stopped_program_is_reported_and_ended_after_the_bound")),
    row(C::BuildTool, "pip, for `--pretrained`",
        Constant("host/cli/src/bin/gymkhana-train/pretrained.rs", "LONGEST", seconds(3600)),
        Ends(2, "the program is ended; reported after 60 s"),
        Test(CHILD_TESTS, "a_stopped_program_is_reported_and_ended_after_the_bound")),
    row(C::BuildTool, "the version of an installed program", Constant("host/cli/src/doctor/programs.rs", "LONGEST", seconds(20)),
        GoesOn("`host doctor` counts it as absent"),
        Test("host/cli/src/doctor/programs.rs", "a_stopped_program_is_left_after_the_bound")),
    row(C::BuildTool, "the process that ends programs", Constant("host/keeper/src/lib.rs", "LAST_PROGRAMS", seconds(5)),
        GoesOn("it is ended"),
        Test("host/keeper/src/tests.rs", "a_stopped_watcher_does_not_keep_its_host")),
    row(C::Registry, "a connection", Constant(REGISTRY_LIMITS, "connect_timeout", seconds(10)),
        Retried("3 times; then the command ends with code 2"),
        Test(REGISTRY_TESTS, "a_registry_in_a_black_hole_is_named_with_the_duration")),
    row(C::Registry, "further bytes in either direction", Constant(REGISTRY_LIMITS, "idle_timeout", seconds(30)),
        Retried("3 times; then the command ends with code 2"),
        Test(REGISTRY_TESTS, "a_silent_registry_is_named_with_the_duration")),
    row(C::Registry, "4096 bytes/s, after a time", Constant(REGISTRY_LIMITS, "grace_period", seconds(20)),
        Ends(2, "nothing of the file is kept"),
        Test("registry/client/tests/client/attacks.rs", "invalid_bodies_are_rejected")),
    row(C::Registry, "the state, for plugins that are cached",
        Constant("registry/client/src/remote.rs", "REFRESH_TIMEOUT", seconds(3)),
        GoesOn("with the cache, and a notice"),
        Test("registry/client/tests/client/revoked.rs", "unreachable_registry_does_not_block_cached_plugins")),
    row(C::Registry, "an answer to `host doctor`", Constant("host/cli/src/doctor/registries.rs", "TIMEOUT", seconds(5)),
        Ends(1, "as a failed check"),
        Test("host/cli/tests/commands/machine.rs", "a_silent_registry_is_a_failed_check")),
    row(C::Hub, "further bytes, and 1024 bytes/s", Constant("host/hub/src/lib.rs", "STALL", seconds(60)),
        Retried("4 times, from where it ended; then the command ends with code 2"),
        Test("host/hub/tests/silent.rs", "a_trickling_storage_is_given_up_and_resumed")),
    row(C::RunLock, "growth of a file that another process downloads",
        Constant("host/hub/src/lib.rs", "STALL", seconds(60)),
        Ends(2, "after ten times as long; until then its progress is shown"),
        Test("host/hub/tests/silent.rs", "a_stopped_process_that_downloads_the_same_file_is_named")),
    row(C::RunLock, "a run's folder that another process writes", BoundOfWait::None,
        Ends(2, "at once"),
        Test("host/cli/tests/runs/agents/stopped.rs", "a_stopped_run_keeps_its_folder")),
    row(C::RunLock, "another command on the project", Constant("registry/client/src/project/lock.rs", "LONGEST", seconds(1800)),
        Ends(2, "reported at once and every ten minutes"),
        Test("registry/client/src/project/lock.rs", "a_command_that_keeps_the_lock_is_waited_for_within_a_bound")),
    row(C::Disk, "a write of a server's records", Constant("host/serve/src/records/mod.rs", "MAX_WAIT", seconds(10)),
        Fails("the request is refused until there is space"),
        Test("host/cli/tests/commands/serve.rs", "a_full_disk_loses_no_answered_turn")),
    row(C::Disk, "a write of a run's records", BoundOfWait::None,
        Ends(2, "at once, and the run can be resumed"),
        Test("host/cli/tests/commands/mistakes.rs", "a_full_disk_ends_a_run_that_can_be_resumed")),
    row(C::Client, "a request's head, and a TLS handshake", Constant("host/page/src/server.rs", "head_time", seconds(10)),
        GoesOn("the connection is closed"),
        Test(LISTENER_TESTS, "heads_have_a_deadline_and_a_size")),
    row(C::Client, "a client that takes no bytes, such as a page's browser",
        Constant("host/page/src/server.rs", "stall", seconds(30)),
        GoesOn("the connection is closed"),
        Test(LISTENER_TESTS, "an_answer_that_is_not_taken_is_given_up")),
    row(C::Client, "a request's body, at a gateway", Constant("host/gateway/src/server/handler.rs", "BODY_TIMEOUT", seconds(60)),
        Fails("the request is refused with 400"),
        Test(LISTENER_TESTS, "bodies_that_do_not_arrive_keep_no_client_waiting")),
    row(C::Client, "a message or a pong of a WebSocket",
        Constant("host/serve/src/endpoints/openenv/socket.rs", "SILENCE", seconds(60)),
        GoesOn("its session ends"),
        Test("host/serve/tests/served/bounds.rs", "idle_sessions_expire")),
    row(C::Client, "a request of a gateway's session", Key("`[gateway]`", "idle_seconds", "600.0"),
        Fails("the session ends"),
        Test("host/gateway/src/control/tests.rs", "sessions_are_bounded_and_idle_ones_end")),
    row(C::Client, "requests in progress, at the end", Constant("host/http/src/listener/mod.rs", "LAST_REQUESTS", seconds(30)),
        GoesOn("the server ends"),
        Test(LISTENER_TESTS, "requests_in_progress_are_answered_at_the_end")),
    row(C::Telemetry, "the last spans", Constant("host/orchestration/src/trace/otel.rs", "SHUTDOWN_TIMEOUT", seconds(10)),
        GoesOn("with a warning"),
        Missing("`cargo test -p gymkhana-orchestration --features otel trace` has a receiver that answers")),
    row(C::Place, "a place for a live plugin", Constant("host/sandbox/src/config.rs", "wait", seconds(600)),
        Fails("the episode is dropped, and the message names the setting"),
        Test("host/sandbox/src/instance/pool.rs", "a_start_waits_for_a_permit_and_fails_after_the_timeout")),
    row(C::Place, "a replay on the page", Constant("host/page/src/replay.rs", "WAIT", seconds(120)),
        GoesOn("the page shows the command"),
        Missing("a replay of two minutes is too long for a test")),
];
