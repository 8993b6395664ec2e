//! The client against a server on loopback that speaks the protocol, and against messages of the official client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use gymkhana_algorithm::{Algorithm, Optimizer, Ratio, Surrogate};
use gymkhana_engine::{Column, Engine as _, Loss, Pass, Sequence, Target, TokenStats};
use gymkhana_net::{Repeated, RequestPolicy, Retry};
use gymkhana_policy::{Conversation, GenerateRequest, Policy, Sampling, ScoreRequest, Stop};
use gymkhana_record::Seed;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use url::Url;

use crate::{
    Counters, Datum, LoraSettings, Reduction, ServerLoss, TinkerClient, TinkerEngine, TinkerError, TinkerModel,
    TinkerPolicy, TinkerSettings, TrainedToken, chosen, wire,
};

/// What the server was asked for, and the results that wait to be fetched.
#[derive(Default)]
struct Server {
    calls: Mutex<Vec<(String, Value)>>,
    passes: Mutex<Vec<wire::ForwardBackwardRequest>>,
    results: Mutex<HashMap<String, Fetched>>,
    /// Reply of every sample.
    reply: Mutex<wire::SampleResponse>,
    /// Whether results are asked for in vain.
    is_silent: AtomicBool,
    /// Faults of the next calls that compute.
    faults: Mutex<Vec<Fault>>,
}

/// A fault of one call.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// This status, before anything is computed.
    Busy(StatusCode),
    /// The call is computed, and its answer breaks off.
    Cut,
    /// The number of the result is unknown later.
    Lost,
}

/// A result, and whether it was asked for before it is given.
struct Fetched {
    content: Content,
    asked: bool,
}

