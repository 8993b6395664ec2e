//! A served policy gives the same numbers as the same model in this process, with vLLM's and SGLang's recorded
//! protocols.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::peer::shape::same_shape;
use crate::peer::{MODEL, Mischief, Peer, chat, settings, write_model};
use gymkhana_net::{Repeated, RequestPolicy, Retry, Secret};
use gymkhana_policy::{
    Conversation, GenerateRequest, Policy, PolicyError, Sampling, ScoreRequest, ServerFailure, Stop,
};
use gymkhana_policy_server::{Protocol, ServerError, ServerPolicy, ServerSettings};
use gymkhana_record::Seed;
use gymkhana_trainer::Trainer;
use serde_json::{Value, json};

const BOTH: [Protocol; 2] = [Protocol::Vllm, Protocol::Sglang];

pub fn model(seed: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_model(seed, &folder.path().join("model"));
    folder
}

pub fn server_settings(peer: &Peer, protocol: Protocol, local: &Trainer) -> ServerSettings {
    let policy = RequestPolicy {
        timeout: Duration::from_secs(20),
        retry: Retry { retries: 2, first_delay: Duration::from_millis(1), max_delay: Duration::from_millis(5) },
        repeated: Repeated::Passing,
    };
    ServerSettings {
        url: peer.url().parse().expect("a URL"),
        protocol,
        model: MODEL.to_owned(),
        key: None,
        policy,
        update: policy,
        requests: 4,
        vocabulary: local.config().vocab_size as usize,
        context: local.context(),
        max_divergence: 0.1,
    }
}

async fn connect(peer: &Peer, protocol: Protocol, local: &Trainer) -> ServerPolicy {
    let settings = server_settings(peer, protocol, local);
    let policy = ServerPolicy::connect(settings, chat(local), Box::new(|_| {})).await.expect("it serves");
    peer.requests();
    peer.answers();
    policy
}

pub fn open(folder: &tempfile::TempDir) -> Trainer {
    Trainer::open(&folder.path().join("model"), &settings()).expect("a model")
}

fn request(seed: u64, sampling: Sampling) -> GenerateRequest {
    GenerateRequest {
        conversation: Conversation { id: seed, place: 0 },
        tokens: Arc::new([72, 101, 108, 108, 111]),
        max_tokens: 24,
        stop: Arc::new([10, 32]),
        stop_texts: None,
        sampling,
        seed: Seed(seed),
        token_sink: None,
    }
}

