//! CPU time of one request of an agent program through the gateway, with a policy that answers at once.
//!
//! Sessions ask concurrently over kept connections, each with a history that grows. The time is that of the whole process,
//! so that it includes a small client of this bench. The comparison is the work that the built-in loop does as well:
//! rendering the prompts and decoding the replies.

mod beside;
mod engine;
mod http;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::rollouts::processor_seconds;
use anyhow::{Context, Result, ensure};
use futures::future::{BoxFuture, try_join_all};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{print_in, root};
use gymkhana_chat::{ChatFiles, ChatFormat, Extension, Message, Rendered, Role};
use gymkhana_gateway::server::Gateway;
use gymkhana_gateway::session::{
    AgentSession, AgentSessionLimits, ConversationIds, SamplingRule, ServeEnd, SessionJournal, SessionLog,
    SessionSettings,
};
use gymkhana_policy::{GenerateRequest, Sampling, ScriptedPolicy};
use gymkhana_record::{Added, Ending, EpisodeId, EpisodeRecord, Phase, Seed, TaskRef};
use gymkhana_store::LiveJournal;
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Barrier;

/// Sessions that ask concurrently.
const SESSIONS: usize = 500;
/// Requests of one session, each with two more messages.
const REQUESTS: usize = 8;
/// A message of the program, about 60 tokens.
const QUESTION: &str = "The file src/main.rs has 120 lines. The test in line 40 fails with a missing semicolon. Repair it, \
                        run the tests again, and report the result in one short sentence.";
const REPLY: &str = "I repaired line 40 and all tests pass now.";

/// Runs the bench.
pub fn run(effort: Effort) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let sessions = effort.pick(SESSIONS, 4);
    runtime.block_on(async {
        let chat = chat()?;
        let requests = (sessions * REQUESTS) as f64;
        let begun = Instant::now();
        let (through, mut waits) = timed(through_gateway(&chat, sessions, None)).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let (alone, ()) = timed(async { (0..sessions).try_for_each(|_| rendering(&chat)) }).await?;
        let each = |seconds: f64| seconds * 1e6 / requests;
        print_in("µs", "gateway-request-cpu", each(through), "rendering alone", each(alone));
        let folder = tempfile::tempdir()?;
        let journal = Arc::new(Journal(LiveJournal::create(folder.path())?));
        let (journalled, _) = timed(through_gateway(&chat, sessions, Some(journal))).await?;
        let lines = std::fs::read_to_string(folder.path().join("live-0.jsonl"))?.lines().count();
        ensure!(lines == sessions * (1 + REQUESTS), "a line for the start and each request of a session");
        print_in("µs", "gateway-request-journalled-cpu", each(journalled), "without a journal", each(through));
        waits.sort_by(f64::total_cmp);
        let share = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
        print_in("ms", "gateway-wait-p99", share(0.99), "median", share(0.5));
        print_in("1/s", "gateway-requests", requests / seconds, "concurrent sessions", sessions as f64);
        beside::run(&chat, effort).await
    })
}

/// CPU time of this process in seconds that a piece of work takes, and its result.
async fn timed<T>(work: impl Future<Output = Result<T>>) -> Result<(f64, T)> {
    let before = processor_seconds()?;
    let result = work.await?;
    Ok((processor_seconds()? - before, result))
}

fn chat() -> Result<ChatFormat> {
    let read = |name: &str| std::fs::read_to_string(root().join("tests/golden/chat").join(name));
    let (tokenizer, config) = (read("tokenizer.json")?, read("tokenizer_config.json")?);
    Ok(ChatFormat::new(&ChatFiles { tokenizer, config, template: Some(read("chat_template.jinja")?), ends: vec![] })?)
}

fn settings() -> SessionSettings {
    let time = Duration::from_secs(600);
    SessionSettings {
        sampling: SamplingRule::Fixed(Sampling::GREEDY),
        seed: Seed(1),
        limits: AgentSessionLimits {
            turns: 1000,
            context_tokens: 1 << 20,
            reply_tokens: 1000,
            reasoning_tokens: None,
            bytes: 1 << 30,
            program_time: time,
            episode_time: time,
        },
        models: vec![],
        side_models: vec![],
        retry_window: Duration::ZERO,
        stop_texts: vec![],
        stop_cache: Arc::default(),
        conversations: ConversationIds::new(Arc::new(AtomicU64::new(0)), 0),
    }
}

