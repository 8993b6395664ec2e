//! A real NATS server with JetStream on loopback.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that the server has to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that keeps its port and its disk when it is started again.
pub struct Bus {
    port: u16,
    disk: tempfile::TempDir,
    server: Child,
}

impl Bus {
    pub fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("it has one").port();
        drop(free);
        let disk = tempfile::tempdir().expect("a temporary folder");
        let server = serve(port, &disk);
        Self { port, disk, server }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills the server and starts it again, with its disk or with an empty one.
    pub fn kill_and_restart(&mut self, with_disk: bool) {
        self.server.kill().expect("the server can be killed");
        self.server.wait().expect("the server can be waited for");
        if !with_disk {
            self.disk = tempfile::tempdir().expect("a temporary folder");
        }
        self.server = serve(self.port, &self.disk);
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn serve(port: u16, disk: &tempfile::TempDir) -> Child {
    // Debian installs it where only root's PATH looks.
    let started = ["nats-server", "/usr/sbin/nats-server"].into_iter().find_map(|program| {
        let mut command = Command::new(program);
        command.args(["--jetstream", "--addr", "127.0.0.1", "--port", &port.to_string(), "--store_dir"]);
        command.arg(disk.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
    });
    let server = started
        .unwrap_or_else(|| panic!("`nats-server` cannot be started; install it with `apt-get install nats-server`"));
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(since.elapsed() < PATIENCE, "`nats-server` does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}
