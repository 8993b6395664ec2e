//! A real NATS server with JetStream on loopback, and a relay in front of it whose network can be cut.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LOOPBACK: &str = "127.0.0.1";

/// Time that the server has to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that keeps its port and its disk when it is started again.
pub struct Bus {
    port: u16,
    /// Address on which it listens.
    host: &'static str,
    disk: Disk,
    limits: Limits,
    server: Child,
}

/// A folder, which may be a file system of its own.
struct Disk {
    folder: tempfile::TempDir,
    is_mounted: bool,
}

impl Disk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), is_mounted: false }
    }

    /// A file system of this size; `None` if none can be mounted, as without root.
    fn of_mebibytes(mebibytes: u32) -> Option<Self> {
        let mut disk = Self::new();
        let size = format!("size={mebibytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(disk.folder.path());
        disk.is_mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        disk.is_mounted.then_some(disk)
    }

    fn filler(&self) -> std::path::PathBuf {
        self.folder.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
        }
    }
}

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most bytes of a message.
    pub payload: u64,
    /// Most bytes of all streams.
    pub files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload: 1 << 20, files: 1 << 30 }
    }
}

impl Bus {
    pub fn start() -> Self {
        Self::with_limits(Limits::default())
    }

    pub fn with_limits(limits: Limits) -> Self {
        Self::on(Disk::new(), limits, LOOPBACK)
    }

    /// A server that other network namespaces reach.
    pub fn on_all_addresses() -> Self {
        Self::on(Disk::new(), Limits::default(), "0.0.0.0")
    }

    /// A server whose disk has this size; `None` if no file system can be mounted.
    pub fn on_small_disk(mebibytes: u32) -> Option<Self> {
        Some(Self::on(Disk::of_mebibytes(mebibytes)?, Limits::default(), LOOPBACK))
    }

    fn on(disk: Disk, limits: Limits, host: &'static str) -> Self {
        let port = free_port();
        let server = serve((host, port), &disk, limits);
        Self { port, host, disk, limits, server }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Fills the disk.
    pub fn fill(&self) {
        let mut filler = std::fs::File::create(self.disk.filler()).expect("a file");
        for size in [1 << 16, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Frees the disk.
    pub fn free(&self) {
        std::fs::remove_file(self.disk.filler()).expect("a file that can be removed");
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Sends the server a signal by its name, such as `STOP`.
    pub fn send(&self, signal: &str) {
        let script = format!("kill -s {signal} {}", self.server.id());
        let sent = Command::new("sh").args(["-c", &script]).status().expect("a shell");
        assert!(sent.success(), "{signal} cannot be sent");
    }

    /// Kills the server and starts it again, with its disk or with an empty one.
    pub fn kill_and_restart(&mut self, with_disk: bool) {
        self.server.kill().expect("the server can be killed");
        self.server.wait().expect("the server can be waited for");
        if !with_disk {
            self.disk = Disk::new();
        }
        self.server = serve((self.host, self.port), &self.disk, self.limits);
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("it has one").port()
}

fn serve((host, port): (&str, u16), disk: &Disk, limits: Limits) -> Child {
    let folder = disk.folder.path();
    let (settings, Limits { payload, files }) = (folder.join("nats.conf"), limits);
    let text = format!(
        "listen: \"{host}:{port}\"\nmax_payload: {payload}\njetstream {{ store_dir: \"{}\", max_file_store: {files} }}\n",
        folder.display()
    );
    std::fs::write(&settings, text).expect("settings can be written");
    let mut command = gymkhana_tests::server("nats-server");
    command.arg("-c").arg(&settings);
    let server = gymkhana_tests::start_server(command);
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(since.elapsed() < PATIENCE, "`nats-server` does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// A relay to a bus. While it is cut, connections stay open and carry nothing.
pub struct Relay {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Relay {
    pub fn to(bus: &Bus) -> Self {
        let entrance = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (port, behind) = (entrance.local_addr().expect("it has one").port(), bus.port);
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            for client in entrance.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", behind)) else { continue };
                let twice = |stream: &TcpStream| stream.try_clone().expect("a handle of a socket");
                forward(twice(&client), twice(&server), Arc::clone(&cut));
                forward(server, client, Arc::clone(&cut));
            }
        });
        Self { port, is_cut }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Cuts the network, or mends it.
    pub fn set_cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }
}

/// Forwards bytes of one direction in a thread of its own, until either side closes.
fn forward(mut from: TcpStream, mut to: TcpStream, is_cut: Arc<AtomicBool>) {
    from.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
    std::thread::spawn(move || {
        let mut bytes = [0; 64 << 10];
        loop {
            let read = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => break,
            };
            while is_cut.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
