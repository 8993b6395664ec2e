//! The client against a counterpart that answers by a script.

use std::sync::Arc;
use std::time::Duration;

use gymkhana_algorithm::{Optimizer, Preset};
use gymkhana_engine::message::{
    EngineRequest, MessageTensors, Numbers, RequestHead, TrainingBatch, VERSION, read_body, write_frame,
};
use gymkhana_engine::{Column, Engine, Loss, Pass, Sequence, Stepped, Target, TokenStats};
use gymkhana_policy::{Conversation, GenerateRequest, Policy, PolicyError, Sampling, Stop, StopCondition};
use gymkhana_record::Seed;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use crate::{TorchChild, TorchDevice, TorchEngine, TorchError, TorchPolicy, TorchSettings};

fn settings(answer: Duration) -> TorchSettings {
    let start = Duration::from_secs(10);
    TorchSettings { python: "python3".to_owned(), processes: 1, device: TorchDevice::Cpu, threads: 1, start, answer }
}

const LONG: Duration = Duration::from_secs(30);

fn hello(ranks: u32) -> Value {
    let answer = json!({
        "kind": "hello", "version": VERSION, "ranks": ranks, "device": "cpu", "torch": "2", "transformers": "5",
    });
    json!({ "version": VERSION, "id": 0, "answer": answer })
}

