//! Time of pages over a run with a million episodes.
//!
//! ```text
//! cargo bench -p gymkhana-page [EPISODES]
//! ```

#![allow(clippy::print_stdout, missing_docs)]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use gymkhana_page::{Access, router};
use gymkhana_record::{
    Ending, EpisodeId, EpisodeRecord, Part, Phase, PolicyTurn, Sampled, Seed, Segment, TaskRef, Turn,
};
use gymkhana_store::RunFolder;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

/// Goal for a page.
const GOAL: Duration = Duration::from_millis(200);
/// Episodes of a part, as between two checkpoints of a run.
const PART: u64 = 20_000;
/// Repetitions of each page; the median counts.
const REPEATS: usize = 9;

fn main() {
    let count = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let start = Instant::now();
    write_run(&path, count);
    println!("{count} episodes written in {:.1?}", start.elapsed());
    let address: SocketAddr = "127.0.0.1:8123".parse().expect("an address");
    let router = router(&[path], Access::new(address, None).expect("access"), None).expect("a router");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (time, _) = runtime.block_on(fetch(&router, "/runs/0/episodes"));
    println!("first page, which indexes the run: {time:.1?}");
    let last = count / 8 - 1;
    let mut slow = 0;
    for (name, path) in [
        ("first page", "/runs/0/episodes".to_owned()),
        ("page in the middle", format!("/runs/0/episodes?from={}", count / 2)),
        ("last page", format!("/runs/0/episodes?from={}", count - 50)),
        ("newest first", "/runs/0/episodes?order=newest".to_owned()),
        ("highest reward first", "/runs/0/episodes?order=highest-reward".to_owned()),
        ("solved, with a high reward", "/runs/0/episodes?success=yes&reward_min=0.99".to_owned()),
        ("solved, lowest reward first", "/runs/0/episodes?success=yes&order=lowest-reward".to_owned()),
        ("one episode", format!("/runs/0/episodes/0.train.{}.0.3.0", last / 2)),
        ("one group", format!("/runs/0/groups/0.train.{last}.0")),
        ("frequent text", "/runs/0/episodes?text=answer".to_owned()),
        ("overview", "/".to_owned()),
    ] {
        let mut times: Vec<Duration> = (0..REPEATS).map(|_| runtime.block_on(fetch(&router, &path)).0).collect();
        times.sort_unstable();
        let median = times[REPEATS / 2];
        let mark = if median > GOAL { " SLOW" } else { "" };
        slow += usize::from(median > GOAL);
        println!("{name}: {median:.1?}, at most {:.1?}{mark}", times[REPEATS - 1]);
    }
    for (name, path) in
        [("rare text", "/runs/0/episodes?text=no+such+text"), ("rewards of a sample", "/runs/0/rewards")]
    {
        println!("{name}, bounded by its time limit: {:.1?}", runtime.block_on(fetch(&router, path)).0);
    }
    assert_eq!(slow, 0, "pages above {GOAL:?}");
}

async fn fetch(router: &Router, path: &str) -> (Duration, String) {
    let request = Request::builder().uri(path).header("host", "127.0.0.1:8123").body(Body::empty()).expect("a request");
    let start = Instant::now();
    let answer = router.clone().oneshot(request).await.expect("an answer");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    let time = start.elapsed();
    assert_eq!(status, StatusCode::OK, "{path}");
    (time, String::from_utf8_lossy(&body).into_owned())
}

/// Writes a run with groups of eight short episodes.
fn write_run(path: &Path, count: u64) {
    let run = RunFolder::create(path, "seed = 1\n[[stages]]\nkind = \"rl\"\n").expect("a run");
    let mut store = run.episodes().expect("the store opens");
    for number in 0..count {
        store.append(&episode(number)).expect("appended");
        if number % PART == PART - 1 {
            store.commit().expect("a part");
        }
    }
    store.commit().expect("parts");
}

fn episode(number: u64) -> EpisodeRecord {
    let id = EpisodeId {
        stage: 0,
        phase: Phase::Train,
        step: number / 8,
        group: 0,
        member: (number % 8) as u32,
        attempt: 0,
    };
    let mut random = Seed(number).child("bench").stream();
    let task = TaskRef { split: "train".to_owned(), index: random.below(10_000) };
    let mut record = EpisodeRecord::new(id, task, Seed(number), Ending::Terminated);
    let say = |text: String| vec![Part::Text(text)];
    record.turns = vec![
        Turn::Observation {
            seat: 0,
            content: say(format!("What is {} + {}?", random.below(1000), random.below(1000))),
        },
        Turn::Message { seat: 0, content: say(format!("The answer is {}.", random.below(2000))) },
    ];
    let (seat, turn, transcript, steps) = (0, 0, 1, 0);
    record.policy_turns = vec![PolicyTurn {
        seat,
        turn,
        transcript,
        steps,
        state: None,
        probe_score: None,
        thought_tokens: 0,
        note: None,
    }];
    let tokens: Vec<u32> = (0..8).map(|_| random.below(50_000) as u32).collect();
    let mut segment = Segment::new(0);
    segment.append_given(&tokens, 0);
    let sampled = Sampled { log_probs: vec![-0.5; 8], entropies: vec![0.5; 8], versions: vec![1; 8], tokens };
    segment.append_sampled(&sampled, 0).expect("even columns");
    record.segments = vec![segment];
    record.rewards = vec![random.unit()];
    record.success = record.rewards[0] > 0.5;
    record
}