enum Content {
    Json(Value),
    Message(Vec<u8>),
    Failed(&'static str),
}

fn reply(tokens: &[u32], log_probs: &[f32]) -> wire::SampleResponse {
    let floats = |numbers: &[f32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let sequence =
        wire::SampledSequence { stop_reason: 0, tokens: wire::token_bytes(tokens), logprobs: Some(floats(log_probs)) };
    wire::SampleResponse { sequences: vec![sequence], prompt_logprobs: Some(floats(&[f32::NAN, -0.5, -0.25])) }
}

/// Answers a call with the number of its result, or with the next fault.
async fn call(state: State<Arc<Server>>, name: Path<String>, body: Bytes) -> Response {
    let computes = !matches!(name.as_str(), "create_session" | "session_heartbeat" | "retrieve_future");
    let fault = if computes { state.faults.lock().unwrap().pop() } else { None };
    if let Some(Fault::Busy(status)) = fault {
        return (status, [("retry-after", "0")], "busy").into_response();
    }
    let server = Arc::clone(&state);
    let answer = answered(state, name, body).await;
    match fault {
        Some(Fault::Cut) => {
            let parts = [Ok("{"), Err(std::io::Error::other("cut"))];
            Response::new(axum::body::Body::from_stream(futures::stream::iter(parts)))
        }
        Some(Fault::Lost) => {
            server.results.lock().unwrap().clear();
            answer
        }
        _ => answer,
    }
}

async fn answered(State(server): State<Arc<Server>>, Path(name): Path<String>, body: Bytes) -> Response {
    let json = || serde_json::from_slice::<Value>(&body).unwrap();
    let content = match name.as_str() {
        "create_session" => return axum_json(&json!({ "session_id": "session_1" })),
        "session_heartbeat" => return axum_json(&json!({})),
        "retrieve_future" if server.is_silent.load(Ordering::Relaxed) => std::future::pending().await,
        "retrieve_future" => return server.fetched(json()["request_id"].as_str().unwrap()),
        "forward_backward" => {
            let request = wire::ForwardBackwardRequest::decode(&body[..]).unwrap();
            let lengths: Vec<usize> =
                request.data.iter().map(|datum| datum.loss_fn_inputs["target_tokens"].shape[0] as usize).collect();
            server.passes.lock().unwrap().push(request);
            Content::Message(passed(&lengths))
        }
        "asample" => Content::Message(server.reply.lock().unwrap().encode_to_vec()),
        "create_model" => Content::Json(json!({ "model_id": "model_1" })),
        "load_weights" if json()["path"] == "tinker://gone/weights/1" => Content::Failed("Checkpoint not found"),
        "load_weights" | "optim_step" => Content::Json(json!({})),
        "save_weights" => {
            Content::Json(json!({ "path": format!("tinker://model_1/weights/{}", json()["path"].as_str().unwrap()) }))
        }
        "save_weights_for_sampler" => Content::Json(json!({ "path": "tinker://model_1/sampler_weights/v1" })),
        other => panic!("{other}"),
    };
    if name != "forward_backward" {
        server.calls.lock().unwrap().push((name, json()));
    }
    let mut results = server.results.lock().unwrap();
    let number = results.len().to_string();
    results.insert(number.clone(), Fetched { content, asked: false });
    axum_json(&json!({ "request_id": number, "status": "pending" }))
}

impl Server {
    /// A result is not there when it is asked for the first time.
    fn fetched(&self, number: &str) -> Response {
        let mut results = self.results.lock().unwrap();
        let Some(fetched) = results.get_mut(number) else {
            return (StatusCode::NOT_FOUND, "Future not found").into_response();
        };
        if !std::mem::replace(&mut fetched.asked, true) {
            return (StatusCode::REQUEST_TIMEOUT, "Timeout waiting for result").into_response();
        }
        match &fetched.content {
            Content::Json(value) => axum_json(value),
            Content::Message(bytes) => ([("content-type", wire::CONTENT_TYPE)], bytes.clone()).into_response(),
            Content::Failed(why) => (StatusCode::BAD_REQUEST, *why).into_response(),
        }
    }
}

fn axum_json(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

/// A log-probability of -1 for each token.
fn passed(lengths: &[usize]) -> Vec<u8> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += 4 * *length as i64;
        Some(*end)
    });
    let found = wire::BatchedTensor {
        data: (-1.0_f32).to_le_bytes().repeat(lengths.iter().sum()),
        offsets: std::iter::once(0).chain(ends).flat_map(i64::to_le_bytes).collect(),
        dtype: wire::FLOAT32,
    };
    let fields = HashMap::from([("logprobs".to_owned(), found)]);
    let record = wire::ArrayRecord { fields, num_datums: lengths.len() as i64 };
    wire::ForwardBackwardOutput { loss_fn_outputs: vec![record] }.encode_to_vec()
}

/// A server, and a client that is connected to it.
async fn connected() -> (Arc<Server>, Arc<TinkerClient>) {
    connected_for(Duration::from_secs(20)).await
}

/// As [`connected`], with this time for a result.
async fn connected_for(timeout: Duration) -> (Arc<Server>, Arc<TinkerClient>) {
    let server = Arc::new(Server::default());
    *server.reply.lock().unwrap() = reply(&[4, 9], &[-1.0, -0.5]);
    let models = || async { axum_json(&json!({ "supported_models": [{ "model_name": "base" }] })) };
    let routes = Router::new()
        .route("/api/v1/get_server_capabilities", get(models))
        .route("/api/v1/{name}", post(call))
        .with_state(Arc::clone(&server));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let retry = Retry { retries: 2, first_delay: Duration::from_millis(1), max_delay: Duration::from_millis(5) };
    let requests = RequestPolicy { timeout: Duration::from_secs(5), retry, repeated: Repeated::Passing };
    let settings = TinkerSettings { url, model: None, key: None, timeout, requests };
    let client = TinkerClient::connect(settings, Box::new(|_| ())).await.unwrap();
    (server, Arc::new(client))
}

const LORA: LoraSettings = LoraSettings { rank: 8, seed: 5 };

