//! Tests of sessions: what other gateways got wrong, one test for each lesson.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gymkhana_chat::{ChatFiles, ReplyPiece};
use gymkhana_policy::{Sampling, ScriptedPolicy};
use gymkhana_record::Seed;
use serde_json::{Value as Json, json};

use super::*;
use crate::dialect::{Dialect, Finish};
use kept::Kept;

mod kept;
mod sizes;

fn chat_files() -> ChatFiles {
    ChatFiles {
        tokenizer: include_str!("../../../../tests/golden/chat/tokenizer.json").to_owned(),
        config: include_str!("../../../../tests/golden/chat/tokenizer_config.json").to_owned(),
        template: Some(include_str!("../../../../tests/golden/chat/chat_template.jinja").to_owned()),
        ends: vec![],
    }
}

pub(crate) fn chat() -> ChatFormat {
    ChatFormat::new(&chat_files()).unwrap()
}

pub(crate) fn settings() -> SessionSettings {
    SessionSettings {
        sampling: SamplingRule::Fixed(Sampling::at(1.0)),
        seed: Seed(7),
        limits: AgentSessionLimits {
            turns: 8,
            context_tokens: 4096,
            reply_tokens: 256,
            reasoning_tokens: None,
            bytes: 1 << 20,
            program_time: Duration::from_secs(20),
            episode_time: Duration::from_secs(20),
        },
        models: vec!["policy".to_owned()],
        side_models: vec!["small".to_owned()],
        retry_window: Duration::from_secs(10),
        stop_texts: vec![],
        stop_cache: Arc::default(),
        conversations: ConversationIds::new(Arc::new(AtomicU64::new(0)), 0),
    }
}

/// A program's side of a session.
struct Client(mpsc::Sender<Incoming>);

impl Client {
    /// Sends a body; the answer can be awaited later.
    async fn send(
        &self,
        dialect: Dialect,
        body: &Json,
        key: Option<&str>,
    ) -> oneshot::Receiver<Result<ModelResponse, ApiError>> {
        let bytes = body.to_string();
        let ask = Ask::Reply(Box::new(dialect.parse(bytes.as_bytes()).unwrap()));
        let mut digest = [0; 32];
        let hash = bytes.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        digest[..8].copy_from_slice(&hash.to_le_bytes());
        let identity = RequestIdentity { digest, idempotency_key: key.map(str::to_owned) };
        let (reply, waiting) = oneshot::channel();
        assert!(self.0.send(Incoming { ask, identity, is_retry: false, reply, permit: None }).await.is_ok());
        waiting
    }

    async fn ask(&self, body: &Json) -> Result<Arc<PolicyReply>, ApiError> {
        match self.send(Dialect::ChatCompletions, body, None).await.await.unwrap()? {
            ModelResponse::Reply(reply) => Ok(reply),
            ModelResponse::Count(_) => unreachable!(),
        }
    }
}

/// What a session left, with the number of replies that the policy was asked for.
struct Left {
    outcome: SessionOutcome,
    asked: u32,
    chat: ChatFormat,
}

impl Left {
    /// Sampled texts of each segment.
    fn sampled(&self) -> Vec<Vec<String>> {
        let of = |segment: &Segment| {
            let texts = segment.replies().map(|place| self.chat.decode_reply(&segment.tokens()[place]).unwrap());
            texts.collect()
        };
        self.outcome.segments.iter().map(of).collect()
    }

    /// The texts of a segment's tokens.
    fn text(&self, segment: usize) -> String {
        self.chat.decode(self.outcome.segments[segment].tokens()).unwrap()
    }
}

/// Plays a program against a policy that gives these replies in their order.
async fn play<P: Future<Output = ()>>(
    settings: SessionSettings,
    replies: &[&str],
    program: impl FnOnce(Client) -> P,
) -> Left {
    let chat = chat();
    let tokens: Vec<Vec<u32>> =
        replies.iter().map(|text| chat.encode_reply(&[ReplyPiece::Frame(text)]).unwrap()).collect();
    play_tokens(chat, settings, tokens, program).await
}

