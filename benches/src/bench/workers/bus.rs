//! A real NATS server with JetStream on loopback, and its counters of messages and bytes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Sub;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::process::processor_seconds;

/// Time that the server has to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with a disk of its own.
pub struct Bus {
    port: u16,
    monitor: u16,
    server: Child,
    _disk: tempfile::TempDir,
}

/// Messages and bytes that the server received and sent, requests that its JetStream answered, and its processor time in
/// seconds.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    pub messages: f64,
    pub bytes: f64,
    pub requests: f64,
    pub cpu: f64,
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            bytes: self.bytes - before.bytes,
            requests: self.requests - before.requests,
            cpu: self.cpu - before.cpu,
        }
    }
}

impl Bus {
    pub fn start() -> Result<Self> {
        let disk = tempfile::tempdir()?;
        let (port, monitor) = (free_port()?, free_port()?);
        let mut command = gymkhana_tests::server("nats-server");
        command.args(["--jetstream", "--addr", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--http_port", &monitor.to_string(), "--store_dir"]).arg(disk.path());
        let server = gymkhana_tests::start_server(command);
        let bus = Self { port, monitor, server, _disk: disk };
        let since = Instant::now();
        while [port, monitor].iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()) {
            ensure!(since.elapsed() < PATIENCE, "`nats-server` does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(bus)
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Counters since the start.
    pub fn traffic(&self) -> Result<Traffic> {
        let counters = self.get("/varz")?;
        let sum =
            |names: [&str; 2]| -> Option<f64> { Some(counters[names[0]].as_f64()? + counters[names[1]].as_f64()?) };
        Ok(Traffic {
            messages: sum(["in_msgs", "out_msgs"]).context("`/varz` has no number of messages")?,
            bytes: sum(["in_bytes", "out_bytes"]).context("`/varz` has no number of bytes")?,
            requests: self.get("/jsz")?["api"]["total"].as_f64().context("`/jsz` has no number of requests")?,
            cpu: processor_seconds(self.server.id())?,
        })
    }

    /// An answer of the monitoring endpoint.
    fn get(&self, path: &str) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.monitor))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("the monitoring endpoint sent no body")?;
        Ok(serde_json::from_str(body)?)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