fn request() -> GenerateRequest {
    GenerateRequest {
        conversation: Conversation { id: 0, place: 0 },
        tokens: Arc::new([1, 2, 3]),
        max_tokens: 4,
        stop: Arc::new([9]),
        stop_texts: None,
        sampling: Sampling::at(1.0),
        seed: Seed(7),
        token_sink: None,
    }
}

fn datum() -> Datum {
    let token = |at, advantage| TrainedToken { at, share: 0.25, advantage, log_prob: -1.5 };
    Datum { tokens: vec![7, 8, 9, 10], trained: vec![token(2, 2.0), TrainedToken { log_prob: -0.5, ..token(3, -2.0) }] }
}

#[tokio::test]
async fn a_model_is_trained_saved_and_opened_again() {
    let (server, client) = connected().await;
    assert_eq!(client.model(), "base");
    let model = TinkerModel::create(Arc::clone(&client), LORA, Reduction::Sum).await.unwrap();
    let passed = model.forward_backward(&[datum()], ServerLoss::Importance).await.unwrap();
    assert_eq!(passed, [vec![-1.0; 3]]);
    let optimizer = Optimizer { beta2: 0.95, gradient_clip: 1.0, ..Optimizer::default() };
    model.optim_step(&optimizer, 0.5).await.unwrap();
    assert_eq!(model.save("1-000004").await.unwrap(), "tinker://model_1/weights/1-000004");
    TinkerModel::open(Arc::clone(&client), LORA, Reduction::Sum, "tinker://model_1/weights/1-000004").await.unwrap();
    let calls = server.calls.lock().unwrap().clone();
    let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["create_model", "optim_step", "save_weights", "create_model", "load_weights"]);
    assert_eq!(calls[0].1["lora_config"], json!({ "rank": 8, "seed": 5 }));
    assert_eq!(calls[0].1["session_id"], "session_1");
    let adam = &calls[1].1["adam_params"];
    assert_eq!(
        (&adam["learning_rate"], &adam["beta2"], &adam["grad_clip_norm"]),
        (&json!(0.5), &json!(0.95), &json!(1.0))
    );
    // Requests of a model are numbered: the pass was the first.
    assert_eq!(server.passes.lock().unwrap()[0].seq_id, 1);
    assert_eq!(calls[1].1["seq_id"], 2);
    assert_eq!(calls[4].1["optimizer"], true);
}

const PASS: Pass = Pass {
    temperature: 1.0,
    entropies: false,
    micro_batch_tokens: 1024,
    activation_checkpointing: false,
    share_beginnings: true,
};

/// Two tokens with a share of 1/2 each and the advantage 2. The server's log-probabilities are -1: the ratios of the tokens
/// are e^0.5 and e^-0.5, that of the sequence is 1.
fn two_tokens() -> Sequence {
    let mut stats = TokenStats::default();
    for proximal in [-1.5, -0.5] {
        stats.push(&[(Column::Proximal, proximal), (Column::Advantage, 2.0), (Column::LossWeight, 0.5)]);
    }
    let targets = [2, 3].map(|at| Target { at, turn: 0 }).to_vec();
    Sequence::new(&[7, 8, 9, 10], targets, stats).unwrap()
}

/// Adds the gradient of a loss of [`two_tokens`]. Returns the loss, and the passes that the server was asked for.
async fn accumulated(ratio: Ratio, reduction: Reduction) -> (f64, Vec<wire::ForwardBackwardRequest>) {
    let (server, client) = connected().await;
    let model = TinkerModel::create(client, LORA, reduction).await.unwrap();
    let mut engine = TinkerEngine::new(model, Counters::default(), Handle::current());
    let flags = Algorithm { surrogate: Surrogate::Importance {}, ratio: Some(ratio), kl: None, ..Algorithm::default() };
    let pass = move || engine.accumulate(&[two_tokens()], Loss::Policy { flags: &flags, version: 0 }, PASS).unwrap();
    let passed = tokio::task::spawn_blocking(pass).await.unwrap();
    assert_eq!(passed.log_probs, [[-1.0, -1.0]]);
    let passes = server.passes.lock().unwrap().clone();
    (passed.sums.loss, passes)
}

