//! A network namespace with a virtual link to this machine. While the link is down, packets are lost without an answer.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

/// Number of the next namespace of this process, in its name and its address.
static NEXT: AtomicU8 = AtomicU8::new(1);

/// A namespace; it is deleted at the end.
pub struct Namespace {
    name: String,
    link: String,
    subnet: String,
}

impl Namespace {
    /// `None` if none can be made, as without root.
    pub fn new() -> Option<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let name = format!("gymkhana-{process}-{number}");
        if !ip(&["netns", "add", &name]) {
            return None;
        }
        // Names of devices have at most 15 letters.
        let link = format!("gk{}-{number}", process % 1_000_000);
        let made = Self { name, link, subnet: format!("10.{}.{}", 200 + process % 50, number) };
        let (inside, outside) = (format!("{}.2/24", made.subnet), format!("{}.1/24", made.subnet));
        let steps: [&[&str]; 6] = [
            &["link", "add", &made.link, "type", "veth", "peer", "name", "eth0", "netns", &made.name],
            &["addr", "add", &outside, "dev", &made.link],
            &["link", "set", &made.link, "up"],
            &["-n", &made.name, "addr", "add", &inside, "dev", "eth0"],
            &["-n", &made.name, "link", "set", "eth0", "up"],
            &["-n", &made.name, "link", "set", "lo", "up"],
        ];
        let is_made = steps.into_iter().all(ip);
        is_made.then_some(made)
    }

    /// Address of this machine as the namespace sees it.
    pub fn outside(&self) -> String {
        format!("{}.1", self.subnet)
    }

    /// The command as it runs inside.
    pub fn inside(&self, command: &Command) -> Command {
        let mut wrapped = Command::new("ip");
        wrapped.args(["netns", "exec", &self.name]).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => wrapped.env(key, value),
                None => wrapped.env_remove(key),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            wrapped.current_dir(folder);
        }
        wrapped.stdin(Stdio::null());
        wrapped
    }

    /// Sets the link up or down.
    pub fn set_up(&self, is_up: bool) {
        assert!(ip(&["link", "set", &self.link, if is_up { "up" } else { "down" }]), "{} cannot be set", self.link);
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The link is deleted with the namespace once its last process has ended.
        ip(&["link", "del", &self.link]);
        ip(&["netns", "del", &self.name]);
    }
}

/// Runs `ip`; whether it succeeds.
fn ip(arguments: &[impl AsRef<OsStr>]) -> bool {
    let mut command = Command::new("ip");
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
