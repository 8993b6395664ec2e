//! Delay of a good episode's calls, of the host's timers and of its sockets beside four hostile episodes on two threads.
//!
//! Guests run on threads of their own. The comparison runs them on the runtime that also serves timers and sockets.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{call, load, microseconds, print_in};
use gymkhana_record::Seed;
use gymkhana_sandbox::{GuestThreads, Limits, Plugin, Sandbox, SandboxConfig, ToolSession, run_on};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

const THREADS: usize = 2;
const HOSTILE: u64 = 4;
/// Loads, by the function that each hostile session calls; the first has no hostile session.
const LOADS: [(&str, Option<&str>); 4] =
    [("alone", None), ("loops", Some("loop")), ("fills", Some("fill")), ("host-calls", Some("host-calls"))];
const DURATION: Duration = Duration::from_secs(10);
/// Duration of a smoke run.
const SHORT: Duration = Duration::from_millis(100);
/// Time that a good episode waits for its policy between two calls.
const POLICY: Duration = Duration::from_micros(500);
const TIMER: Duration = Duration::from_millis(5);
/// Time between two messages to the echo server.
const PAUSE: Duration = Duration::from_millis(2);
/// Longer than the bench, so that hostile calls end when they are cancelled.
const BUDGET: Duration = Duration::from_secs(3600);

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let limits = Limits { budget: BUDGET, episode_budget: BUDGET, wall: BUDGET, ..Limits::default() };
    let sandbox = Sandbox::new(&SandboxConfig { limits, max_instances: Some(16), ..SandboxConfig::default() })?;
    let plugin = load(&sandbox, "guest-hostile-tool")?;
    let duration = effort.pick(DURATION, SHORT);
    for (load, function) in LOADS {
        let host = host_runtime()?;
        let guests = GuestThreads::start_with(THREADS)?;
        let apart = measure(&host, guests.handle(), &plugin, function, duration)?;
        let shared_runtime = host_runtime()?;
        let together = measure(&shared_runtime, shared_runtime.handle(), &plugin, function, duration)?;
        for (what, apart, together) in [
            ("call", apart.call, together.call),
            ("timer", apart.timer, together.timer),
            ("socket", apart.socket, together.socket),
        ] {
            print_in("µs", &format!("{what}-p99-{load}"), apart, "guests on the host's threads", together);
        }
        print_in("calls/s", &format!("calls-{load}"), apart.rate, "guests on the host's threads", together.rate);
        host.shutdown_background();
        shared_runtime.shutdown_background();
    }
    Ok(())
}

/// A runtime like the host's.
fn host_runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?)
}

/// 99th percentiles in microseconds, and the number of calls per second.
struct Delays {
    rate: f64,
    call: f64,
    timer: f64,
    socket: f64,
}

/// Delays beside one load.
fn measure(
    host: &Runtime,
    guests: &Handle,
    plugin: &Plugin,
    function: Option<&'static str>,
    duration: Duration,
) -> Result<Delays> {
    host.block_on(async {
        let mut hostile = JoinSet::new();
        for seed in 0..HOSTILE {
            let (Some(function), plugin) = (function, plugin.clone()) else { break };
            hostile.spawn_on(
                async move {
                    let mut session = ToolSession::open(&plugin, None, &[], Seed(seed)).await?;
                    anyhow::Ok(session.call(&call(function)).await?)
                },
                guests,
            );
        }
        let until = Instant::now() + duration;
        let calls = tokio::spawn(run_on_owned(guests.clone(), calls(plugin.clone(), Handle::current(), until)));
        let (timers, echoes) = (tokio::spawn(timers(until)), tokio::spawn(echoes(until)));
        let calls = calls.await??;
        let rate = calls.len() as f64 / duration.as_secs_f64();
        Ok(Delays { rate, call: p99(calls)?, timer: p99(timers.await?)?, socket: p99(echoes.await??)? })
    })
}

async fn run_on_owned<T: Send + 'static>(runtime: Handle, task: impl Future<Output = T> + Send + 'static) -> T {
    run_on(&runtime, task).await
}

/// At least one time from the policy's answer to the end of the call that follows, of one episode.
async fn calls(plugin: Plugin, host: Handle, until: Instant) -> Result<Vec<f64>> {
    let mut session = ToolSession::open(&plugin, None, &[], Seed(HOSTILE)).await?;
    let mut delays = Vec::new();
    loop {
        let answered = run_on(&host, async {
            tokio::time::sleep(POLICY).await;
            Instant::now()
        });
        let answered = answered.await;
        session.call(&call("state")).await?;
        delays.push(microseconds(answered));
        if Instant::now() >= until {
            return Ok(delays);
        }
    }
}

/// Lateness of a timer, at least once.
async fn timers(until: Instant) -> Vec<f64> {
    let mut delays = Vec::new();
    loop {
        let since = Instant::now();
        tokio::time::sleep(TIMER).await;
        delays.push(microseconds(since + TIMER));
        if Instant::now() >= until {
            return delays;
        }
    }
}

/// Round trips to an echo server on the loopback interface, at least one.
async fn echoes(until: Instant) -> Result<Vec<f64>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut server = JoinSet::new();
    server.spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let (mut reader, mut writer) = stream.split();
        tokio::io::copy(&mut reader, &mut writer).await
    });
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut delays = Vec::new();
    let mut message = [7; 64];
    loop {
        let since = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut message).await?;
        delays.push(microseconds(since));
        if Instant::now() >= until {
            return Ok(delays);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn p99(mut delays: Vec<f64>) -> Result<f64> {
    delays.sort_by(f64::total_cmp);
    delays.get(delays.len() * 99 / 100).copied().context("nothing was measured")
}
