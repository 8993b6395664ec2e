//! Outgoing HTTP against servers on loopback: allowed requests arrive, and attempts to bypass a rule are refused.

use std::process::Command;
use std::time::{Duration, Instant};

use gymkhana_egress::{Egress, HttpGrant};
use gymkhana_loopback::{Response, Server, response};
use gymkhana_net::{Rule, Secret};
use gymkhana_record::{HttpRequest, HttpResponse, Question, Refused, Reply};
use gymkhana_sandbox::{Outbound, Quota};

fn private(server: &Server) -> Rule {
    let mut rule = Rule::parse(&server.url("")).expect("a server");
    rule.private = true;
    rule
}

fn get(url: &str) -> HttpRequest {
    HttpRequest { method: "GET".to_owned(), url: url.to_owned(), headers: vec![], body: vec![], timeout_ms: 5_000 }
}

fn with_header(request: HttpRequest, name: &str, value: &str) -> HttpRequest {
    HttpRequest { headers: vec![(name.to_owned(), value.to_owned())], ..request }
}

async fn ask(rules: Vec<Rule>, request: HttpRequest) -> Result<HttpResponse, Refused> {
    let http = Some(HttpGrant::new(rules).expect("a client"));
    let egress = Egress { model: None, http, quota: Quota::default() };
    match egress.ask(&Question::Http(request), 0).await.expect("a network failure is an answer") {
        Reply::Http(response) => Ok(response),
        Reply::Refused(refused) => Err(refused),
        other => panic!("{other:?} is not the answer to a request"),
    }
}

fn body(response: &HttpResponse) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

fn denied(result: Result<HttpResponse, Refused>) -> String {
    match result {
        Err(Refused::Denied(why)) => why,
        other => panic!("{other:?} should have been denied"),
    }
}

fn failed(result: Result<HttpResponse, Refused>) -> String {
    match result {
        Err(Refused::Failed(why)) => why,
        other => panic!("{other:?} should have failed"),
    }
}

#[tokio::test]
async fn an_allowed_request_is_sent_unchanged() {
    let server = Server::start(vec![response("201 Created", "x-kind: real\r\n", "hello")]).await;
    let rule = private(&server).with_methods(&["POST"]).expect("a method");
    let request = HttpRequest { method: "POST".to_owned(), body: b"payload".to_vec(), ..get(&server.url("/a?b=c")) };
    let answer = ask(vec![rule], with_header(request, "x-mine", "1")).await.expect("allowed");
    assert_eq!((answer.status, body(&answer).as_str()), (201, "hello"));
    assert!(answer.headers.contains(&("x-kind".to_owned(), "real".to_owned())), "{:?}", answer.headers);
    let request = server.requests().remove(0);
    assert!(request.starts_with("POST /a?b=c HTTP/1.1\r\n") && request.contains("x-mine: 1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\npayload"), "{request}");
}

#[tokio::test]
async fn other_servers_and_methods_are_denied_with_the_line_that_would_allow_them() {
    let server = Server::start(vec![response("200 OK", "", "")]).await;
    let other = Server::start(vec![response("200 OK", "", "")]).await;
    let why = denied(ask(vec![private(&server)], get(&other.url("/"))).await);
    assert!(why.contains(&format!("{{ allow = \"{}\" }}", other.url(""))), "{why}");
    let request = HttpRequest { method: "DELETE".to_owned(), ..get(&server.url("/")) };
    let why = denied(ask(vec![private(&server)], request).await);
    assert!(why.contains("add \"DELETE\" to `methods`"), "{why}");
    assert_eq!((server.requests().len(), other.requests().len()), (0, 0));
}

#[tokio::test]
async fn private_addresses_need_a_grant_whatever_they_are_called() {
    let server = Server::start(vec![response("200 OK", "", "in")]).await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"] {
        let url = format!("http://{host}:{}/", server.port());
        let why = denied(ask(vec![Rule::parse(url.trim_end_matches('/')).expect("a server")], get(&url)).await);
        assert!(why.contains("private = true"), "{host}: {why}");
    }
    assert_eq!(server.requests().len(), 0);
    for host in ["127.0.0.1", "localhost", "0x7f.1"] {
        let url = format!("http://{host}:{}/", server.port());
        let mut rule = Rule::parse(url.trim_end_matches('/')).expect("a server");
        rule.private = true;
        assert_eq!(body(&ask(vec![rule], get(&url)).await.expect("granted")), "in", "{host}");
    }
}

