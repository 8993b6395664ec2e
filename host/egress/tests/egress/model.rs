//! Completions from servers on loopback with OpenAI's protocol, valid and invalid.

use std::time::Duration;

use gymkhana_egress::{CompletionSource, Egress, ModelServer};
use gymkhana_loopback::{Response, Server, response};
use gymkhana_net::Secret;
use gymkhana_record::{Media, ModelMessage, ModelReply, ModelRequest, ModelRole, Part, Question, Refused, Reply};
use gymkhana_sandbox::{Outbound, OutboundError, Quota};
use serde_json::{Value, json};

/// A completion as the protocol's reference shows one.
const COMPLETION: &str = r#"{
  "id": "chatcmpl-1", "object": "chat.completion", "created": 1741569952, "model": "judge-1",
  "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes, it is", "refusal": null, "annotations": []},
    "logprobs": null, "finish_reason": "stop"}],
  "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 0}},
  "service_tier": "default"
}"#;

fn request() -> ModelRequest {
    let message = |role, text: &str| ModelMessage { role, content: vec![Part::Text(text.to_owned())] };
    ModelRequest {
        messages: vec![message(ModelRole::System, "Be brief."), message(ModelRole::User, "Is it?")],
        max_tokens: 50,
        temperature: 0.5,
        stop: vec!["\n".to_owned()],
    }
}

async fn ask(server: &Server, key: Option<&str>, time: f64, request: ModelRequest) -> Result<Reply, OutboundError> {
    let url = server.url("/v1").parse().expect("a URL");
    let mut model = ModelServer::new(url, "judge-1".to_owned(), key.map(Secret::new)).expect("a client");
    (model.time, model.retries) = (Duration::from_secs_f64(time), 1);
    let egress = Egress { model: Some(CompletionSource::Server(model).into()), http: None, quota: Quota::default() };
    egress.ask(&Question::Model(request), 0).await
}

fn yes() -> Reply {
    let text = "yes, it is".to_owned();
    Reply::Model(ModelReply { text, cut: false, prompt_tokens: 19, completion_tokens: 10 })
}

#[tokio::test]
async fn a_question_is_asked_as_the_protocol_says() {
    let server = Server::start(vec![response("200 OK", "content-type: application/json\r\n", COMPLETION)]).await;
    assert_eq!(ask(&server, Some("key-1"), 5.0, request()).await, Ok(yes()));
    let request = server.requests().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").expect("a whole request");
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.contains("authorization: Bearer key-1") && head.contains("content-type: application/json"), "{head}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(
        body,
        json!({
            "model": "judge-1",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it?"}],
            "max_tokens": 50,
            "temperature": 0.5,
            "stop": ["\n"],
        })
    );
}

#[tokio::test]
async fn images_are_sent_and_sounds_are_not() {
    let server = Server::start(vec![response("200 OK", "", COMPLETION)]).await;
    let with = |part: Part| {
        let content = vec![Part::Text("What is it?".to_owned()), part];
        ModelRequest { messages: vec![ModelMessage { role: ModelRole::User, content }], ..request() }
    };
    let media = |mime: &str| Media { mime: mime.to_owned(), bytes: vec![1, 2, 3] };
    ask(&server, None, 5.0, with(Part::Image(media("image/png")))).await.expect("an answer");
    let request = server.requests().remove(0);
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").expect("whole").1).expect("JSON");
    // AQID is base64 for the bytes 1, 2 and 3.
    let parts = json!([
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}},
    ]);
    assert_eq!(body["messages"][0]["content"], parts);
    let refused = ask(&server, None, 5.0, with(Part::Audio(media("audio/wav")))).await.expect("no fault of the host");
    assert!(matches!(&refused, Reply::Refused(Refused::Invalid(why)) if why.contains("audio/wav")), "{refused:?}");
}

#[tokio::test]
async fn a_cut_reply_says_so() {
    let cut = COMPLETION.replace("\"finish_reason\": \"stop\"", "\"finish_reason\": \"length\"");
    let server = Server::start(vec![response("200 OK", "", &cut)]).await;
    let reply = ask(&server, None, 5.0, request()).await;
    assert!(matches!(&reply, Ok(Reply::Model(reply)) if reply.cut), "{reply:?}");
    // A model that was cut during its reasoning sends no text.
    let server = Server::start(vec![response("200 OK", "", &cut.replace("\"yes, it is\"", "null"))]).await;
    let reply = ask(&server, None, 5.0, request()).await;
    assert!(matches!(&reply, Ok(Reply::Model(reply)) if reply.cut && reply.text.is_empty()), "{reply:?}");
}