fn numbers(pass: &wire::ForwardBackwardRequest, name: &str) -> Vec<f32> {
    wire::floats(pass.data[0].loss_fn_inputs[name].dense.as_ref().unwrap()).unwrap()
}

/// `-ρA` of a sequence is -2, and each of its tokens has half of the derivative, -1.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_the_server_lacks_takes_two_passes() {
    let (loss, passes) = accumulated(Ratio::Sequence, Reduction::Sum).await;
    assert_eq!(loss, -2.0);
    let [first, second] = &passes[..] else { panic!("{} passes", passes.len()) };
    assert!(first.forward_only && !second.forward_only);
    assert_eq!((second.loss_fn.as_str(), numbers(second, "weights")), ("cross_entropy", vec![0.0, 1.0, 1.0]));
    // A mean over three positions is undone, and the ratio to the first pass is 1.
    let (_, passes) = accumulated(Ratio::Sequence, Reduction::SequenceMean).await;
    let second = &passes[1];
    assert_eq!(second.loss_fn, "importance_sampling");
    assert_eq!(
        (numbers(second, "advantages"), numbers(second, "logprobs")),
        (vec![0.0, 3.0, 3.0], vec![0.0, -1.0, -1.0])
    );
}

/// `-ρA` of tokens is the server's own loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_the_server_has_takes_one_pass() {
    let (loss, passes) = accumulated(Ratio::Token, Reduction::Sum).await;
    assert!((loss + 0.5_f64.exp() + (-0.5_f64).exp()).abs() < 1e-12, "{loss}");
    let [only] = &passes[..] else { panic!("{} passes", passes.len()) };
    assert_eq!(only.loss_fn, "importance_sampling");
    assert_eq!((numbers(only, "advantages"), numbers(only, "logprobs")), (vec![0.0, 1.0, 1.0], vec![0.0, -1.5, -0.5]));
}

#[tokio::test]
async fn a_server_without_a_result_is_named_after_the_bound() {
    let (server, client) = connected_for(Duration::from_secs(1)).await;
    server.is_silent.store(true, Ordering::Relaxed);
    let since = Instant::now();
    let asked = client.computed_json("/api/v1/save_weights", &json!({ "path": "1" }), |_| Ok(())).await;
    let told = client.fault("save the weights")(asked.unwrap_err()).to_string();
    assert!(told.contains(client.url().as_str()) && told.contains("it gave no result within 1 s"), "{told}");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    // The same session goes on once the server answers.
    server.is_silent.store(false, Ordering::Relaxed);
    client.computed_json("/api/v1/save_weights", &json!({ "path": "2" }), |_| Ok(())).await.unwrap();
}

/// A gradient whose call may have been computed is not asked for again. A server that says that it is busy computed nothing.
#[tokio::test]
async fn gradients_count_once_whatever_fails() {
    for (fault, computed, said) in [
        (Fault::Busy(StatusCode::TOO_MANY_REQUESTS), 1, None),
        (Fault::Busy(StatusCode::SERVICE_UNAVAILABLE), 1, None),
        (
            Fault::Busy(StatusCode::BAD_GATEWAY),
            0,
            Some("`/api/v1/forward_backward` failed 1 times; last attempt: it answered 502"),
        ),
        (Fault::Cut, 1, Some("`/api/v1/forward_backward` failed 1 times; last attempt: connection closed")),
        (Fault::Lost, 1, Some("`/api/v1/retrieve_future` was refused with 404: Future not found")),
    ] {
        let (server, client) = connected().await;
        let model = TinkerModel::create(client, LORA, Reduction::Sum).await.unwrap();
        server.faults.lock().unwrap().push(fault);
        let found = model.forward_backward(&[datum()], ServerLoss::Supervised).await;
        let text = found.err().map(|error| error.to_string());
        assert!(text.as_deref().is_none_or(|text| text.contains(said.unwrap_or("no error"))), "{text:?}");
        assert_eq!((text.is_some(), server.passes.lock().unwrap().len()), (said.is_some(), computed));
    }
}