#[tokio::test]
async fn link_local_addresses_and_metadata_services_are_denied_under_every_rule() {
    for host in [
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "0.0.0.0",
        "224.0.0.1",
        "168.63.129.16",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
    ] {
        let url = format!("http://{host}/");
        let mut rule = Rule::parse(url.trim_end_matches('/')).expect("a server");
        rule.private = true;
        let why = denied(ask(vec![rule], get(&url)).await);
        assert!(why.contains("is not allowed for plugins"), "{host}: {why}");
    }
}

#[tokio::test]
async fn redirects_are_followed_by_the_rules_and_no_further() {
    let goal = Server::start(vec![Response::Echo]).await;
    let moved = |status: &str, to: &str| response(status, &format!("location: {to}\r\n"), "");
    let first = Server::start(vec![moved("302 Found", &goal.url("/there"))]).await;
    let request = with_header(get(&first.url("/")), "authorization", "mine");
    let answer = ask(vec![private(&first), private(&goal)], request.clone()).await.expect("both are allowed");
    assert!(body(&answer).starts_with("GET /there HTTP/1.1"), "{}", body(&answer));
    assert!(first.requests()[0].contains("authorization: mine"), "the first server receives it");
    assert!(!body(&answer).contains("mine"), "another server is not: {}", body(&answer));

    let why = denied(ask(vec![private(&first)], request).await);
    assert!(why.contains(&goal.url("")), "{why}");
    // The same server under a name that is not allowed, and an address that is never allowed.
    for place in [format!("http://localhost:{}/", first.port()), "http://169.254.169.254/".to_owned()] {
        let sly = Server::start(vec![moved("307 Temporary Redirect", &place)]).await;
        denied(ask(vec![private(&sly)], get(&sly.url("/"))).await);
    }
    let round = Server::start(vec![moved("301 Moved Permanently", "/again")]).await;
    let why = failed(ask(vec![private(&round)], get(&round.url("/"))).await);
    assert!(why.contains("more than 5 times") && round.requests().len() == 6, "{why}");
}

#[tokio::test]
async fn a_redirected_post_keeps_its_body_only_where_it_must() {
    for (status, method, kept) in [("303 See Other", "GET", false), ("307 Temporary Redirect", "POST", true)] {
        let server = Server::start(vec![response(status, "location: /next\r\n", ""), Response::Echo]).await;
        let rule = private(&server).with_methods(&["POST", "GET"]).expect("methods");
        let request = HttpRequest { method: "POST".to_owned(), body: b"cargo".to_vec(), ..get(&server.url("/")) };
        let seen = body(&ask(vec![rule], request).await.expect("allowed"));
        assert!(seen.starts_with(&format!("{method} /next")) && seen.contains("cargo") == kept, "{status}: {seen}");
    }
}

#[tokio::test]
async fn secrets_reach_only_their_server() {
    let secret = "Bearer s3cret";
    let server = Server::start(vec![Response::Echo]).await;
    let rule = || private(&server).with_secret("authorization", Secret::new(secret)).expect("a header");
    let answer =
        ask(vec![rule()], with_header(get(&server.url("/")), "authorization", "guess")).await.expect("allowed");
    assert!(server.requests()[0].contains("authorization: Bearer s3cret"), "the host's value replaces the guest's");
    let shown = format!("{answer:?} {}", body(&answer));
    assert!(!shown.contains("s3cret") && shown.contains("[secret]"), "an echo hides the secret: {shown}");

    let teller = Server::start(vec![response("200 OK", "x-token: s3cret\r\n", "your token is s3cret")]).await;
    let mut rule_of_teller = private(&teller);
    rule_of_teller.time = Duration::from_secs(5);
    let answer = ask(vec![rule(), rule_of_teller], get(&teller.url("/"))).await.expect("allowed");
    assert!(
        !format!("{answer:?} {}", body(&answer)).contains("s3cret"),
        "another server's response hides the secret too"
    );
    let leaks = Server::start(vec![response("302 Found", "location: /?t=s3cret\r\n", "")]).await;
    let rule = private(&leaks).with_secret("authorization", Secret::new(secret)).expect("a header");
    assert!(failed(ask(vec![rule], get(&leaks.url("/"))).await).contains("to a URL that contains a secret"));

    let other = Server::start(vec![Response::Echo]).await;
    let sends_on =
        Server::start(vec![response("307 Temporary Redirect", &format!("location: {}\r\n", other.url("/")), "")]).await;
    let rule = private(&sends_on).with_secret("authorization", Secret::new(secret)).expect("a header");
    let answer = ask(vec![rule, private(&other)], get(&sends_on.url("/"))).await.expect("allowed");
    assert!(sends_on.requests()[0].contains("s3cret") && !other.requests()[0].contains("authorization"), "{answer:?}");
}