#[tokio::test]
async fn a_server_that_recovers_is_asked_again() {
    let sound = || response("200 OK", "", COMPLETION);
    for first in [
        response("500 Internal Server Error", "", "oops"),
        response("429 Too Many Requests", "retry-after: 0\r\n", "slow down"),
        response("200 OK", "", "no JSON"),
        Response::Bytes(
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{{\"half", COMPLETION.len()).into_bytes(),
        ),
        Response::Bytes(vec![]),
        Response::Silence,
    ] {
        let server = Server::start(vec![first, sound()]).await;
        assert_eq!(ask(&server, None, 0.5, request()).await, Ok(yes()));
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_server_that_stays_broken_is_a_fault_of_the_host() {
    let no_usage = COMPLETION.replace("\"usage\"", "\"use\"");
    let no_text = COMPLETION.replace("\"yes, it is\"", "null");
    for (says, why, asked) in [
        (response("500 Internal Server Error", "", "oops"), "500 Internal Server Error: oops", 2),
        (response("200 OK", "", "no JSON"), "is not a chat completion", 2),
        (response("200 OK", "", r#"{"choices": [], "usage": {"prompt_tokens": 1}}"#), "no choice", 2),
        (response("200 OK", "", &no_usage), "usage", 2),
        (response("200 OK", "", &no_text), "has no text", 2),
        (response("200 OK", "", "no JSON but key-1"), "`no JSON but [secret]`", 2),
        (Response::Silence, "did not answer for 0.5 s", 2),
        // A wrong key stays wrong.
        (response("401 Unauthorized", "", "who is key-1?"), "401 Unauthorized: who is [secret]?", 1),
        (response("404 Not Found", "", "no such model"), "404 Not Found: no such model", 1),
    ] {
        let server = Server::start(vec![says]).await;
        let OutboundError(fault) = ask(&server, Some("key-1"), 0.5, request()).await.expect_err(why);
        assert!(fault.contains(why) && fault.contains(&format!("asked {asked} times")), "{fault}");
        assert!(!fault.contains("key-1"), "{fault}");
        assert_eq!(server.requests().len(), asked);
    }
}

/// A permanent rejection is an answer to the plugin and not a fault of the host.
#[tokio::test]
async fn a_question_that_is_refused_for_good_is_answered_with_that() {
    for status in ["400 Bad Request", "413 Payload Too Large", "422 Unprocessable Entity"] {
        let server = Server::start(vec![response(status, "", "the prompt is too long")]).await;
        let reply = ask(&server, None, 5.0, request()).await.expect("no fault of the host");
        assert!(matches!(&reply, Reply::Refused(Refused::Invalid(why)) if why.contains("too long")), "{reply:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

/// An unencrypted key stays on this machine and in private networks, as the other tests show.
#[tokio::test]
async fn a_key_is_not_sent_unencrypted_into_the_open_internet() {
    // A public address, which the client does not connect to.
    let model = |key| ModelServer::new("http://1.1.1.1/v1".parse().expect("a URL"), "x".to_owned(), key);
    let mut model = model(Some(Secret::new("key-1"))).expect("a client");
    model.retries = 0;
    let egress = Egress { model: Some(CompletionSource::Server(model).into()), http: None, quota: Quota::default() };
    let OutboundError(fault) = egress.ask(&Question::Model(request()), 0).await.expect_err("it is not sent");
    assert!(fault.contains("must not be sent unencrypted"), "{fault}");
}

#[tokio::test]
async fn an_answer_without_end_is_not_taken_in() {
    let server =
        Server::start(vec![Response::Endless(b"HTTP/1.1 200 OK\r\n\r\n{\"aaaaaaaaaaaaaaaaaaaaaaaaaaa".to_vec())]).await;
    let OutboundError(fault) = ask(&server, None, 20.0, request()).await.expect_err("endless");
    assert!(fault.contains("larger than"), "{fault}");
}

#[tokio::test]
async fn an_unreachable_server_is_a_fault_of_the_host() {
    let mut model =
        ModelServer::new("http://127.0.0.1:1".parse().expect("a URL"), "x".to_owned(), None).expect("a client");
    model.retries = 0;
    let egress = Egress { model: Some(CompletionSource::Server(model).into()), http: None, quota: Quota::default() };
    let OutboundError(fault) = egress.ask(&Question::Model(request()), 0).await.expect_err("the port is closed");
    assert!(fault.contains("refused"), "{fault}");
}

#[tokio::test]
async fn a_script_gives_its_replies_in_order() {
    let script = CompletionSource::Script(vec!["one".to_owned(), "two words".to_owned()]);
    let egress = Egress { model: Some(script.into()), http: None, quota: Quota::default() };
    for (earlier, text, tokens) in [(0, "one", 1), (1, "two words", 2), (7, "two words", 2)] {
        let reply = egress.ask(&Question::Model(request()), earlier).await;
        let said = ModelReply { text: text.to_owned(), cut: false, prompt_tokens: 4, completion_tokens: tokens };
        assert_eq!(reply, Ok(Reply::Model(said)));
    }
}

#[tokio::test]
async fn an_empty_script_is_an_error() {
    let egress = Egress { model: Some(CompletionSource::Script(vec![]).into()), http: None, quota: Quota::default() };
    let OutboundError(fault) = egress.ask(&Question::Model(request()), 0).await.expect_err("an empty script");
    assert!(fault.contains("has no replies"), "{fault}");
}
