//! Outgoing HTTP against real servers on loopback: what a rule allows arrives, and whatever tries to get around one is
//! refused.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Says, Server, response};
use gymkhana_egress::{Egress, HttpGrant, Rule};
use gymkhana_net::Secret;
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
    let outlet = Egress { model: None, http, quota: Quota::default() };
    match outlet.ask(&Question::Http(request), 0).await.expect("a network that fails is no fault of the host") {
        Reply::Http(response) => Ok(response),
        Reply::Refused(refused) => Err(refused),
        other => panic!("{other:?} is no answer to a request"),
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
async fn what_a_rule_allows_is_sent_as_it_is() {
    let server = Server::start(vec![response("201 Created", "x-kind: real\r\n", "hello")]).await;
    let rule = private(&server).with_methods(&["POST"]).expect("a method");
    let request = HttpRequest { method: "POST".to_owned(), body: b"payload".to_vec(), ..get(&server.url("/a?b=c")) };
    let answer = ask(vec![rule], with_header(request, "x-mine", "1")).await.expect("allowed");
    assert_eq!((answer.status, body(&answer).as_str()), (201, "hello"));
    assert!(answer.headers.contains(&("x-kind".to_owned(), "real".to_owned())), "{:?}", answer.headers);
    let heard = server.heard().remove(0);
    assert!(heard.starts_with("POST /a?b=c HTTP/1.1\r\n") && heard.contains("x-mine: 1\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\npayload"), "{heard}");
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
    assert_eq!((server.heard().len(), other.heard().len()), (0, 0));
}

#[tokio::test]
async fn private_addresses_need_a_grant_whatever_they_are_called() {
    let server = Server::start(vec![response("200 OK", "", "in")]).await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"] {
        let url = format!("http://{host}:{}/", server.port());
        let why = denied(ask(vec![Rule::parse(url.trim_end_matches('/')).expect("a server")], get(&url)).await);
        assert!(why.contains("private = true"), "{host}: {why}");
    }
    assert_eq!(server.heard().len(), 0);
    for host in ["127.0.0.1", "localhost", "0x7f.1"] {
        let url = format!("http://{host}:{}/", server.port());
        let mut rule = Rule::parse(url.trim_end_matches('/')).expect("a server");
        rule.private = true;
        assert_eq!(body(&ask(vec![rule], get(&url)).await.expect("granted")), "in", "{host}");
    }
}

#[tokio::test]
async fn no_grant_leads_to_where_machines_keep_their_credentials() {
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1"] {
        let url = format!("http://{host}/");
        let mut rule = Rule::parse(url.trim_end_matches('/')).expect("a server");
        rule.private = true;
        let why = denied(ask(vec![rule], get(&url)).await);
        assert!(why.contains("where no plugin may be sent"), "{host}: {why}");
    }
}

#[tokio::test]
async fn redirects_are_followed_by_the_rules_and_no_further() {
    let goal = Server::start(vec![Says::Echo]).await;
    let moved = |status: &str, to: &str| response(status, &format!("location: {to}\r\n"), "");
    let first = Server::start(vec![moved("302 Found", &goal.url("/there"))]).await;
    let request = with_header(get(&first.url("/")), "authorization", "mine");
    let answer = ask(vec![private(&first), private(&goal)], request.clone()).await.expect("both are allowed");
    assert!(body(&answer).starts_with("GET /there HTTP/1.1"), "{}", body(&answer));
    assert!(first.heard()[0].contains("authorization: mine"), "the first server is told");
    assert!(!body(&answer).contains("mine"), "another server is not: {}", body(&answer));

    let why = denied(ask(vec![private(&first)], request).await);
    assert!(why.contains(&goal.url("")), "{why}");
    // The same server under a name that was not allowed, or in a place that nobody may be sent to.
    for place in [format!("http://localhost:{}/", first.port()), "http://169.254.169.254/".to_owned()] {
        let sly = Server::start(vec![moved("307 Temporary Redirect", &place)]).await;
        denied(ask(vec![private(&sly)], get(&sly.url("/"))).await);
    }
    let round = Server::start(vec![moved("301 Moved Permanently", "/again")]).await;
    let why = failed(ask(vec![private(&round)], get(&round.url("/"))).await);
    assert!(why.contains("more than 5 times") && round.heard().len() == 6, "{why}");
}

