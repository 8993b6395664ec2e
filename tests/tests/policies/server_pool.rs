//! Several servers as one policy: which server gets a conversation, what happens when one fails, and who gets new weights.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::peer::{MODEL, Mischief, Peer, chat};
use crate::policy_servers::{model, open, server_settings};
use gymkhana_policy::{Conversation, GenerateRequest, Policy, PolicyError, Sampling};
use gymkhana_policy_server::{Protocol, ServerPool};
use gymkhana_record::Seed;
use gymkhana_trainer::Trainer;
use tempfile::TempDir;

/// Two servers of one model, the pool of them, and what it said.
struct Pair {
    peers: [Peer; 2],
    pool: ServerPool,
    said: Arc<Mutex<Vec<String>>>,
    local: Trainer,
    folder: TempDir,
}

async fn pair() -> Pair {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let local = open(&folder);
    let peers = [(); 2].map(|()| Peer::start(Protocol::Vllm, &folder.path().join("model")));
    let said = Arc::new(Mutex::new(vec![]));
    let sink = || {
        let said = Arc::clone(&said);
        Box::new(move |text| said.lock().expect("unpoisoned").push(text)) as gymkhana_net::StatusSink
    };
    let further = [peers[1].url().parse().expect("a URL")];
    let settings = server_settings(&peers[0], Protocol::Vllm, &local);
    let pool = ServerPool::connect(&settings, &further, chat(&local), sink).await.expect("they serve");
    assert_eq!(pool.servers().count(), 2, "{MODEL}");
    peers.iter().for_each(|peer| drop(peer.requests()));
    Pair { peers, pool, said, local, folder }
}

fn turn(conversation: u64, tokens: &[u32]) -> GenerateRequest {
    GenerateRequest {
        conversation: Conversation { id: conversation, place: 0 },
        tokens: tokens.into(),
        max_tokens: 6,
        stop: Arc::new([]),
        stop_texts: None,
        sampling: Sampling::at(1.0),
        seed: Seed(conversation),
        token_sink: None,
    }
}

impl Pair {
    /// Tokens that each server was asked to continue since the last call.
    fn asked(&self) -> [Vec<Vec<u64>>; 2] {
        let tokens = |prompt: &serde_json::Value| -> Vec<u64> {
            let list = prompt["prompt"].as_array().expect("token ids");
            list.iter().map(|token| token.as_u64().expect("a token")).collect()
        };
        [0, 1].map(|peer| {
            let requests = self.peers[peer].requests();
            let turns = requests.iter().filter(|(path, body)| path == "/v1/completions" && body["prompt"].is_array());
            turns.map(|(_, body)| tokens(body)).collect()
        })
    }

    /// Plays one turn of each conversation, and compares its tokens with those of the local model.
    async fn play(&self, turn_tokens: &[u32]) -> Vec<u32> {
        let mut versions = vec![];
        for conversation in 0..16 {
            let tokens = [&[72 + conversation as u32][..], turn_tokens].concat();
            let expected = self.local.generate(turn(conversation, &tokens)).await.expect("a reply");
            self.local.release(Conversation { id: conversation, place: 0 });
            let found = self.pool.generate(turn(conversation, &tokens)).await.expect("a reply");
            assert_eq!(found.sampled.tokens, expected.sampled.tokens);
            versions.push(found.sampled.versions[0]);
        }
        versions
    }

    fn said(&self, text: &str) -> bool {
        self.said.lock().expect("unpoisoned").iter().any(|line| line.contains(text))
    }
}

