//! Outbound calls of plugins in an episode: limited by quotas, recorded, and answered from the record in a replay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Table, answers, call, limits, play, rollout, rollout_in};
use gymkhana_chat::ReplyPiece;
use gymkhana_egress::{CompletionSource, Egress, HttpGrant, ModelServer, Offline};
use gymkhana_net::Rule;
use gymkhana_policy::{Sampling, ScriptedPolicy};
use gymkhana_record::{Boundary, Ending, EpisodeRecord, Exchange, FailureKind, Question, Refused, Reply, Seed};
use gymkhana_rollout::{Actor, EpisodePlan, ReplayDifference};
use gymkhana_sandbox::{Outbound, OutboundError, OutboundFuture, Quota, Sandbox, SandboxConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const QUOTA: Quota = Quota { model_calls: 8, model_tokens: 1000, http_requests: 8, tool_calls: 0 };

/// A scripted model that gives these replies in order, in each episode.
fn script(replies: &[&str], quota: Quota) -> Arc<dyn Outbound> {
    let script = CompletionSource::Script(replies.iter().map(|reply| (*reply).to_owned()).collect());
    Arc::new(Egress { model: Some(script.into()), http: None, quota })
}

/// A server on loopback that gives a different response to every request.
async fn counting_server(body: impl Fn(u32) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            // The requests of these tests arrive in one piece.
            let mut request = [0; 8192];
            let _ = stream.read(&mut request).await;
            let body = body(number);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    port
}

/// Replays the record without an outbound client.
async fn replayed_offline(table: Table, plugins: &[&str], quota: Quota, record: &EpisodeRecord) -> EpisodeRecord {
    let offline = |table: Table, plugin: &&str| table.with_granted_outbound(plugin, Arc::new(Offline(quota)));
    let rollout = rollout(&plugins.iter().fold(table, offline), limits()).await;
    rollout.replay_group(std::slice::from_ref(record)).await.expect("no fault of the host").remove(0)
}

fn asked_by(record: &EpisodeRecord, at: &Boundary) -> usize {
    record.exchanges.iter().filter(|exchange| exchange.at == *at).count()
}

#[tokio::test]
async fn a_tools_requests_to_real_servers_are_recorded_and_replayed() {
    let page = counting_server(|number| format!("page {number}")).await;
    let judge = counting_server(|number| {
        format!(
            r#"{{"choices": [{{"message": {{"content": "answer {number}"}}, "finish_reason": "stop"}}],
                "usage": {{"prompt_tokens": 3, "completion_tokens": 2}}}}"#
        )
    });
    let url = format!("http://127.0.0.1:{}/v1", judge.await).parse().expect("a URL");
    let mut rule = Rule::parse(&format!("http://127.0.0.1:{page}")).expect("a server");
    rule.private = true;
    let server = ModelServer::new(url, "judge".to_owned(), None).expect("a client");
    let world = Egress {
        model: Some(CompletionSource::Server(server).into()),
        http: Some(HttpGrant::new(vec![rule]).expect("a client")),
        quota: QUOTA,
    };
    let table = || Table::new().tool("guest-asking-tool", &[]);
    let live = rollout(&table().with_granted_outbound("guest-asking-tool", Arc::new(world)), limits()).await;
    let get = call("send", &format!(r#"{{"url": "http://127.0.0.1:{page}/"}}"#));
    let ask = call("complete", r#"{"words": "which?"}"#);
    let elsewhere = call("send", r#"{"url": "http://10.0.0.1/"}"#);
    let chance = call("chance", "{}");
    let record = play(&live, &[&get, &ask, &chance, &get, &elsewhere, &ask, "done"]).await;
    let texts: Vec<String> = answers(&record).into_iter().map(|(text, _)| text).collect();
    let (pages, judged) = ([&texts[0], &texts[3]], [&texts[1], &texts[5]]);
    assert_eq!(
        (pages, judged),
        ([&"200: page 0".into(), &"200: page 1".into()], [&"answer 0 (3+2)".into(), &"answer 1 (3+2)".into()])
    );
    assert!(texts[4].contains("the run does not allow `http://10.0.0.1`"), "{}", texts[4]);
    let during: Vec<String> = record.exchanges.iter().map(|exchange| exchange.call_site.to_string()).collect();
    assert_eq!(during, ["call-0", "call-1", "call-3", "call-4", "call-5"]);

    let again = replayed_offline(table(), &["guest-asking-tool"], QUOTA, &record).await;
    assert_eq!(ReplayDifference::between(&record, &again), None);

    // A changed record is reported as a difference.
    let mut forged = record.clone();
    forged.exchanges[0].reply = Reply::Refused(Refused::Failed("nothing".to_owned()));
    let again = replayed_offline(table(), &["guest-asking-tool"], QUOTA, &forged).await;
    assert!(ReplayDifference::between(&record, &again).is_some());
    let mut shortened = record.clone();
    shortened.exchanges.truncate(2);
    let again = replayed_offline(table(), &["guest-asking-tool"], QUOTA, &shortened).await;
    let failure = again.failures.first().expect("the record has no answer");
    assert!(
        failure.kind == FailureKind::Fault && failure.message.contains("more outbound calls than recorded"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_simulated_user_is_answered_by_a_model_and_replayed_without_it() {
    let table = || Table::new().environment("guest-asking-environment", &[]);
    let words = ["A table, please.", "At eight.", "thanks"];
    let live = table().with_granted_outbound("guest-asking-environment", script(&words, QUOTA));
    let record = play(&rollout(&live, limits()).await, &["When?", "Done."]).await;
    assert_eq!((record.ending, record.success, &record.rewards[..]), (Ending::Terminated, true, &[1.0][..]));
    let message_count = |exchange: &Exchange| match &exchange.question {
        Question::Model(request) => request.messages.len(),
        _ => 0,
    };
    // The instruction; then two more messages with each turn.
    assert_eq!(record.exchanges.iter().map(message_count).collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(
        record.exchanges.iter().map(|each| each.call_site.to_string()).collect::<Vec<_>>(),
        ["start", "step 0", "step 1"]
    );
    let again = replayed_offline(table(), &["guest-asking-environment"], QUOTA, &record).await;
    assert_eq!(ReplayDifference::between(&record, &again), None);
}

#[tokio::test]
async fn a_used_up_quota_refuses_in_episode_and_replay() {
    let table = || Table::new().tool("guest-asking-tool", &[]);
    let ask = call("complete", r#"{"words": "one two three"}"#);
    // Each question and its reply have four words, which a script counts as tokens.
    for (quota, answered, why) in [
        (Quota { model_calls: 2, ..QUOTA }, 2, "used up its 2 completions"),
        (Quota { model_tokens: 9, ..QUOTA }, 3, "used up its 9 tokens"),
    ] {
        let live = table().with_granted_outbound("guest-asking-tool", script(&["yes"], quota));
        let record = play(&rollout(&live, limits()).await, &[&ask, &ask, &ask, &ask, &ask, "done"]).await;
        let texts = answers(&record);
        assert!(texts[..answered].iter().all(|(text, failed)| text == "yes (3+1)" && !failed), "{texts:?}");
        assert!(texts[answered..].iter().all(|(text, failed)| text.contains(why) && *failed), "{texts:?}");
        assert_eq!(record.exchanges.len(), answered, "a refusal by quota is not recorded");
        let again = replayed_offline(table(), &["guest-asking-tool"], quota, &record).await;
        assert_eq!(ReplayDifference::between(&record, &again), None);
    }
}

/// Outbound calls of a call that the clock ended are not repeated, but they still count against the quota.
#[tokio::test]
async fn a_call_ended_by_the_clock_counts_against_the_quota_in_a_replay() {
    let table = || Table::new().tool("guest-asking-tool", &[]);
    let quota = Quota { model_calls: 2, ..QUOTA };
    let live =
        rollout(&table().with_granted_outbound("guest-asking-tool", script(&["one", "two"], quota)), limits()).await;
    let (hang, ask) = (call("ask-and-hang", r#"{"words": "?"}"#), call("complete", r#"{"words": "?"}"#));
    let record = play(&live, &[&hang, &ask, &ask, "done"]).await;
    assert_eq!(record.failures.iter().map(|failure| failure.kind).collect::<Vec<_>>(), [FailureKind::Budget]);
    let texts: Vec<String> = answers(&record).into_iter().map(|(text, _)| text).collect();
    assert!(texts[1].starts_with("two") && texts[2].contains("used up its 2 completions"), "{texts:?}");
    let again = replayed_offline(table(), &["guest-asking-tool"], quota, &record).await;
    assert_eq!(ReplayDifference::between(&record, &again), None);
}

#[tokio::test]
async fn outbound_calls_of_an_oracle_are_not_repeated() {
    let table = || Table::new().environment("guest-asking-environment", &[]);
    let words = ["A table, please.", "a butler", "At eight.", "a waiter", "thanks"];
    let live =
        rollout(&table().with_granted_outbound("guest-asking-environment", script(&words, QUOTA)), limits()).await;
    let record = crate::common::play_by(&live, Actor::Oracle).await;
    assert_eq!((record.ending, record.exchanges.len()), (Ending::Terminated, 5), "{:?}", record.failures);
    let again = replayed_offline(table(), &["guest-asking-environment"], QUOTA, &record).await;
    assert_eq!(ReplayDifference::between(&record, &again), None);
}

/// Fails the first calls, then answers.
struct Shaky {
    failures: AtomicU32,
}

impl Outbound for Shaky {
    fn quota(&self) -> Quota {
        QUOTA
    }

    fn ask<'a>(&'a self, question: &'a Question, earlier: u32) -> OutboundFuture<'a, Reply> {
        Box::pin(async move {
            let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_ok() {
                return Err(OutboundError("the server is down".to_owned()));
            }
            script(&["yes"], QUOTA).ask(question, earlier).await
        })
    }
}

/// An unreachable server costs no reward: the episode is repeated, and dropped if that does not help.
#[tokio::test]
async fn an_unreachable_server_drops_the_episode_without_reward() {
    let sandbox =
        Sandbox::new(&SandboxConfig { max_instances: Some(8), ..SandboxConfig::default() }).expect("a sandbox");
    for (failures, ending, attempt) in [(1, Ending::Terminated, 1), (9, Ending::Dropped, 1)] {
        let world = Arc::new(Shaky { failures: failures.into() });
        let table = Table::new().tool("guest-asking-tool", &[]).with_granted_outbound("guest-asking-tool", world);
        let rollout = rollout_in(&sandbox, &table, limits(), 1).await;
        let record = play(&rollout, &[&call("complete", r#"{"words": "?"}"#), "1"]).await;
        assert_eq!((record.ending, record.id.attempt), (ending, attempt), "{:?}", record.failures);
    }
}

async fn scored(world: Arc<dyn Outbound>, reply: &str) -> EpisodeRecord {
    let table = Table::new().tool("calculator", &[]).reward("guest-asking-reward", &[]);
    play(&rollout(&table.with_granted_outbound("guest-asking-reward", world), limits()).await, &[reply]).await
}

#[tokio::test]
async fn a_reward_calls_a_tool_and_a_judge_model() {
    for (reply, verdict, components) in [
        ("6 * 7", "yes", [1.0, 1.0]),
        ("6 * 8", "yes", [0.0, 1.0]),
        ("6 * 7", "no", [1.0, 0.0]),
        ("6 *", "no", [0.0, 0.0]),
    ] {
        let record = scored(script(&[verdict], QUOTA), reply).await;
        let score = &record.scores[0].scores[0];
        assert_eq!(score.components.iter().map(|each| each.value).collect::<Vec<_>>(), components, "{reply} {verdict}");
        assert_eq!(asked_by(&record, &Boundary::Reward("guest-asking-reward".to_owned())), 2);
        let table = Table::new().tool("calculator", &[]).reward("guest-asking-reward", &[]);
        let again = replayed_offline(table, &["guest-asking-reward"], QUOTA, &record).await;
        assert_eq!(ReplayDifference::between(&record, &again), None);
    }
}

#[tokio::test]
async fn an_unreachable_judge_drops_the_group() {
    let record = scored(Arc::new(Shaky { failures: 9.into() }), "6 * 7").await;
    assert_eq!(record.ending, Ending::Dropped);
    assert_eq!(record.failures[0].kind, FailureKind::Fault);
}

#[tokio::test]
async fn forks_share_earlier_outbound_calls_and_make_later_ones() {
    let table = || Table::new().tool("guest-asking-tool", &[]);
    let words = ["first", "second", "third", "fourth"];
    let live = rollout(&table().with_granted_outbound("guest-asking-tool", script(&words, QUOTA)), limits()).await;
    let ask = call("complete", r#"{"words": "?"}"#);
    let record = play(&live, &[&ask, &ask, &ask, "done"]).await;
    let plan = |member| EpisodePlan {
        id: gymkhana_record::EpisodeId { member, ..record.id },
        task: record.task.clone(),
        seed: Seed(11).child(member),
        sampling: Sampling::GREEDY,
        place: member,
        turns: None,
        guidance: None,
    };
    let encode = |reply: &str| live.chat().encode_reply(&[ReplyPiece::Frame(reply)]).expect("a reply in tokens");
    let (replies, turns) = ([encode(&ask), encode("done")], AtomicU32::new(0));
    let rest = ScriptedPolicy::new(usize::MAX, |_| replies[turns.fetch_add(1, Ordering::SeqCst) as usize].clone());
    let forks = live.fork_recorded(&record, 2, vec![plan(1)], Actor::Policy(&rest)).await.expect("forked");
    let texts = |record: &EpisodeRecord| answers(record).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    assert_eq!(texts(&forks[0]), ["first (1+1)", "second (1+1)", "third (1+1)"]);
    assert_eq!(forks[0].exchanges.len(), 3, "two of the shared prefix and its own");
    let again = replayed_offline(table(), &["guest-asking-tool"], QUOTA, &forks[0]).await;
    assert_eq!(ReplayDifference::between(&forks[0], &again), None);
}