#[tokio::test]
async fn secrets_are_hidden_in_every_promised_spelling() {
    // base64 of `operator:pa=ss/word`, and its spellings by Python's json, urllib.parse and base64.
    let secret = "Basic b3BlcmF0b3I6cGE9c3Mvd29yZA==";
    let spellings = [
        "Basic b3BlcmF0b3I6cGE9c3Mvd29yZA==",
        "b3BlcmF0b3I6cGE9c3Mvd29yZA==",
        r"b3BlcmF0b3I6cGE9c3Mvd29yZA\u003d\u003D",
        "Basic+b3BlcmF0b3I6cGE9c3Mvd29yZA%3D%3d",
        "Basic%20b3BlcmF0b3I6cGE9c3Mvd29yZA%3d%3D",
        "operator",
        "pa=ss/word",
        r"pa\u003dss\/word",
        r"\u0070\u0061\u003D\u0073\u0073\u002f\u0077\u006F\u0072\u0064",
        "pa%3Dss%2Fword",
        "pa%3dss%2fword",
        "cGE9c3Mvd29yZA==",
        "QmFzaWMgYjNCbGNtRjBiM0k2Y0dFOWMzTXZkMjl5WkE9PQ==",
    ];
    let twin = "Basic b3BlcmF0ZXI6cGE4c3Mtd29yZA; operater pa=ss-word pa%3Dss%2Dword";
    for spelling in spellings {
        let headers = format!("x-token: <{spelling}>\r\nx-other: {twin}\r\n");
        let server = Server::start(vec![response("200 OK", &headers, &format!("<{spelling}> {twin}"))]).await;
        let rule = private(&server).with_secret("authorization", Secret::new(secret)).expect("a header");
        let answer = ask(vec![rule], get(&server.url("/"))).await.expect("allowed");
        let header =
            |name: &str| answer.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let hidden = header("x-token").expect("the header is kept");
        for shown in [hidden.as_str(), &body(&answer)] {
            // The signs `=` at the end of base64 are not secret.
            assert!(shown.starts_with("<[secret]") && !shown.contains("word>"), "{spelling}: {shown}");
            assert!(!shown.contains(spelling.trim_end_matches(['=', '>'])), "{spelling}: {shown}");
        }
        assert_eq!(header("x-other").as_deref(), Some(twin), "another text passes unchanged");
        assert!(body(&answer).ends_with(&format!("> {twin}")), "{}", body(&answer));
        // A redirect to a server whose name the guest would read in the error.
        let leaks = Server::start(vec![response("302 Found", "location: http://operator.example/\r\n", "")]).await;
        let rule = private(&leaks).with_secret("authorization", Secret::new(secret)).expect("a header");
        let refused = ask(vec![rule], get(&leaks.url("/"))).await.expect_err("the target is not allowed");
        assert!(!format!("{refused:?}").contains("operator"), "{refused:?}");
    }
}