/// The journal of `host gateway`.
struct Journal(LiveJournal);

impl SessionJournal for Journal {
    fn began(&self, episode: &EpisodeRecord) -> BoxFuture<'static, ()> {
        // The bench counts the lines.
        let _ = self.0.began("", episode);
        Box::pin(std::future::ready(()))
    }

    fn added(&self, episode: EpisodeId, added: &Added<'_>) -> BoxFuture<'static, ()> {
        let _ = self.0.added("", episode, added);
        Box::pin(std::future::ready(()))
    }

    fn problem(&self) -> Option<String> {
        None
    }
}

/// Plays all sessions at once: none ends before all have begun. Returns the wait of each request in milliseconds.
async fn through_gateway(chat: &ChatFormat, sessions: usize, journal: Option<Arc<Journal>>) -> Result<Vec<f64>> {
    let reply = chat.encode_reply(&[gymkhana_chat::ReplyPiece::Plain(REPLY)])?;
    let policy = ScriptedPolicy::new(1 << 20, |_: &GenerateRequest| reply.clone());
    let gateway = Gateway::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let all_begun = Barrier::new(sessions);
    let (gateway, policy, all_begun, journal) = (&gateway, &policy, &all_begun, &journal);
    let played = (0..sessions).map(|number| async move {
        let mut open = gateway.open(vec![]);
        let path = open.openai_url();
        let path = path.split_once("/s/").context("a session's address")?.1;
        let path = format!("/s/{path}/chat/completions");
        let client = converse(gateway.address(), path, open.key().to_owned(), all_begun);
        let id = EpisodeId { stage: 0, phase: Phase::Served, step: 0, group: number as u32, member: 0, attempt: 0 };
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        let begun = EpisodeRecord::new(id, task, Seed(1), Ending::Dropped);
        let log = match journal {
            Some(journal) => Some(SessionLog::begin(Arc::clone(journal) as Arc<dyn SessionJournal>, &begun).await),
            None => None,
        };
        let mut session = AgentSession::new(chat, policy, settings()).logged(log);
        let served = session.serve(&mut open.requests, client).await;
        let ServeEnd::Ended(result) = served else { anyhow::bail!("a session ran out of time") };
        let waits = result?;
        let outcome = session.into_outcome()?;
        ensure!(outcome.segments.len() == 1 && outcome.policy_turns.len() == REQUESTS, "one segment of all turns");
        Ok(waits)
    });
    Ok(try_join_all(played).await?.concat())
}

/// One program: asks over one connection, with a history that grows. Returns the wait of each request in milliseconds.
async fn converse(address: SocketAddr, path: String, key: String, all_begun: &Barrier) -> Result<Vec<f64>> {
    let mut stream = TcpStream::connect(address).await?;
    let mut messages: Vec<Json> = vec![];
    let (mut buffer, mut waits) = (vec![], vec![]);
    all_begun.wait().await;
    for _ in 0..REQUESTS {
        messages.push(json!({"role": "user", "content": QUESTION}));
        let body = json!({"model": "policy", "messages": messages}).to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let sent = Instant::now();
        stream.write_all((head + &body).as_bytes()).await?;
        let answer = http::receive(&mut stream, &mut buffer).await?.context("the gateway closed the connection")?;
        ensure!(answer.body.contains(REPLY), "the reply");
        waits.push(sent.elapsed().as_secs_f64() * 1e3);
        messages.push(json!({"role": "assistant", "content": REPLY}));
    }
    Ok(waits)
}

/// What the built-in loop does for the same conversation.
fn rendering(chat: &ChatFormat) -> Result<()> {
    let mut messages = vec![];
    let (mut rendered, mut tokens) = (Rendered::default(), vec![]);
    let reply = chat.encode_reply(&[gymkhana_chat::ReplyPiece::Plain(REPLY)])?;
    for _ in 0..REQUESTS {
        messages.push(Message::of_text(Role::User, QUESTION));
        let (extension, now) = chat.extend(&rendered, &messages, &[], true)?;
        let (Extension::Append(more) | Extension::Restart(more)) = extension;
        tokens.extend(more);
        tokens.extend(&reply);
        let text = chat.decode_reply(&reply)?;
        let spoken = reply[..reply.len() - 1].to_vec();
        messages.push(Message::reply(text, spoken));
        rendered = now;
    }
    ensure!(!tokens.is_empty(), "tokens");
    Ok(())
}