/// First tokens of conversations.
fn conversations(asked: &[Vec<u64>]) -> BTreeSet<u64> {
    asked.iter().map(|tokens| tokens[0]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_stay_on_their_server_and_leave_one_that_does_not_answer() {
    let pair = pair().await;
    pair.play(&[1]).await;
    let first = pair.asked();
    assert!(first.iter().all(|asked| asked.len() >= 3) && first[0].len() + first[1].len() == 16, "{first:?}");
    pair.play(&[1, 2]).await;
    let second = pair.asked();
    assert_eq!(second.each_ref().map(|asked| conversations(asked)), first.each_ref().map(|asked| conversations(asked)));
    // The second server closes its connections: its turns are repeated on the first.
    pair.peers[1].always(Some(Mischief::Closes));
    pair.play(&[1, 2, 3]).await;
    let third = pair.asked();
    assert_eq!(third[0].len(), 16);
    assert_eq!(conversations(&third[1]).len(), 1, "it is asked by one conversation, and by none after it: {third:?}");
    assert!(pair.said("its turns are repeated elsewhere, and one other server samples"), "{:?}", pair.said);
    assert!(pair.pool.gave_up().is_none());
    pair.play(&[1, 2]).await;
    assert_eq!(pair.asked()[1].len(), 0, "it gets no requests until it has the weights again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_left_after_the_time_of_a_request() {
    let folder = tokio::task::spawn_blocking(|| model(3)).await.expect("written");
    let local = open(&folder);
    let peers = [(); 2].map(|()| Peer::start(Protocol::Vllm, &folder.path().join("model")));
    let mut settings = server_settings(&peers[0], Protocol::Vllm, &local);
    settings.policy.timeout = Duration::from_millis(300);
    let further = [peers[1].url().parse().expect("a URL")];
    let pool = ServerPool::connect(&settings, &further, chat(&local), || Box::new(|_| {})).await.expect("they serve");
    peers[0].always(Some(Mischief::Hangs));
    for conversation in 0..8 {
        pool.generate(turn(conversation, &[72, 1])).await.expect("a reply of the other");
    }
}

/// The version of a conversation's tokens only grows: a server that returns gets the weights before it samples.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_returns_samples_once_it_has_the_weights() {
    let pair = pair().await;
    let folder = pair.folder.path().join("model");
    let text = pair.pool.fixed_text().expect("a text").expect("it fits");
    let expected = pair.local.score(text.clone()).await.expect("scored").log_probs;
    let compared = Some((&text, &expected[..]));
    pair.pool.push(&folder, 1, compared).await.expect("taken");
    assert_eq!(pair.peers.each_ref().map(|peer| peer.loaded().len()), [2, 2]);
    assert!(pair.play(&[1]).await.iter().all(|version| *version == 1));
    pair.peers[1].always(Some(Mischief::Closes));
    assert!(pair.play(&[2]).await.iter().all(|version| *version == 1));
    pair.pool.push(&folder, 2, compared).await.expect("taken by the one that answers");
    assert_eq!(pair.peers.each_ref().map(|peer| peer.loaded().len()), [3, 2]);
    assert!(pair.pool.has_weights(2));
    // It answers again, with the weights that it was started with.
    pair.peers[1].restart();
    pair.peers[1].revive();
    assert!(pair.play(&[3]).await.iter().all(|version| *version == 2));
    pair.pool.look_again().await;
    assert!(pair.said("answers again, and gets the weights") && !pair.pool.has_weights(2));
    pair.pool.push(&folder, 2, compared).await.expect("taken by the other");
    assert_eq!(pair.peers.each_ref().map(|peer| peer.loaded().len()), [3, 2], "those of its start, and version 2");
    pair.asked();
    assert!(pair.play(&[4]).await.iter().all(|version| *version == 2));
    assert!(pair.asked().iter().all(|asked| asked.len() >= 3), "both sample");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_of_all_servers_is_an_outage_and_a_refusal_is_not() {
    let pair = pair().await;
    pair.peers.iter().for_each(|peer| peer.always(Some(Mischief::Closes)));
    let failed = pair.pool.generate(turn(1, &[72])).await.expect_err("no server answers");
    assert!(
        matches!(&failed, PolicyError::Server(text) if text.contains("none of the 2 policy servers answers")),
        "{failed}"
    );
    assert!(pair.pool.gave_up().is_some_and(|failure| failure.may_recover));
    assert!(!pair.pool.has_weights(0));
    let silent = pair.pool.push(&pair.folder.path().join("model"), 1, None).await.expect_err("no server is left");
    assert!(silent.may_recover(), "{silent}");
    let pair = self::pair().await;
    pair.peers[0].refuse_weights(true);
    let refused = pair.pool.push(&pair.folder.path().join("nowhere"), 1, None).await.expect_err("refused");
    assert!(!refused.may_recover(), "{refused}");
}
