//! Names of the benches: the one list, shared with `cargo xtask bench` by `#[path]`.

use clap::ValueEnum;

/// A bench, by the name that the command line takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bench {
    /// Cost of a step, a snapshot, a fork and a short episode in the sandbox
    Sandbox,
    /// Memory of a live episode, isolated and in a shared instance
    Density,
    /// Cost of tool calls that never return to the other episodes
    Hung,
    /// Delay of calls, timers and sockets beside hostile plugins
    Neighbours,
    /// CPU time and memory of an episode of three turns
    Rollouts,
    /// Wall-clock time of rollouts compared with an ideal scheduler
    Async,
    /// Replay of recorded episodes, byte by byte
    Replay,
    /// CPU time of a request of an agent program
    Gateway,
    /// Import of a large data file, and reading of single rows
    Data,
    /// Latency of an environment step
    Step,
    /// Latency of instantiating a plugin
    Instantiate,
    /// Latency of scoring a trajectory
    Reward,
    /// The Python tool compared with ipykernel and subprocesses
    Tools,
    /// The Python package compared with Gymnasium, ipykernel and functions in Python
    Python,
    /// Tokens per second of generation
    Generate,
    /// Tokens per second of training
    Train,
    /// CPU time of a training step on the toy
    Trainer,
    /// Resolving and downloading from a large registry
    Registry,
    /// Runs played by workers over a bus, compared with one process
    Workers,
    /// Simulation of up to a thousand workers by measured costs
    Scaling,
}