/// Busy answers are repeated up to the limit; what changes nothing is asked for again after a cut, too.
#[tokio::test]
async fn busy_answers_end_at_the_limit_and_samples_are_repeated() {
    let (server, client) = connected().await;
    let model = TinkerModel::create(Arc::clone(&client), LORA, Reduction::Sum).await.unwrap();
    *server.faults.lock().unwrap() = vec![Fault::Busy(StatusCode::TOO_MANY_REQUESTS); 3];
    let busy = model.optim_step(&Optimizer::default(), 1e-4).await.unwrap_err().to_string();
    assert!(busy.contains("`/api/v1/optim_step` failed 3 times; last attempt: it answered 429"), "{busy}");
    *server.faults.lock().unwrap() = vec![Fault::Busy(StatusCode::BAD_GATEWAY), Fault::Cut];
    let policy = TinkerPolicy::new(client, 4, 10, 8);
    assert_eq!(policy.generate(request()).await.unwrap().sampled.tokens, [4, 9]);
    assert!(policy.gave_up().is_none());
}

#[tokio::test]
async fn a_checkpoint_that_the_server_lost_is_refused_by_name() {
    let (_server, client) = connected().await;
    let lost = TinkerModel::open(client, LORA, Reduction::Sum, "tinker://gone/weights/1").await.unwrap_err();
    let TinkerError::Fault { doing, .. } = &lost else { panic!("{lost}") };
    assert_eq!(*doing, "load the weights of a checkpoint");
    let said = lost.to_string();
    assert!(
        said.contains("was refused with 400") && said.contains("Checkpoint not found") && said.contains("hint: "),
        "{said}"
    );
}

#[tokio::test]
async fn tokens_are_sampled_from_the_weights_that_were_loaded_last() {
    let (server, client) = connected().await;
    let policy = TinkerPolicy::new(client, 4, 10, 64);
    let first = policy.generate(request()).await.unwrap();
    assert_eq!((first.sampled.tokens, first.sampled.versions, first.stop), (vec![4, 9], vec![0, 0], Stop::Token));
    policy.load("tinker://model_1/sampler_weights/v3".to_owned(), 3).await;
    assert!(policy.has_weights(3).await && !policy.has_weights(2).await);
    assert_eq!(policy.generate(request()).await.unwrap().sampled.versions, [3, 3]);
    let calls = server.calls.lock().unwrap().clone();
    assert_eq!(calls[0].1["base_model"], "base");
    assert_eq!(calls[1].1["model_path"], "tinker://model_1/sampler_weights/v3");
    let params = &calls[1].1["sampling_params"];
    assert_eq!((&params["max_tokens"], &params["seed"], &params["stop"]), (&json!(4), &json!(7), &json!([9])));
    let scored = policy.score(ScoreRequest { prefix: Arc::new([1]), continuation: Arc::new([2, 3]) }).await.unwrap();
    assert_eq!(scored.log_probs, [-0.5, -0.25]);
}