/// What the counterpart does about a request.
enum Then {
    Answers(Value, MessageTensors),
    Refuses(&'static str),
    /// Bytes that are not a message.
    Says(Vec<u8>),
    Leaves,
    IsSilent,
}

fn done() -> Then {
    Then::Answers(json!({ "kind": "done" }), MessageTensors::new())
}

/// A child whose other end answers by a function of requests.
async fn child(
    ranks: u32,
    answer: Duration,
    mut then: impl FnMut(EngineRequest, MessageTensors) -> Then + Send + 'static,
) -> Result<Arc<TorchChild>, TorchError> {
    let (own, mut other) = UnixStream::pair().unwrap();
    tokio::spawn(async move {
        let greeting = write_frame(&hello(ranks), &MessageTensors::new()).unwrap();
        other.write_all(&greeting).await.unwrap();
        while let Ok(length) = other.read_u64_le().await {
            let mut body = vec![0; length as usize];
            other.read_exact(&mut body).await.unwrap();
            let (head, tensors) = read_body::<RequestHead>(&body).unwrap();
            let frame = match then(head.request, tensors) {
                Then::Answers(answer, tensors) => {
                    write_frame(&json!({ "version": VERSION, "id": head.id, "answer": answer }), &tensors).unwrap()
                }
                Then::Refuses(why) => {
                    let error = json!({ "kind": "invalid", "text": why });
                    write_frame(&json!({ "version": VERSION, "id": head.id, "error": error }), &MessageTensors::new())
                        .unwrap()
                }
                Then::Says(bytes) => bytes,
                Then::Leaves => return,
                Then::IsSilent => continue,
            };
            other.write_all(&frame).await.unwrap();
        }
    });
    TorchChild::connect(own, None, &settings(answer)).await.map(Arc::new)
}

fn sequence(tokens: &[u32], places: &[usize], advantage: f64, behaviour: f64) -> Sequence {
    let targets: Vec<Target> = places.iter().map(|at| Target { at: *at, turn: 0 }).collect();
    let mut stats = TokenStats::default();
    for _ in &targets {
        stats.push(&[(Column::Advantage, advantage), (Column::Behaviour, behaviour), (Column::Proximal, behaviour)]);
    }
    Sequence::new(tokens, targets, stats).unwrap()
}

fn pass(micro_batch_tokens: usize) -> Pass {
    Pass {
        temperature: 1.0,
        entropies: false,
        micro_batch_tokens,
        activation_checkpointing: false,
        share_beginnings: true,
    }
}

fn doubles(name: &str, numbers: &[f64]) -> MessageTensors {
    MessageTensors::from([(name.to_owned(), Numbers::Doubles(numbers.to_vec()))])
}

fn integers(tensors: &MessageTensors, name: &str) -> Vec<i64> {
    match &tensors[name] {
        Numbers::Integers(numbers) => numbers.clone(),
        other => panic!("{other:?}"),
    }
}

/// GRPO's clipped surrogate at ratios of 1: the derivative by a log-probability is minus the advantage times its share. Each
/// part has at most the tokens of both ranks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_go_forward_and_back_with_the_derivatives_of_the_loss() {
    let (seen, all) = std::sync::mpsc::channel();
    let script = move |request, tensors: MessageTensors| match request {
        EngineRequest::Forward { keep, .. } => {
            assert!(keep);
            let count = integers(&tensors, "targets").len();
            seen.send((integers(&tensors, "lengths"), vec![])).unwrap();
            Then::Answers(json!({ "kind": "found" }), doubles("log_probs", &vec![-1.5; count]))
        }
        EngineRequest::Backward {} => {
            seen.send((vec![], tensors["by_log_probs"].to_doubles())).unwrap();
            done()
        }
        other => panic!("{other:?}"),
    };
    let child = child(2, LONG, script).await.unwrap();
    let mut engine = TorchEngine::new(child, 0, false, Handle::current());
    let sequences = [
        sequence(&[1, 2, 3], &[1, 2], 2.0, -1.5),
        sequence(&[1, 2], &[1], -1.0, -1.5),
        sequence(&[4; 9], &[8], 0.5, -1.5),
    ];
    let flags = Preset::named("grpo").unwrap().algorithm().unwrap();
    let passed = tokio::task::spawn_blocking(move || {
        engine.accumulate(&sequences, Loss::Policy { flags: &flags, version: 0 }, pass(2)).unwrap()
    });
    let passed = passed.await.unwrap();
    let seen: Vec<_> = all.try_iter().collect();
    // Three and one inputs fit the four tokens of two ranks; eight do not fit, and are a part of their own.
    let expected = [(vec![3, 2], vec![]), (vec![], vec![-2.0, -2.0, 1.0]), (vec![9], vec![]), (vec![], vec![-0.5])];
    assert_eq!(seen, expected);
    assert_eq!(passed.log_probs, [vec![-1.5, -1.5], vec![-1.5], vec![-1.5]]);
    assert_eq!((passed.positions, passed.sums.loss), (2 + 1 + 8, -2.0 - 2.0 + 1.0 - 0.5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_that_are_not_finite_are_skipped_up_to_the_limit() {
    let script = |request, _| match request {
        EngineRequest::Step(step) => {
            assert_eq!(step.max_norm, Some(Optimizer::default().gradient_clip));
            Then::Answers(
                json!({ "kind": "stepped", "taken": step.learning_rate < 1.0, "norm": 3.0 }),
                MessageTensors::new(),
            )
        }
        other => panic!("{other:?}"),
    };
    let child = child(1, LONG, script).await.unwrap();
    let mut engine = TorchEngine::new(child, 7, false, Handle::current());
    let found = tokio::task::spawn_blocking(move || {
        let bad = Optimizer { learning_rate: 2.0, max_skipped_steps: 1, ..Optimizer::default() };
        let good = Optimizer { learning_rate: 0.5, ..bad.clone() };
        let steps = [&bad, &good, &bad, &bad].map(|optimizer| engine.step(optimizer, None));
        (steps, engine.optimizer_steps())
    });
    let (steps, count) = found.await.unwrap();
    let taken = Stepped::Taken { gradient_norm: Some(3.0) };
    assert!(
        matches!(&steps, [Ok(Stepped::Skipped), Ok(step), Ok(Stepped::Skipped), Err(TorchError::NotFinite(2))] if *step == taken)
    );
    assert_eq!(count, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_shortened_to_the_share_that_stays() {
    let (seen, all) = std::sync::mpsc::channel();
    let script = move |request, _| match request {
        EngineRequest::Step(step) => {
            assert!(step.keep);
            Then::Answers(json!({ "kind": "stepped", "taken": true, "norm": 1.0 }), MessageTensors::new())
        }
        EngineRequest::Shorten { share } => {
            seen.send(share).unwrap();
            done()
        }
        other => panic!("{other:?}"),
    };
    let mut engine = TorchEngine::new(child(1, LONG, script).await.unwrap(), 0, false, Handle::current());
    let steps = tokio::task::spawn_blocking(move || {
        [1.0, 0.25].map(|share| engine.step(&Optimizer::default(), Some(&mut |_: &TorchEngine| Ok(share))).unwrap())
    });
    assert_eq!(steps.await.unwrap(), [Stepped::Taken { gradient_norm: Some(1.0) }; 2]);
    assert_eq!(all.try_iter().collect::<Vec<_>>(), [0.25]);
}

fn request(max_tokens: usize, stop_texts: Option<Arc<dyn StopCondition>>) -> GenerateRequest {
    GenerateRequest {
        conversation: Conversation { id: 0, place: 0 },
        tokens: Arc::new([1, 2]),
        max_tokens,
        stop: Arc::new([9]),
        stop_texts,
        sampling: Sampling::at(1.0),
        seed: Seed(5),
        token_sink: None,
    }
}

/// Met by two fours in a row.
#[derive(Debug)]
struct TwoFours;

impl StopCondition for TwoFours {
    fn texts(&self) -> &[String] {
        &[]
    }

    fn is_met(&self, sampled: &[u32]) -> bool {
        sampled.ends_with(&[4, 4])
    }
}

#[tokio::test]
async fn replies_have_the_version_that_sampled_them_and_end_at_a_stop_text() {
    let script = |request, tensors: MessageTensors| match request {
        EngineRequest::Generate(generate) => {
            assert_eq!((integers(&tensors, "tokens"), generate.seed, generate.max_tokens), (vec![1, 2], 5, 6));
            let mut found = doubles("log_probs", &[-1.0, -2.0, -3.0, -4.0]);
            found.extend(doubles("entropies", &[0.5; 4]));
            found.insert("tokens".to_owned(), Numbers::Integers(vec![3, 4, 4, 9]));
            Then::Answers(json!({ "kind": "generated", "stop": "token", "version": 12 }), found)
        }
        other => panic!("{other:?}"),
    };
    let policy = TorchPolicy::new(child(1, LONG, script).await.unwrap(), 4, 10, 8);
    let whole = policy.generate(request(6, None)).await.unwrap();
    assert_eq!(
        (whole.sampled.tokens, whole.stop, whole.sampled.versions),
        (vec![3, 4, 4, 9], Stop::Token, vec![12; 4])
    );
    let cut = policy.generate(request(6, Some(Arc::new(TwoFours)))).await.unwrap();
    assert_eq!((cut.sampled.tokens, cut.sampled.log_probs), (vec![3, 4, 4], vec![-1.0, -2.0, -3.0]));
    assert_eq!((cut.stop, cut.sampled.versions, cut.sampled.entropies), (Stop::Text, vec![12; 3], vec![0.5; 3]));
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_an_error_of_its_request() {
    for (tokens, kind, said) in [
        (json!([3, 99]), "generated", "token 99, and the vocabulary has 10"),
        (json!([3, -1]), "generated", "the vocabulary has 10"),
        (json!([]), "generated", "has 0 tokens"),
        (json!([3]), "done", "has no tokens"),
    ] {
        let numbers: Vec<i64> = serde_json::from_value(tokens).unwrap();
        let script = move |_, _| {
            let mut found = doubles("log_probs", &vec![-1.0; numbers.len()]);
            found.extend(doubles("entropies", &vec![1.0; numbers.len()]));
            found.insert("tokens".to_owned(), Numbers::Integers(numbers.clone()));
            Then::Answers(json!({ "kind": kind, "stop": "length", "version": 0 }), found)
        };
        let policy = TorchPolicy::new(child(1, LONG, script).await.unwrap(), 4, 10, 8);
        let refused = policy.generate(request(6, None)).await.unwrap_err();
        assert!(matches!(&refused, PolicyError::Server(text) if text.contains(said)), "{refused}");
        assert!(policy.gave_up().is_none());
    }
    let refuses = child(1, LONG, |_, _| Then::Refuses("a token is 12")).await.unwrap();
    let refused = refuses.ask("score tokens", EngineRequest::Close {}, &TrainingBatch::default().into_tensors()).await;
    assert_eq!(refused.unwrap_err().to_string(), "PyTorch cannot score tokens: a token is 12");
}

#[tokio::test]
async fn the_end_of_the_connection_is_the_error_of_all_requests() {
    let policy = TorchPolicy::new(child(1, LONG, |_, _| Then::Leaves).await.unwrap(), 4, 10, 8);
    let (first, second) = tokio::join!(policy.generate(request(6, None)), policy.generate(request(6, None)));
    for failed in [first, second, policy.generate(request(6, None)).await] {
        let failed = failed.unwrap_err();
        assert!(matches!(&failed, PolicyError::Gone(text) if text.contains("it closed its connection")), "{failed}");
    }
    assert!(!policy.gave_up().unwrap().may_recover);
}

#[tokio::test]
async fn malformed_and_unasked_messages_end_the_connection() {
    let unasked =
        write_frame(&json!({ "version": 1, "id": 99, "answer": { "kind": "done" } }), &MessageTensors::new()).unwrap();
    let short = [&4_u64.to_le_bytes()[..], b"none"].concat();
    let endless = u64::MAX.to_le_bytes().to_vec();
    for (bytes, said) in [
        (unasked, "it answers the request 99, which was not sent"),
        (short, "a message cannot be read: it is not in the layout of safetensors"),
        (endless, "a message has 18446744073709551615 bytes"),
    ] {
        let child = child(1, LONG, move |_, _| Then::Says(bytes.clone())).await.unwrap();
        let failed =
            child.ask("begin an update", EngineRequest::BeginUpdate {}, &MessageTensors::new()).await.unwrap_err();
        assert!(failed.to_string().contains(said), "{failed}");
        assert!(child.ended().is_some());
    }
}

#[tokio::test]
async fn silence_is_named_after_the_bound() {
    let child = child(1, Duration::from_millis(100), |_, _| Then::IsSilent).await.unwrap();
    // Without a request nothing is waited for.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(child.ended().is_none());
    let silent = child.ask("begin an update", EngineRequest::BeginUpdate {}, &MessageTensors::new()).await.unwrap_err();
    assert!(silent.to_string().starts_with("PyTorch cannot go on: PyTorch did not answer for 0.1"), "{silent}");
}

#[tokio::test]
async fn another_version_is_refused_at_the_start() {
    let (own, mut other) = UnixStream::pair().unwrap();
    let mut greeting = hello(1);
    greeting["answer"]["version"] = json!(2);
    other.write_all(&write_frame(&greeting, &MessageTensors::new()).unwrap()).await.unwrap();
    let refused = TorchChild::connect(own, None, &settings(LONG)).await.unwrap_err().to_string();
    assert!(refused.contains("it speaks version 2 of the messages, and this program version 1"), "{refused}");
}

/// A Python without PyTorch ends at once, and its last words are the error.
#[tokio::test]
async fn a_python_without_the_module_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    std::fs::write(&python, "#!/bin/sh\necho \"$0: No module named gymkhana_rl.torch\" >&2; exit 1\n").unwrap();
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let absent = TorchSettings { python: "no-such-python".to_owned(), ..settings(LONG) };
    let failed = TorchChild::start(&absent).await.unwrap_err().to_string();
    assert!(failed.starts_with("`no-such-python` cannot be started"), "{failed}");
    let other = TorchSettings { python: python.display().to_string(), ..settings(LONG) };
    let failed = TorchChild::start(&other).await.unwrap_err().to_string();
    assert!(failed.contains("No module named gymkhana_rl.torch"), "{failed}");
    assert!(failed.ends_with("hint: set trainer.python to a Python with `gymkhana-rl[torch]`"), "{failed}");
    std::fs::write(&python, "#!/bin/sh\nsleep 60\n").unwrap();
    let silent = TorchSettings { start: Duration::from_millis(200), ..other };
    let failed = TorchChild::start(&silent).await.unwrap_err().to_string();
    assert!(failed.contains("PyTorch did not answer for 0.2 s"), "{failed}");
}
