//! Paths of the components that the tests load, measurements of a whole process, and messages of the bus.

pub mod bus_messages;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Folder of compiled components, which test programs and the commands that they start share: each component is compiled
/// once.
#[must_use]
pub fn compiled() -> PathBuf {
    root().join("target/tmp/caches/gymkhana/compiled")
}

/// Path of the component of a first-party plugin or a guest, such as `calculator` or `guest-echo`.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn component(name: &str) -> PathBuf {
    let path = root().join("target/plugins").join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is missing: run `cargo xtask plugins`", path.display());
    path
}

/// The command that starts a server for tests, such as `nats-server`: the one that set-up fetched, or the system's.
#[must_use]
pub fn server(name: &str) -> Command {
    let fetched = std::env::var_os("GYMKHANA_SERVERS").map(|folder| Path::new(&folder).join(name));
    Command::new(fetched.filter(|program| program.exists()).unwrap_or_else(|| name.into()))
}

/// Starts a server of [`server`].
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn start_server(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| {
        panic!("{:?} does not start: {error}\nhint: run `cargo xtask setup`, which fetches it", command.get_program())
    })
}

/// Runs the ignored test of this name in a process of its own, where what it measures is not changed by other tests.
///
/// # Panics
/// If the test fails or does not exist.
pub fn run_alone(test: &str) {
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("this program has no path: {error}"));
    let output = Command::new(program).args([test, "--exact", "--ignored", "--test-threads=1"]).output();
    let output = output.unwrap_or_else(|error| panic!("{test} does not start: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains(" 1 passed"), "{text}");
}

/// Number of memory mappings of this process.
///
/// # Panics
/// If the system does not list them.
#[must_use]
pub fn memory_mappings() -> usize {
    let listed = std::fs::read_to_string("/proc/self/maps");
    listed.unwrap_or_else(|error| panic!("/proc/self/maps: {error}")).lines().count()
}