#[tokio::test]
async fn a_redirected_post_keeps_its_body_only_where_it_must() {
    for (status, method, kept) in [("303 See Other", "GET", false), ("307 Temporary Redirect", "POST", true)] {
        let server = Server::start(vec![response(status, "location: /next\r\n", ""), Says::Echo]).await;
        let rule = private(&server).with_methods(&["POST", "GET"]).expect("methods");
        let request = HttpRequest { method: "POST".to_owned(), body: b"cargo".to_vec(), ..get(&server.url("/")) };
        let seen = body(&ask(vec![rule], request).await.expect("allowed"));
        assert!(seen.starts_with(&format!("{method} /next")) && seen.contains("cargo") == kept, "{status}: {seen}");
    }
}

#[tokio::test]
async fn secrets_reach_their_server_and_nobody_else() {
    let secret = "Bearer s3cret";
    let server = Server::start(vec![Says::Echo]).await;
    let rule = || private(&server).with_secret("authorization", Secret::new(secret)).expect("a header");
    let answer =
        ask(vec![rule()], with_header(get(&server.url("/")), "authorization", "guess")).await.expect("allowed");
    assert!(server.heard()[0].contains("authorization: Bearer s3cret"), "the host's stands in place of the guest's");
    let shown = format!("{answer:?} {}", body(&answer));
    assert!(!shown.contains("s3cret") && shown.contains("[secret]"), "an echo tells the guest nothing: {shown}");

    let told = Server::start(vec![response("200 OK", "x-token: s3cret\r\n", "your token is s3cret")]).await;
    let mut rule_of_told = private(&told);
    rule_of_told.time = Duration::from_secs(5);
    let answer = ask(vec![rule(), rule_of_told], get(&told.url("/"))).await.expect("allowed");
    assert!(!format!("{answer:?} {}", body(&answer)).contains("s3cret"), "nor does a server that was never sent it");
    let leaks = Server::start(vec![response("302 Found", "location: /?t=s3cret\r\n", "")]).await;
    let rule = private(&leaks).with_secret("authorization", Secret::new(secret)).expect("a header");
    assert!(failed(ask(vec![rule], get(&leaks.url("/"))).await).contains("with a secret in the URL"));

    let other = Server::start(vec![Says::Echo]).await;
    let sends_on =
        Server::start(vec![response("307 Temporary Redirect", &format!("location: {}\r\n", other.url("/")), "")]).await;
    let rule = private(&sends_on).with_secret("authorization", Secret::new(secret)).expect("a header");
    let answer = ask(vec![rule, private(&other)], get(&sends_on.url("/"))).await.expect("allowed");
    assert!(sends_on.heard()[0].contains("s3cret") && !other.heard()[0].contains("authorization"), "{answer:?}");
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
    assert_eq!(server.heard().len(), 0);
}

#[tokio::test]
async fn bodies_are_bounded_whether_or_not_their_length_is_said() {
    let sized = |length: usize| response("200 OK", "", &"x".repeat(length));
    let chunk = format!("400\r\n{}\r\n", "y".repeat(1024));
    let head = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
    let unsized_body = Says::Bytes(format!("{head}0\r\n\r\n").into_bytes());
    for (says, whole) in [
        (sized(4096), Some(4096)),
        (sized(4097), None),
        (unsized_body, Some(1024)),
        (Says::Bytes(format!("{head}{}", chunk.repeat(5)).into_bytes()), None),
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
async fn headers_without_end_fail() {
    let server = Server::start(vec![Says::Endless(b"x-more: yes\r\n".to_vec())]).await;
    failed(ask(vec![private(&server)], get(&server.url("/"))).await);
}

#[tokio::test]
async fn a_server_that_says_nothing_or_half_is_not_waited_for() {
    let half = Says::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec());
    let server = Server::start(vec![half]).await;
    failed(ask(vec![private(&server)], get(&server.url("/"))).await);
    for (guests, rules) in [(100, 10_000), (10_000, 100)] {
        let server = Server::start(vec![Says::Nothing]).await;
        let mut rule = private(&server);
        rule.time = Duration::from_millis(rules);
        let began = Instant::now();
        let why = failed(ask(vec![rule], HttpRequest { timeout_ms: guests, ..get(&server.url("/")) }).await);
        assert!(why.contains("within 100 ms") && began.elapsed() < Duration::from_secs(8), "{why}");
    }
    let gone = Server::start(vec![Says::Nothing]).await.url("/");
    let nobody = gone.replace(&gone[17..gone.len() - 1], "1");
    let mut rule = Rule::parse("http://127.0.0.1:1").expect("a server");
    rule.private = true;
    failed(ask(vec![rule], get(&nobody)).await);
}

/// Run by the test below, with proxies in its environment.
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
    child.args(["child_with_proxies", "--exact", "--ignored"]);
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
        child.env(variable, "http://127.0.0.1:1");
    }
    let output = child.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