async fn play_tokens<P: Future<Output = ()>>(
    chat: ChatFormat,
    settings: SessionSettings,
    replies: Vec<Vec<u32>>,
    program: impl FnOnce(Client) -> P,
) -> Left {
    let asked = AtomicU32::new(0);
    let policy = ScriptedPolicy::new(1 << 20, |_: &GenerateRequest| {
        replies[asked.fetch_add(1, Ordering::Relaxed) as usize].clone()
    });
    let (sender, mut incoming) = mpsc::channel(8);
    let kept = Kept::new();
    let mut session = AgentSession::new(&chat, &policy, settings).logged(Some(kept.log().await));
    let served = session.serve(&mut incoming, program(Client(sender))).await;
    assert_eq!(served, ServeEnd::Ended(()));
    let outcome = session.into_outcome().unwrap();
    kept.assert_holds(&outcome);
    let asked = asked.load(Ordering::Relaxed);
    Left { outcome, asked, chat }
}

fn body(messages: &[Json]) -> Json {
    json!({"model": "policy", "messages": messages})
}

fn user(text: &str) -> Json {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Json {
    json!({"role": "assistant", "content": text})
}

#[tokio::test]
async fn a_history_that_grows_is_one_segment_with_the_sampled_tokens() {
    let left = play(settings(), &["one", "two"], |client| async move {
        client.ask(&body(&[user("a")])).await.unwrap();
        client.ask(&body(&[user("a"), assistant("one"), user("b")])).await.unwrap();
    })
    .await;
    assert_eq!(left.sampled(), [["one", "two"]]);
    let text = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\none<|im_end|>\n<|im_start|>user\nb<|im_end|>\n\
                <|im_start|>assistant\ntwo<|im_end|>";
    assert!(left.text(0).ends_with(text), "{}", left.text(0));
    let turns: Vec<(u32, u32)> = left.outcome.policy_turns.iter().map(|turn| (turn.turn, turn.transcript)).collect();
    assert_eq!(turns, [(0, 1), (1, 3)]);
}

#[tokio::test]
async fn side_requests_are_no_turns() {
    let left = play(settings(), &["title", "x", "one"], |client| async move {
        let mut title = body(&[user("a title for: a")]);
        title["model"] = "small".into();
        client.ask(&title).await.unwrap();
        let mut probe = body(&[user("quota")]);
        probe["max_tokens"] = 1.into();
        client.ask(&probe).await.unwrap();
        let (reply, waiting) = oneshot::channel();
        let counted = Dialect::Messages.parse_count(body(&[user("a")]).to_string().as_bytes()).unwrap();
        let ask = Ask::Count(Box::new(counted));
        let identity = RequestIdentity { digest: [9; 32], idempotency_key: None };
        client.0.send(Incoming { ask, identity, is_retry: false, reply, permit: None }).await.ok().unwrap();
        let Ok(ModelResponse::Count(counted)) = waiting.await.unwrap() else { panic!("a number") };
        let reply = client.ask(&body(&[user("a")])).await.unwrap();
        assert_eq!(counted, reply.usage.prompt);
    })
    .await;
    assert_eq!(left.sampled(), [["one"]]);
    assert_eq!(left.outcome.policy_turns.len(), 1);
    assert_eq!(left.outcome.counts, RequestCounts { repeats: 0, side: 3, refused: 0 });
}

#[tokio::test]
async fn calls_are_compared_by_meaning() {
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": [2, \"x\"]}}\n</tool_call>";
    let left = play(settings(), &[call, "done"], |client| async move {
        let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
        let mut first = body(&[user("a")]);
        first["tools"] = tools.clone();
        let reply = client.ask(&first).await.unwrap();
        assert_eq!((reply.text.as_str(), &reply.finish), ("", &Finish::Calls));
        // Other key order, other spacing, `content` null, an id of the program.
        let function = json!({"name": "f", "arguments": "{\"a\":[2,\"x\"],\"b\":1}"});
        let called = json!({"role": "assistant", "content": null,
            "tool_calls": [{"id": "mine", "type": "function", "function": function}]});
        let answer = json!({"role": "tool", "tool_call_id": "mine", "content": [{"type": "text", "text": "3"}]});
        let mut second = body(&[user("a"), called, answer]);
        second["tools"] = tools;
        client.ask(&second).await.unwrap();
    })
    .await;
    assert_eq!(left.sampled(), [[call, "done"]]);
    let kinds: Vec<&Turn> = left.outcome.transcript.iter().collect();
    assert!(
        matches!(kinds[..], [Turn::Observation { .. }, Turn::Call { .. }, Turn::Answer { .. }, Turn::Message { .. }]),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn sub_agents_and_edited_histories_are_branches_and_roots() {
    let left = play(settings(), &["one", "two", "other two", "sub", "after"], |client| async move {
        client.ask(&body(&[user("a")])).await.unwrap();
        let history = [user("a"), assistant("one"), user("b")];
        client.ask(&body(&history)).await.unwrap();
        // A branch: the same reply is continued by another message.
        client.ask(&body(&[user("a"), assistant("one"), user("c")])).await.unwrap();
        // A sub-agent with a prompt of its own.
        client.ask(&body(&[json!({"role": "system", "content": "You search."}), user("find")])).await.unwrap();
        // Compaction: the task and a summary stand for everything before; a kept reply keeps its tokens.
        client.ask(&body(&[user("a, shorter"), assistant("two"), user("go on")])).await.unwrap();
    })
    .await;
    assert_eq!(left.asked, 5);
    assert_eq!(left.sampled(), [vec!["one", "two"], vec!["other two"], vec!["sub"], vec!["after"]]);
    // The branch holds its common beginning as given tokens.
    assert!(left.text(1).contains("assistant\none<|im_end|>"), "{}", left.text(1));
    let sampled: usize = left.outcome.segments.iter().map(Segment::sampled_len).sum();
    // Each reply's tokens and its stop token, once.
    let each = |text: &str| left.chat.encode_reply(&[ReplyPiece::Frame(text)]).unwrap().len();
    assert_eq!(sampled, ["one", "two", "other two", "sub", "after"].into_iter().map(each).sum::<usize>());
}

#[tokio::test]
async fn repeats_get_the_same_answer_and_sample_nothing() {
    let left = play(settings(), &["one", "another"], |client| async move {
        let same = body(&[user("a")]);
        let (first, second) = (
            client.send(Dialect::ChatCompletions, &same, None).await,
            client.send(Dialect::ChatCompletions, &same, None).await,
        );
        let (Ok(ModelResponse::Reply(first)), Ok(ModelResponse::Reply(second))) =
            (first.await.unwrap(), second.await.unwrap())
        else {
            panic!("two replies")
        };
        assert_eq!(first, second);
        assert_eq!(client.ask(&same).await.unwrap(), first);
        // A client that names its requests says itself what a repeat is.
        let named = |key: &'static str| client.send(Dialect::ChatCompletions, &same, Some(key));
        assert!(matches!(named("k1").await.await.unwrap(), Ok(ModelResponse::Reply(reply)) if reply == first));
    })
    .await;
    assert_eq!(left.asked, 1);
    assert_eq!(left.sampled(), [["one"]]);
    assert_eq!(left.outcome.counts.repeats, 3);
}

#[tokio::test]
async fn requests_with_other_names_and_late_repeats_are_siblings() {
    let now = SessionSettings { retry_window: Duration::ZERO, ..settings() };
    let left = play(now, &["one", "two", "three"], |client| async move {
        let same = body(&[user("a")]);
        for key in ["k1", "k2"] {
            client.send(Dialect::ChatCompletions, &same, Some(key)).await.await.unwrap().unwrap();
        }
        client.ask(&same).await.unwrap();
    })
    .await;
    assert_eq!(left.sampled(), [["one"], ["two"], ["three"]]);
}

#[tokio::test]
async fn a_reply_that_nobody_received_is_not_trained_on() {
    let left = play(settings(), &["lost", "one"], |client| async move {
        drop(client.send(Dialect::ChatCompletions, &body(&[user("a")]), None).await);
        client.ask(&body(&[user("b")])).await.unwrap();
    })
    .await;
    assert_eq!(left.sampled(), [["one"]]);
    assert_eq!(left.outcome.policy_turns.len(), 2);
    assert_eq!(left.outcome.last_text.as_deref(), Some("one"));
}

#[tokio::test]
async fn a_spent_budget_is_an_error_without_tokens() {
    let mut one = settings();
    one.limits.turns = 1;
    let left = play(one, &["one"], |client| async move {
        client.ask(&body(&[user("a")])).await.unwrap();
        let error = client.ask(&body(&[user("b")])).await.unwrap_err();
        assert_eq!((error.class, error.status()), (ErrorClass::BudgetSpent, 403));
    })
    .await;
    assert_eq!(left.sampled(), [["one"]]);
    assert_eq!((left.outcome.spent, left.outcome.counts.refused), (Some(SpentLimit::Turns), 1));
}

#[tokio::test]
async fn dropped_reasoning_keeps_the_tokens() {
    let reasoned = "<think>\nlong\n</think>\n\none";
    let left = play(settings(), &[reasoned, "two"], |client| async move {
        let reply = client.ask(&body(&[user("a")])).await.unwrap();
        assert_eq!((reply.reasoning.as_deref(), reply.text.as_str()), (Some("long"), "one"));
        client.ask(&body(&[user("a"), assistant("one"), user("b")])).await.unwrap();
    })
    .await;
    assert_eq!(left.sampled(), [[reasoned, "two"]]);
}

/// The chat format of a template that writes earlier thoughts.
fn thinking_chat() -> ChatFormat {
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n\
                    {{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}\
                    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let files = ChatFiles { template: Some(template.to_owned()), ..chat_files() };
    ChatFormat::new(&files).unwrap()
}

#[tokio::test]
async fn reasoning_that_the_policy_did_not_sample_is_rendered() {
    let chat = thinking_chat();
    let ended = chat.encode_reply(&[ReplyPiece::Frame("two")]).unwrap();
    let left = play_tokens(chat, settings(), vec![ended], |client| async move {
        let told = json!({"role": "assistant", "content": "one", "reasoning_content": "because"});
        client.ask(&body(&[user("a"), told, user("b")])).await.unwrap();
    })
    .await;
    let expected = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\nbecause\n</think>\n\none<|im_end|>\n\
                    <|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\ntwo<|im_end|>";
    assert_eq!(left.text(0), expected);
}

#[tokio::test]
async fn malformed_calls_and_unknown_tokens_are_data() {
    let chat = chat();
    let cut = chat.encode_raw("text <tool_call>\n{\"name\": \"f\", \"argu").unwrap();
    let replies = vec![cut.clone(), vec![4_000_000, chat.stop()[0]]];
    let left = play_tokens(chat, settings(), replies, |client| async move {
        let mut asked = body(&[user("a")]);
        asked["tools"] = json!([{"type": "function", "function": {"name": "f"}}]);
        let reply = client.ask(&asked).await.unwrap();
        assert_eq!(reply.finish, Finish::Length);
        assert!(reply.calls.is_empty() && reply.text.starts_with("text") && reply.text.contains("\"argu"), "{reply:?}");
        let reply = client.ask(&body(&[user("b")])).await.unwrap();
        assert_eq!((reply.text.as_str(), &reply.finish), ("", &Finish::Stop));
    })
    .await;
    assert_eq!(left.outcome.segments[0].sampled_len(), cut.len());
    assert!(left.outcome.segments[1].tokens().contains(&4_000_000));
}

#[tokio::test]
async fn an_earlier_response_can_be_named() {
    let left = play(settings(), &["one", "two"], |client| async move {
        let first = json!({"model": "policy", "instructions": "Be brief.", "input": "a"});
        let reply = client.send(Dialect::Responses, &first, None).await.await.unwrap();
        let Ok(ModelResponse::Reply(reply)) = reply else { panic!("a reply") };
        let next = json!({"model": "policy", "instructions": "Be brief.", "input": "b",
            "previous_response_id": format!("resp_{}", reply.id)});
        client.send(Dialect::Responses, &next, None).await.await.unwrap().unwrap();
        let unknown = json!({"model": "policy", "input": "b", "previous_response_id": "resp_none"});
        let error = client.send(Dialect::Responses, &unknown, None).await.await.unwrap().unwrap_err();
        assert_eq!(error.class, ErrorClass::NotFound);
    })
    .await;
    assert_eq!(left.sampled(), [["one", "two"]]);
}

#[tokio::test]
async fn wrong_requests_are_refused_by_name() {
    let mut small = settings();
    small.limits.context_tokens = 40;
    let left = play(small, &[], |client| async move {
        for (wrong, class, word) in [
            (json!({"model": "gpt-9", "messages": [user("a")]}), ErrorClass::NotFound, "`gpt-9`"),
            (body(&[user("a"), assistant("b")]), ErrorClass::Invalid, "last message"),
            (body(&[user(&"word ".repeat(100))]), ErrorClass::ContextFull, "too long"),
        ] {
            let error = client.ask(&wrong).await.unwrap_err();
            assert_eq!(error.class, class, "{error}");
            assert!(error.message.contains(word), "{error}");
        }
    })
    .await;
    assert!(left.outcome.segments.is_empty());
    assert_eq!(left.outcome.spent, Some(SpentLimit::Context));
}

/// A policy whose replies are futures.
struct Each<F>(F);

impl<F, R> Policy for Each<F>
where
    F: Fn(GenerateRequest) -> R + Send + Sync,
    R: Future<Output = Result<Generated, PolicyError>> + Send + 'static,
{
    fn generate(&self, request: GenerateRequest) -> gymkhana_policy::PolicyFuture<'_, Generated> {
        Box::pin((self.0)(request))
    }

    fn score(&self, _: gymkhana_policy::ScoreRequest) -> gymkhana_policy::PolicyFuture<'_, gymkhana_record::Sampled> {
        Box::pin(async { Err(PolicyError::CannotScore) })
    }

    fn can_score(&self) -> bool {
        false
    }

    fn release(&self, _: Conversation) {}

    fn context(&self) -> usize {
        4096
    }
}

/// The end of a reply.
fn stopped(request: &GenerateRequest) -> Generated {
    Generated { sampled: gymkhana_policy::certain(request.stop.to_vec()), stop: gymkhana_policy::Stop::Token }
}

#[tokio::test]
async fn a_program_that_waits_for_nothing_is_stopped_and_waits_for_the_policy_are_not_its_time() {
    let asked = AtomicU32::new(0);
    let policy = Each(|request: GenerateRequest| {
        asked.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(stopped(&request))
        }
    });
    let chat = chat();
    let mut impatient = settings();
    impatient.limits.program_time = Duration::from_millis(200);
    let (sender, mut incoming) = mpsc::channel(8);
    let client = Client(sender);
    let mut session = AgentSession::new(&chat, &policy, impatient);
    let program = async {
        client.ask(&body(&[user("a")])).await.unwrap();
        std::future::pending::<()>().await;
    };
    let begun = Instant::now();
    assert_eq!(session.serve(&mut incoming, program).await, ServeEnd::ProgramTime);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(490) && took < Duration::from_secs(5), "{took:?}");
    let outcome = session.into_outcome().unwrap();
    assert!(outcome.policy_time >= Duration::from_millis(290), "{:?}", outcome.policy_time);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// A failure of the policy is the program's to repeat, and its reason is the host's to read.
#[tokio::test]
async fn a_failed_call_of_the_policy_can_be_repeated_and_tells_the_program_nothing() {
    let asked = AtomicU32::new(0);
    let policy = Each(|request: GenerateRequest| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let failed = || PolicyError::Gone("http://10.0.0.7:8000 said: secret".to_owned());
        std::future::ready(if number == 1 { Ok(stopped(&request)) } else { Err(failed()) })
    });
    let chat = chat();
    let outcome = async |requests: u32| {
        asked.store(0, Ordering::Relaxed);
        let (sender, mut incoming) = mpsc::channel(8);
        let client = Client(sender);
        let mut session = AgentSession::new(&chat, &policy, settings());
        let program = async {
            let failed = client.ask(&body(&[user("a")])).await.unwrap_err();
            assert!(failed.message.starts_with("the policy failed\nhint: repeat"), "{}", failed.message);
            for _ in 1..requests {
                client.ask(&body(&[user("a")])).await.unwrap();
            }
        };
        assert_eq!(session.serve(&mut incoming, program).await, ServeEnd::Ended(()));
        session.into_outcome().unwrap()
    };
    let given_up = outcome(1).await;
    assert!(given_up.fault.unwrap().contains("said: secret"), "the record has the reason");
    let repeated = outcome(2).await;
    assert_eq!((repeated.fault, repeated.policy_turns.len()), (None, 1));
}