#[tokio::test]
async fn replies_that_no_model_gave_are_refused_and_named() {
    let (server, client) = connected().await;
    let policy = TinkerPolicy::new(client, 4, 10, 64);
    for (sent, said) in [
        (reply(&[12], &[-1.0]), "token 12, and the vocabulary has 10"),
        (reply(&[4, 4, 4, 4, 4], &[-1.0; 5]), "at most 4 fit"),
        (wire::SampleResponse::default(), "has 0 replies"),
    ] {
        *server.reply.lock().unwrap() = sent;
        let refused = policy.generate(request()).await.unwrap_err().to_string();
        assert!(refused.starts_with("the Tinker server at http://127.0.0.1:") && refused.contains(said), "{refused}");
        assert_eq!(policy.gave_up().map(|failure| failure.text), Some(refused));
    }
    *server.reply.lock().unwrap() = reply(&[4, 9], &[-1.0, -0.5]);
    assert!(policy.generate(request()).await.is_ok() && policy.gave_up().is_none());
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Written by `forward_backward_request_to_proto` of tinker 0.25.0 for the same sequence, model and number.
#[test]
fn passes_are_written_as_the_official_client_writes_them() {
    const CLIP: &str = "0a076d6f64656c5f3110031a88010a100a0e0a0c07000000080000000900000012210a0a616476616e746167657312130a0c\
                        000000000000003f000000bf1801220103121f0a086c6f6770726f627312130a0c000000000000c0bf000000bf18012201\
                        0312300a0d7461726765745f746f6b656e73121f0a18080000000000000009000000000000000a00000000000000180222\
                        0103220370706f2a1e0a13636c69705f686967685f7468726573686f6c64117b14ae47e17af43f2a1d0a12636c69705f6c\
                        6f775f7468726573686f6c64119a9999999999e93f";
    const SUPERVISED: &str = "0a076d6f64656c5f3110031a640a100a0e0a0c07000000080000000900000012300a0d7461726765745f746f6b656e\
                              73121f0a18080000000000000009000000000000000a000000000000001802220103121e0a077765696768747312130a\
                              0c000000000000803e0000803e1801220103220d63726f73735f656e74726f7079";
    for (loss, written) in [(ServerLoss::Clip { low: 0.2, high: 0.28 }, CLIP), (ServerLoss::Supervised, SUPERVISED)] {
        let (loss_fn, loss_fn_config) = loss.named();
        let own = wire::ForwardBackwardRequest {
            model_id: "model_1".to_owned(),
            seq_id: 3,
            data: vec![datum().message(loss, Reduction::Sum)],
            loss_fn: loss_fn.to_owned(),
            loss_fn_config,
            forward_only: false,
        };
        assert_eq!(wire::ForwardBackwardRequest::decode(&bytes(written)[..]).unwrap(), own);
    }
}

/// Written by the messages of tinker 0.25.0.
#[test]
fn results_of_the_official_messages_are_read() {
    let sampled = "0a160801120804000000090000001a080000a0bf000000bf12080000c07f000000c0";
    let sampled = wire::SampleResponse::decode(&bytes(sampled)[..]).unwrap();
    assert_eq!(wire::tokens(&sampled.sequences[0].tokens).unwrap(), [4, 9]);
    assert_eq!(wire::floats(sampled.sequences[0].logprobs.as_ref().unwrap()).unwrap(), [-1.25, -0.5]);
    assert_eq!(wire::floats(&sampled.prompt_logprobs.unwrap()).unwrap()[1], -2.0);
    let output = "0a067363616c6172123a12360a086c6f6770726f6273122a0a0c000080bf000000c0000040c01218000000000000000008000000\
                  000000000c00000000000000180118021a130a086c6f73733a73756d11000000000000f83f";
    let output = wire::ForwardBackwardOutput::decode(&bytes(output)[..]).unwrap();
    assert_eq!(wire::places(&output.loss_fn_outputs[0].fields["logprobs"].offsets).unwrap(), [0, 8, 12]);
}

#[test]
fn the_model_is_the_named_one_or_the_only_one() {
    let url = Url::parse("http://127.0.0.1:1").unwrap();
    let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(chosen(&url, &known(&["a"]), None).unwrap(), "a");
    assert_eq!(chosen(&url, &known(&["a", "b"]), Some("b")).unwrap(), "b");
    let unnamed = chosen(&url, &known(&["a", "b"]), None).unwrap_err().to_string();
    assert!(unnamed.ends_with("hint: set trainer.model to one of `a`, `b`"), "{unnamed}");
    let missing = chosen(&url, &known(&["a"]), Some("c")).unwrap_err().to_string();
    assert!(missing.contains("has no model `c`"), "{missing}");
}