#[tokio::test]
async fn headers_of_the_connection_are_not_the_guests() {
    let server = Server::start(vec![response("200 OK", "", "")]).await;
    for name in
        ["Host", "Accept-Encoding", "Range", "content-length", "Transfer-Encoding", "connection", "proxy-authorization"]
    {
        let answer = ask(vec![private(&server)], with_header(get(&server.url("/")), name, "evil.example")).await;
        assert!(matches!(&answer, Err(Refused::Invalid(why)) if why.contains(name)), "{name}: {answer:?}");
    }
    let split = ask(vec![private(&server)], with_header(get(&server.url("/")), "x", "a\r\nhost: b")).await;
    assert!(matches!(split, Err(Refused::Invalid(_))), "{split:?}");
    let password = ask(vec![private(&server)], get(&format!("http://me:pass@127.0.0.1:{}/", server.port()))).await;
    assert!(matches!(password, Err(Refused::Invalid(_))), "{password:?}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn responses_are_bounded_whether_or_not_their_length_is_said() {
    let sized = |length: usize| response("200 OK", "", &"x".repeat(length));
    let chunk = format!("400\r\n{}\r\n", "y".repeat(1024));
    let head = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
    let unsized_body = Response::Bytes(format!("{head}0\r\n\r\n").into_bytes());
    for (says, whole) in [
        // The header `content-length: 4074` takes 22 bytes.
        (sized(4074), Some(4074)),
        (sized(4075), None),
        (unsized_body, Some(1024)),
        (Response::Bytes(format!("{head}{}", chunk.repeat(5)).into_bytes()), None),
    ] {
        let server = Server::start(vec![says]).await;
        let mut rule = private(&server);
        rule.max_bytes = 4096;
        match (ask(vec![rule], get(&server.url("/"))).await, whole) {
            (Ok(answer), Some(length)) => assert_eq!(answer.body.len(), length),
            (answer, None) => assert!(failed(answer).contains("larger than the 4096 bytes")),
            (answer, Some(_)) => panic!("{answer:?}"),
        }
    }
}

#[tokio::test]
async fn headers_count_for_the_limit() {
    for (length, allowed) in [(30_000, true), (300_000, false)] {
        let server = Server::start(vec![response("200 OK", &format!("x-big: {}\r\n", "y".repeat(length)), "in")]).await;
        let mut rule = private(&server);
        rule.max_bytes = 64 << 10;
        match ask(vec![rule], get(&server.url("/"))).await {
            Ok(answer) => assert!(allowed && body(&answer) == "in", "{length}"),
            Err(refused) => {
                let why = failed(Err(refused));
                assert!(!allowed && why.contains("larger than the 65536 bytes"), "{length}: {why}");
            }
        }
    }
}

#[tokio::test]
async fn headers_without_end_fail() {
    let server = Server::start(vec![Response::Endless(b"x-more: yes\r\n".to_vec())]).await;
    failed(ask(vec![private(&server)], get(&server.url("/"))).await);
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let half = Response::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec());
    let server = Server::start(vec![half]).await;
    failed(ask(vec![private(&server)], get(&server.url("/"))).await);
    for (guests, rules) in [(100, 10_000), (10_000, 100)] {
        let server = Server::start(vec![Response::Silence]).await;
        let mut rule = private(&server);
        rule.time = Duration::from_millis(rules);
        let began = Instant::now();
        let why = failed(ask(vec![rule], HttpRequest { timeout_ms: guests, ..get(&server.url("/")) }).await);
        assert!(why.contains("did not answer for 0.1 s") && began.elapsed() < Duration::from_secs(8), "{why}");
    }
    let gone = Server::start(vec![Response::Silence]).await.url("/");
    let closed = gone.replace(&gone[17..gone.len() - 1], "1");
    let mut rule = Rule::parse("http://127.0.0.1:1").expect("a server");
    rule.private = true;
    failed(ask(vec![rule], get(&closed)).await);
}

/// The kernel accepts the connections of a listener whose program reads no request.
#[tokio::test]
async fn half_open_and_trickling_servers_end_at_the_bound() {
    let half_open = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut rule = Rule::parse(&format!("http://{}", half_open.local_addr().expect("one"))).expect("a server");
    rule.private = true;
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec();
    let trickling = Server::start(vec![Response::Trickle(head, Duration::from_millis(20))]).await;
    for mut rule in [rule, private(&trickling)] {
        rule.time = Duration::from_millis(700);
        let (url, began) = (rule.server(), Instant::now());
        let why = failed(ask(vec![rule], get(&url)).await);
        assert_eq!(why, "the server of a plugin's request did not answer for 0.7 s", "{url}");
        assert!(began.elapsed() < Duration::from_secs(8), "{url}: {:?}", began.elapsed());
    }
}

/// Started by the test below with proxies in its environment.
#[tokio::test]
#[ignore = "needs the environment that the next test gives it"]
async fn child_with_proxies() {
    let server = Server::start(vec![response("200 OK", "", "direct")]).await;
    assert_eq!(body(&ask(vec![private(&server)], get(&server.url("/"))).await.expect("allowed")), "direct");
}

#[test]
fn proxies_of_the_environment_are_ignored() {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program);
    child.args(["http::child_with_proxies", "--exact", "--ignored"]);
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
        child.env(variable, "http://127.0.0.1:1");
    }
    let output = child.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