fn golden(protocol: Protocol) -> Value {
    let name = if protocol == Protocol::Vllm { "vllm" } else { "sglang" };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/servers/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("a recording")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_log_probabilities_equal_those_of_the_local_model() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let local = open(&folder);
    for protocol in BOTH {
        let peer = Peer::start(protocol, &folder.path().join("model"));
        let served = connect(&peer, protocol, &local).await;
        let whole = Sampling::at(1.0);
        let mut samplings = vec![
            whole,
            Sampling::GREEDY,
            Sampling { top_k: 7, ..whole },
            Sampling { top_p: 0.6, min_p: 0.01, ..whole },
        ];
        if protocol == Protocol::Sglang {
            samplings.push(Sampling::at(0.7));
        }
        let mut stops = vec![];
        for (seed, sampling) in (0..40).map(|seed| (seed, samplings[seed as usize % samplings.len()])) {
            let expected = local.generate(request(seed, sampling)).await.expect("a reply");
            local.release(Conversation { id: seed, place: 0 });
            let found = served.generate(request(seed, sampling)).await.expect("a reply");
            assert_eq!(found.sampled.tokens, expected.sampled.tokens, "{protocol:?} {seed} {sampling:?}");
            assert_eq!(found.sampled.log_probs, expected.sampled.log_probs, "{protocol:?} {seed} {sampling:?}");
            assert_eq!(found.stop, expected.stop);
            assert_eq!(found.sampled.versions, vec![0; found.sampled.tokens.len()]);
            stops.push(found.stop);
        }
        assert!(stops.contains(&Stop::Token) && stops.contains(&Stop::Length), "both ends are tested: {stops:?}");
        let asked = ScoreRequest { prefix: Arc::new([72, 101]), continuation: Arc::new([108, 108, 111]) };
        let expected = local.score(asked.clone()).await.expect("scored");
        let found = served.score(asked).await.expect("scored");
        assert_eq!(found.tokens, expected.tokens);
        for (found, expected) in found.log_probs.iter().zip(&expected.log_probs) {
            assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_weights_come_from_a_folder_and_their_version_is_recorded() {
    let (first, second) = tokio::task::spawn_blocking(|| (model(3), model(4))).await.expect("written");
    let (old, new) = (open(&first), open(&second));
    for protocol in BOTH {
        let peer = Peer::start(protocol, &first.path().join("model"));
        let served = connect(&peer, protocol, &old).await;
        let asked = || request(5, Sampling::at(1.0));
        let before = served.generate(asked()).await.expect("a reply");
        served.push(&second.path().join("model"), 7).await.expect("taken");
        let after = served.generate(asked()).await.expect("a reply");
        let expected = new.generate(asked()).await.expect("a reply");
        new.release(Conversation { id: 5, place: 0 });
        assert_eq!(after.sampled.tokens, expected.sampled.tokens, "{protocol:?}");
        assert_eq!(after.sampled.log_probs, expected.sampled.log_probs, "{protocol:?}");
        assert_ne!(after.sampled.log_probs, before.sampled.log_probs, "the models differ");
        assert_eq!((before.sampled.versions[0], after.sampled.versions[0]), (0, 7));

        let error = served.push(&second.path().join("nowhere"), 8).await.expect_err("nothing is there");
        assert!(error.to_string().contains(&peer.url()) && error.to_string().contains("--resume"), "{error}");
        assert_eq!(served.weight_version(), 7, "refused weights do not change the version");
    }
}

/// A server that loads the new body and keeps the old output layer answers every request without an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_keeps_its_old_output_layer_is_detected_by_a_fixed_text() {
    let (first, second) = tokio::task::spawn_blocking(|| (model(3), model(4))).await.expect("written");
    let (old, new) = (open(&first), open(&second));
    let pushed = second.path().join("pushed");
    new.export(&pushed).await.expect("written");
    for protocol in BOTH {
        let peer = Peer::start(protocol, &first.path().join("model"));
        let served = connect(&peer, protocol, &old).await;
        let text = served.fixed_text().expect("tokens").expect("a text");
        let expected = new.score(text.clone()).await.expect("scored").log_probs;
        served.push(&pushed, 7).await.expect("taken");
        let difference = served.verify(&text, &expected).await.expect("the new weights");
        assert!(difference < 1e-5, "{protocol:?}: {difference}");

        peer.keep_head(true);
        served.push(&pushed, 8).await.expect("taken");
        let error = served.verify(&text, &expected).await.expect_err("the old output layer");
        let ServerError::Divergence { version, difference, limit, .. } = &error else { panic!("{error}") };
        assert_eq!((*version, *limit), (8, 0.1));
        let found = served.score(text.clone()).await.expect("scored").log_probs;
        let by_hand: f64 = found.iter().zip(&expected).map(|(one, other)| f64::from((one - other).abs())).sum();
        assert!((difference - by_hand / expected.len() as f64).abs() < 1e-4, "{difference} is not the mean");
        for words in
            [peer.url().as_str(), "policy.server.max_divergence = 0.1", &format!("{difference:.3} nats"), "hint: "]
        {
            assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
        }
        let says_remedy = error.to_string().contains("host export");
        assert_eq!(says_remedy, protocol == Protocol::Vllm, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sglang_server_that_lost_its_weights_is_detected() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let (local, path) = (open(&folder), folder.path().join("model"));
    let peer = Peer::start(Protocol::Sglang, &path);
    let served = connect(&peer, Protocol::Sglang, &local).await;
    served.push(&path, 1).await.expect("taken");
    served.generate(request(1, Sampling::at(1.0))).await.expect("its weights are there");
    peer.restart();
    let error = served.generate(request(1, Sampling::at(1.0))).await.expect_err("its weights are others");
    assert!(error.to_string().contains("it may have been restarted"), "{error}");
    served.push(&path, 1).await.expect("taken");
    served.generate(request(1, Sampling::at(1.0))).await.expect("its weights are there again");
}

/// Requests and answers match the recordings, and the test server's answers have their shapes.
#[tokio::test(flavor = "multi_thread")]
async fn requests_and_answers_are_as_recorded() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let (local, path) = (open(&folder), folder.path().join("model"));
    for protocol in BOTH {
        let golden = golden(protocol);
        // Read from the recordings by hand.
        let (tokens, log_probs, scored) = match protocol {
            Protocol::Vllm => ([220, 148], [-5.129_583_4, -4.378_225_3], [-5.887_402_5, -6.510_249_6]),
            _ => ([8, 9], [-0.5, -0.25], [-2.5, -0.125]),
        };
        let peer = Peer::start(protocol, &path);
        let served = connect(&peer, protocol, &local).await;
        let replays: Edit = match protocol {
            Protocol::Vllm => |answer| *answer = self::golden(Protocol::Vllm)["generate"]["response"].clone(),
            _ => |answer| *answer = self::golden(Protocol::Sglang)["generate"]["response"].clone(),
        };
        peer.misbehave(&[Mischief::Edits(replays)]);
        let asked = GenerateRequest {
            tokens: Arc::new([5, 6, 7]),
            max_tokens: 3,
            stop: Arc::new([tokens[1]]),
            ..request(u64::MAX - 1, Sampling::at(1.0))
        };
        let reply = served.generate(asked).await.expect("the recorded reply");
        assert_eq!((reply.sampled.tokens, reply.sampled.log_probs), (tokens.to_vec(), log_probs.to_vec()));
        assert_eq!(reply.stop, Stop::Token);
        same_exchange(&peer, &golden["generate"]);

        let replays: Edit = match protocol {
            Protocol::Vllm => |answer| *answer = self::golden(Protocol::Vllm)["score"]["response"].clone(),
            _ => |answer| *answer = self::golden(Protocol::Sglang)["score"]["response"].clone(),
        };
        peer.misbehave(&[Mischief::Edits(replays)]);
        let asked = ScoreRequest { prefix: Arc::new([5, 6]), continuation: Arc::new([7, 8]) };
        assert_eq!(served.score(asked).await.expect("scored").log_probs, scored);
        same_exchange(&peer, &golden["score"]);

        served.push(&path, 7).await.expect("taken");
        let (requests, answers) = (peer.requests(), peer.answers());
        let recorded = golden["update"].as_array().expect("a list");
        assert_eq!(requests.len(), recorded.len());
        for ((request, answer), recorded) in requests.iter().zip(&answers).zip(recorded) {
            let text = recorded["request"].to_string().replace("FOLDER", &path.to_string_lossy());
            assert_eq!((request.0.as_str(), &request.1), (recorded["path"].as_str().expect("a path"), &json_of(&text)));
            same_shape(answer, &recorded["response"], "update");
        }
    }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn same_exchange(peer: &Peer, recorded: &Value) {
    let (path, body) = peer.requests().remove(0);
    assert_eq!((path.as_str(), &body), (recorded["path"].as_str().expect("a path"), &recorded["request"]));
    same_shape(&peer.answers()[0], &recorded["response"], "answer");
}

/// A change of an answer.
type Edit = fn(&mut Value);

/// A change of an answer, and the expected error.
type Spoilt = (Mischief, &'static str);

fn spoilt(protocol: Protocol) -> Vec<Spoilt> {
    let mut all: Vec<Spoilt> = vec![
        (Mischief::Closes, "failed"),
        (Mischief::BreaksOff, "broke off"),
        (Mischief::Garbage, "is not JSON"),
        (Mischief::Status(503, "0"), "503"),
        (Mischief::Status(429, "0"), "429"),
        (Mischief::Status(500, ""), "500"),
    ];
    let edits: [(Edit, &str); 6] = match protocol {
        Protocol::Vllm => [
            (|it| it["choices"][0]["token_ids"][0] = json!(1_000_000), "serves another model"),
            (
                |it| drop(it["choices"][0]["logprobs"]["token_logprobs"].as_array_mut().map(Vec::pop)),
                "log-probabilities for",
            ),
            (|it| it["choices"][0]["logprobs"]["token_logprobs"][0] = json!(0.5), "0.5 as a log-probability"),
            (|it| it["choices"][0]["logprobs"]["token_logprobs"][0] = json!("NaN"), "NaN"),
            (|it| it["choices"][0]["finish_reason"] = json!("abort"), "abort"),
            (|it| it["choices"][0]["prompt_token_ids"][0] = json!(1), "a prompt other than"),
        ],
        _ => [
            (|it| it["meta_info"]["output_token_logprobs"][0][1] = json!(1_000_000), "serves another model"),
            (|it| it["meta_info"]["output_token_logprobs"][0] = json!([-0.5]), "for a token and its log-probability"),
            (|it| it["meta_info"]["output_token_logprobs"][0][0] = json!(0.5), "0.5 as a log-probability"),
            (|it| it["meta_info"]["output_token_logprobs"][0][0] = Value::Null, "null as a log-probability"),
            (|it| it["meta_info"]["finish_reason"] = json!({"type": "abort", "message": "gone"}), "abort"),
            (|it| it["meta_info"]["finish_reason"] = Value::Null, "no finish reason"),
        ],
    };
    all.extend(edits.map(|(edit, words)| (Mischief::Edits(edit), words)));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_retried_up_to_the_limit() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let local = open(&folder);
    for protocol in BOTH {
        let peer = Peer::start(protocol, &folder.path().join("model"));
        let served = connect(&peer, protocol, &local).await;
        let asked = || request(11, Sampling::at(1.0));
        let sound = served.generate(asked()).await.expect("a reply");
        for (mischief, words) in spoilt(protocol) {
            peer.requests();
            peer.misbehave(&[mischief; 2]);
            assert_eq!(served.generate(asked()).await.as_ref(), Ok(&sound), "{protocol:?}: {words}");
            assert_eq!(peer.requests().len(), 3, "{protocol:?}: {words}");
            assert_eq!(served.gave_up(), None);
            peer.misbehave(&[mischief; 3]);
            let error = served.generate(asked()).await.expect_err(words);
            assert!(matches!(&error, PolicyError::Server(message) if message.contains(&peer.url())), "{error}");
            assert!(error.to_string().contains(words), "{protocol:?}: `{error}` does not say `{words}`");
            assert_eq!(peer.requests().len(), 3, "{protocol:?}: {words}");
            assert_eq!(served.gave_up(), Some(ServerFailure { text: error.to_string(), may_recover: true }));
        }
        assert_eq!(served.generate(asked()).await.as_ref(), Ok(&sound), "it continues");
        assert_eq!(served.gave_up(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_server_is_retried_with_a_status_message() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let local = open(&folder);
    let peer = Peer::start(Protocol::Vllm, &folder.path().join("model"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let mut settings = server_settings(&peer, Protocol::Vllm, &local);
    settings.policy.timeout = Duration::from_secs(2);
    let status = Box::new(move |text| sender.lock().expect("unpoisoned").send(text).expect("the receiver lives"));
    let served = ServerPolicy::connect(settings, chat(&local), status).await.expect("it serves");
    peer.misbehave(&[Mischief::Hangs]);
    served.generate(request(1, Sampling::at(1.0))).await.expect("a reply at last");
    let messages: Vec<String> = receiver.try_iter().collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(
        messages[0].contains("waiting for the policy server at") && messages[0].contains("within 2 s"),
        "{messages:?}"
    );
    assert!(messages[1].contains("answers again"), "{messages:?}");
}

/// Servers that cannot be trained with, or that serve another model, are refused at the start of a run.
#[tokio::test(flavor = "multi_thread")]
async fn unsuitable_servers_are_refused_with_a_hint() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let local = open(&folder);
    let refused = async |peer: &Peer, settings: ServerSettings| {
        let refused = ServerPolicy::connect(settings, chat(&local), Box::new(|_| {})).await;
        let error = refused.expect_err("refused");
        assert!(error.to_string().contains(&peer.url()), "{error}");
        error
    };
    for protocol in BOTH {
        let peer = Peer::start(protocol, &folder.path().join("model"));
        let settings = server_settings(&peer, protocol, &local);
        let other = ServerSettings { model: "other".to_owned(), ..settings.clone() };
        let error = refused(&peer, other).await;
        assert!(matches!(&error, ServerError::Model { .. }) && error.to_string().contains("`tiny`"), "{error}");
        let wrong = if protocol == Protocol::Vllm { Protocol::Sglang } else { Protocol::Vllm };
        let error = refused(&peer, ServerSettings { protocol: wrong, ..settings.clone() }).await;
        assert!(error.to_string().contains("404") && error.to_string().contains("policy.server.protocol"), "{error}");
        peer.always(Some(Mischief::Edits(|answer| {
            for part in ["/choices/0", "/meta_info"] {
                if let Some(part) = answer.pointer_mut(part).and_then(Value::as_object_mut) {
                    part.retain(|key, _| !["token_ids", "output_token_logprobs", "logprobs"].contains(&key.as_str()));
                }
            }
        })));
        let error = refused(&peer, settings.clone()).await;
        assert!(error.to_string().contains("text without token ids"), "{error}");
        peer.always(None);
        ServerPolicy::connect(settings, chat(&local), Box::new(|_| {})).await.expect("the same server serves");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_server_generates_and_does_not_score() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let local = open(&folder);
    let peer = Peer::start(Protocol::Openai, &folder.path().join("model"));
    let served = connect(&peer, Protocol::Openai, &local).await;
    let chat = chat(&local);
    let asked = |seed| GenerateRequest { stop: chat.stop().into(), ..request(seed, Sampling::at(1.0)) };
    for seed in 0..20 {
        let expected = local.generate(asked(seed)).await.expect("a reply");
        local.release(Conversation { id: seed, place: 0 });
        let found = served.generate(asked(seed)).await.expect("a reply");
        let text = |tokens: &[u32]| chat.decode_reply(tokens).expect("text");
        let (found_text, expected_text) = (text(&found.sampled.tokens), text(&expected.sampled.tokens));
        // An incomplete character becomes the replacement character, which can take more tokens than are left.
        if !expected_text.contains('\u{fffd}') {
            assert_eq!(found_text, expected_text);
            assert_eq!(found.stop, expected.stop);
        }
        assert!(found.sampled.log_probs.iter().all(|log_prob| *log_prob == 0.0));
    }
    assert!(!served.can_score());
    let scored = served.score(ScoreRequest { prefix: Arc::new([1]), continuation: Arc::new([2]) }).await;
    assert_eq!(scored.expect_err("it cannot"), PolicyError::CannotScore);
    let cut = Sampling { top_k: 2, ..Sampling::at(1.0) };
    let error = served.generate(GenerateRequest { sampling: cut, ..asked(1) }).await.expect_err("not in the protocol");
    assert!(error.to_string().contains("top_k"), "{error}");
}

/// The key is sent with every request to this machine, and never unencrypted to another network.
#[tokio::test(flavor = "multi_thread")]
async fn keys_and_addresses_follow_the_network_rules() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let local = open(&folder);
    let peer = Peer::start(Protocol::Vllm, &folder.path().join("model"));
    let settings = ServerSettings { key: Some(Secret::new("key-1")), ..server_settings(&peer, Protocol::Vllm, &local) };
    let served = ServerPolicy::connect(settings.clone(), chat(&local), Box::new(|_| {})).await.expect("it serves");
    served.generate(request(1, Sampling::at(1.0))).await.expect("a reply");
    assert_eq!(peer.key().as_deref(), Some("Bearer key-1"));
    for (url, words) in [("http://8.8.8.8", "unencrypted"), ("http://169.254.169.254", "link-local")] {
        let settings = ServerSettings { url: url.parse().expect("a URL"), ..settings.clone() };
        let refused = ServerPolicy::connect(settings, chat(&local), Box::new(|_| {})).await.expect_err(url);
        assert!(refused.to_string().contains(words), "{refused}");
    }
}
