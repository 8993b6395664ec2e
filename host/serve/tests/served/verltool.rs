//! VerlTool's endpoint: calls, failures with their owner, repetitions, and many trajectories at once.

use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::common::{head, post, serve, verltool_body};

fn call(name: &str, arguments: &Json) -> String {
    format!("<tool_call>{}</tool_call>", json!({ "name": name, "arguments": arguments }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_call_tools() {
    let served = serve(&["calculator"], "").await;
    let answer = served.observe("a", "Let me see. <calculator>7/3 + 1</calculator>", json!({})).await;
    assert_eq!(
        (&answer["observations"][0], &answer["dones"], &answer["valids"]),
        (&json!("10/3"), &json!([false]), &json!([true]))
    );
    assert!(answer["processing_time_ms"].is_f64(), "further top-level numbers are metrics of the client: {answer}");
    let answer = served.observe("a", "<calculate>2^10</calculate>", json!({})).await;
    assert_eq!(answer["observations"][0], "1024", "a function's name is a tag as well");
    let answer = served.observe("a", "no call at all", json!({})).await;
    assert_eq!((&answer["valids"], &answer["dones"]), (&json!([false]), &json!([false])));
    assert_eq!(answer["observations"][0]["owner"], "agent");
    let end = verltool_body("a", "", json!({})).replace("\"finish\":[false]", "\"finish\":[true]");
    let (status, answer) = post(served.address, "/get_observation", &end).await;
    assert_eq!((status, &answer["dones"]), (200, &json!([true])));
    assert_eq!(served.sessions.counts().open, 0);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_name_who_is_at_fault_and_spare_other_trajectories() {
    let served = serve(&["guest-hostile-tool"], "").await;
    let owner = async |trajectory: &str, action: String| {
        let answer = served.observe(trajectory, &action, json!({})).await;
        (
            answer["observations"][0]["owner"].clone(),
            answer["dones"][0].clone(),
            answer["observations"][0]["obs"].clone(),
        )
    };
    assert_eq!(
        served.observe("calm", &call("echo", &json!({"text": "one"})), json!({})).await["observations"][0],
        "one"
    );
    let (who, done, text) = owner("a", call("trap", &json!({}))).await;
    assert_eq!((who, done), (json!("tool"), json!(false)));
    assert!(text.as_str().unwrap().starts_with("the tool failed: it crashed"), "{text}");
    assert_eq!(owner("a", call("failed", &json!({}))).await.0, "agent", "the tool refuses what the agent asked");
    assert_eq!(owner("a", call("no-such-function", &json!({}))).await.0, "agent");
    assert_eq!(owner("a", "<tool_call>{\"name\": 3}</tool_call>".to_owned()).await.0, "agent");
    assert_eq!(owner("b", call("loop", &json!({}))).await.0, "tool");
    assert_eq!(served.observe("calm", &call("state", &json!({})), json!({})).await["valids"], json!([true]));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_action_is_a_retry_exactly_if_its_answer_was_lost() {
    let served = serve(&["guest-hostile-tool"], "").await;
    let state = call("state", &json!({}));
    let count = async || {
        let answer = served.observe("a", &state, json!({})).await;
        answer["observations"][0].as_str().unwrap().parse::<u64>().unwrap()
    };
    let first = count().await;
    assert_eq!(count().await, first + 1, "an answer that arrived makes the same text another turn");
    // The connection ends while the tool works. Its answer is lost, and the repetition gets it.
    let work = verltool_body("a", &call("work", &json!({ "size": 100_000_000 })), json!({}));
    let mut lost = TcpStream::connect(served.address).await.unwrap();
    lost.write_all(head("POST", "/get_observation", work.len(), "").as_bytes()).await.unwrap();
    lost.write_all(work.as_bytes()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    drop(lost);
    let (_, answer) = post(served.address, "/get_observation", &work).await;
    assert_eq!(answer["valids"], json!([true]), "{answer}");
    assert_eq!(count().await, first + 3, "the work was done once");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_trajectories_at_once_do_not_mix() {
    let served = serve(&["calculator"], "").await;
    let all = (0..64).map(|number| {
        let served = &served;
        async move {
            for turn in 0..5 {
                let action = format!("<calculator>{number}*1000+{turn}</calculator>");
                let answer = served.observe(&format!("t{number}"), &action, json!({})).await;
                assert_eq!(answer["observations"][0], (number * 1000 + turn).to_string());
            }
        }
    });
    futures::future::join_all(all).await;
    assert_eq!(served.sessions.counts().open, 64);
    served.stop().await;
}
