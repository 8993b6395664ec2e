//! A vLLM server as a child process, with tiny models that it can serve.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gymkhana_net::{Repeated, RequestPolicy, Retry};
use gymkhana_policy::Policy;
use gymkhana_policy_server::{Protocol, ServerPolicy, ServerSettings};
use gymkhana_record::Seed;
use gymkhana_trainer::{TinyModel, Trainer, TrainerSettings};
use serde_json::Value;

use crate::peer::{MODEL, chat};

/// Time that the server has to start; it took 90 to 156 seconds on two cores.
const START: Duration = Duration::from_secs(600);
/// Context of the served model, in tokens.
const CONTEXT: u32 = 512;

/// A tiny model with random weights of this seed and tied embeddings. vLLM's attention on the CPU wants heads of 64.
pub fn tied(seed: u64) -> Trainer {
    let tiny = TinyModel { layers: 2, width: 128, heads: 2, kv_heads: 1, mlp: 256, context: CONTEXT };
    Trainer::create(&tiny, &settings(seed)).expect("a model")
}

/// Settings of a trainer with this seed.
pub fn settings(seed: u64) -> TrainerSettings {
    TrainerSettings {
        seed: Seed(seed),
        max_concurrent_sequences: 4,
        context: Some(CONTEXT as usize),
        ..TrainerSettings::default()
    }
}

/// A running server; it is killed at the end.
pub struct Vllm {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Vllm {
    /// Starts a server of the model in a folder and waits until it answers.
    pub fn start(model: &Path, log: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        Self::start_on(port, model, log)
    }

    /// As `start`, on the port of a server that was killed.
    pub fn start_on(port: u16, model: &Path, log: &Path) -> Self {
        let python = std::env::var_os("GYMKHANA_VLLM_PYTHON").expect("GYMKHANA_VLLM_PYTHON names a Python with vLLM");
        let output = File::create(log).expect("a log");
        let mut command = Command::new(python);
        command
            .args(["-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--dtype", "float32"])
            .args(["--enforce-eager", "--max-num-seqs", "16", "--served-model-name", MODEL])
            .args(["--max-model-len", &CONTEXT.to_string(), "--port", &port.to_string()])
            .arg("--model")
            .arg(model)
            .env("VLLM_SERVER_DEV_MODE", "1")
            .env("VLLM_CPU_OMP_THREADS_BIND", "nobind")
            .env("VLLM_CPU_KVCACHE_SPACE", "1")
            .env("OMP_NUM_THREADS", "1")
            .env("PYTHONUNBUFFERED", "1")
            .env("VLLM_NO_USAGE_STATS", "1")
            .env("HF_HUB_OFFLINE", "1")
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            // The server starts processes of its own, which end with its group.
            .process_group(0);
        let mut server = Self { child: command.spawn().expect("Python starts"), port, log: log.to_owned() };
        let since = Instant::now();
        while !server.is_healthy() {
            let ended = server.child.try_wait().expect("the process can be asked");
            assert!(ended.is_none() && since.elapsed() < START, "vLLM does not start: {}", server.log_text());
            std::thread::sleep(Duration::from_millis(500));
        }
        server
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of requests with this path that the server has logged.
    pub fn requests(&self, path: &str) -> usize {
        self.log_text().matches(&format!("POST {path}")).count()
    }

    /// Answer to a request with this body.
    pub async fn ask(&self, path: &str, body: String) -> Value {
        let url = format!("{}{path}", self.url());
        // Fails if a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let request = client.post(&url).header("content-type", "application/json").body(body);
        let answer = request.send().await.expect("an answer");
        let (status, text) = (answer.status(), answer.text().await.expect("a text"));
        assert!(status.is_success(), "{url}: {status}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Connects as a run does.
    pub async fn connect(&self, local: &Trainer) -> ServerPolicy {
        let policy = RequestPolicy {
            timeout: Duration::from_secs(120),
            retry: Retry { retries: 0, first_delay: Duration::from_millis(1), max_delay: Duration::from_millis(5) },
            repeated: Repeated::Passing,
        };
        let settings = ServerSettings {
            url: self.url().parse().expect("a URL"),
            protocol: Protocol::Vllm,
            model: MODEL.to_owned(),
            key: None,
            policy,
            update: policy,
            requests: 4,
            vocabulary: usize::try_from(local.config().vocab_size).expect("a size"),
            context: local.context(),
            max_divergence: 0.1,
        };
        ServerPolicy::connect(settings, chat(local), Box::new(|_| {})).await.expect("it serves")
    }

    /// Kills the server with all its processes.
    pub fn kill(&mut self) {
        let script = format!("kill -s KILL -- -{}", self.child.id());
        let _ = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().expect("a shell");
        self.child.wait().expect("it has ended");
    }

    fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_else(|error| panic!("{}: {error}", self.log.display()))
    }

    fn is_healthy(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let asked = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
    }
}

impl Drop for Vllm {
    fn drop(&mut self) {
        self.kill();
    }
}
