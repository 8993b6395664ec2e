//! Turn probes:
//! - before each turn the right answer is scored after the policy's prompt, or each reply is scored with and without
//!   the previous turn's feedback;
//! - a turn's gain is added to its reward;
//! - replays and fork checks take over the recorded scores, without a policy that scores;
//! - a policy that cannot score, and an environment without an answer, are refused by name.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Mutex;

use crate::common::{Table, call, limits, plan, play_by, rollout};
use gymkhana_chat::ReplyPiece;
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyFuture, ScoreRequest, ScriptedPolicy, Stop,
};
use gymkhana_record::{Ending, EpisodeRecord, ProbeScore, Sampled, Seed, Value};
use gymkhana_rollout::{
    Actor, AnswerProbe, ContextStrategy, FeedbackProbe, ProbeError, ReplayDifference, Rollout, Summary, TurnProbe,
};

/// Echoes twice, then ends. A text's probability decreases with the length of the prompt.
struct Scorer<'a> {
    rollout: &'a Rollout,
    generated: Mutex<Vec<GenerateRequest>>,
    scored: Mutex<Vec<ScoreRequest>>,
    context: usize,
}

impl<'a> Scorer<'a> {
    fn new(rollout: &'a Rollout) -> Self {
        Self { rollout, generated: Mutex::default(), scored: Mutex::default(), context: usize::MAX }
    }
}

/// Log-probability of each scored token after `before` tokens, in nats.
fn log_prob(before: usize) -> f32 {
    -(before as f32) / 1024.0
}

impl Policy for Scorer<'_> {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        let shown = self.rollout.chat().decode(&request.tokens).unwrap();
        let reply = match (shown.ends_with("uNow sum up.<|im_end|><|im_start|>a"), shown.matches("<tool_call>").count())
        {
            (true, _) => "I know.".to_owned(),
            (_, calls @ 0..2) => call("echo", &format!(r#"{{"text": "result-{calls}"}}"#)),
            _ => "done".to_owned(),
        };
        let tokens = self.rollout.chat().encode_reply(&[ReplyPiece::Frame(&reply)]).unwrap();
        self.generated.lock().unwrap().push(request);
        let zeros = vec![0.0; tokens.len()];
        let versions = vec![0; tokens.len()];
        let sampled = Sampled { tokens, log_probs: zeros.clone(), entropies: zeros, versions };
        Box::pin(async move { Ok(Generated { sampled, stop: Stop::Token }) })
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        let tokens = request.continuation.to_vec();
        let log_probs = vec![log_prob(request.prefix.len()); tokens.len()];
        let (entropies, versions) = (vec![0.0; tokens.len()], vec![0; tokens.len()]);
        self.scored.lock().unwrap().push(request);
        Box::pin(async move { Ok(Sampled { tokens, log_probs, entropies, versions }) })
    }

    fn can_score(&self) -> bool {
        true
    }

    fn release(&self, _conversation: Conversation) {}

    fn context(&self) -> usize {
        self.context
    }
}

fn table() -> Table {
    Table::new().tool("guest-hostile-tool", &[]).reward("answer-match", &[])
}

async fn probing(probe: TurnProbe) -> Rollout {
    rollout(&table(), limits()).await.with_probe(Some(probe)).unwrap()
}

fn answer(lead: &str) -> TurnProbe {
    TurnProbe::Answer(AnswerProbe { lead: lead.to_owned(), weight: 2.0, ..AnswerProbe::default() })
}

/// Probe scores of an episode by turn.
fn readings(record: &EpisodeRecord) -> Vec<Option<ProbeScore>> {
    record.policy_turns.iter().map(|turn| turn.probe_score).collect()
}

async fn assert_replayed(rollout: &Rollout, record: &EpisodeRecord) {
    let replayed = rollout.replay_group(std::slice::from_ref(record)).await.unwrap();
    assert_eq!(ReplayDifference::between(record, &replayed[0]), None);
    assert_eq!(rollout.check_forks(record).await.unwrap().difference, None);
}

fn near(found: &[f64], expected: &[f64]) {
    let equal = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-12;
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(equal), "{found:?} is not {expected:?}");
}

#[tokio::test]
async fn the_right_answer_is_scored_before_each_turn() {
    let rollout = probing(answer("The answer is ")).await;
    let policy = Scorer::new(&rollout);
    let record = play_by(&rollout, Actor::Policy(&policy)).await;
    assert_eq!((record.ending, record.policy_turns.len()), (Ending::Terminated, 3));
    let right = match &record.privileged.iter().find(|field| field.name == "answer").unwrap().value {
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        other => panic!("{other:?} is no answer"),
    };
    let (generated, scored) = (policy.generated.into_inner().unwrap(), policy.scored.into_inner().unwrap());
    assert_eq!((generated.len(), scored.len()), (3, 3));
    for (seen, asked) in generated.iter().zip(&scored) {
        let lead = rollout.chat().encode_plain("The answer is ").unwrap();
        assert_eq!(asked.prefix[..], [&seen.tokens[..], &lead].concat());
        assert_eq!(asked.continuation[..], rollout.chat().encode_plain(&right).unwrap());
    }
    // IGPO: p is the geometric mean of the tokens' probabilities, and a gain is the difference between turns.
    let mean: Vec<f64> = scored.iter().map(|asked| f64::from(log_prob(asked.prefix.len()))).collect();
    let found: Vec<f64> = readings(&record).into_iter().map(|reading| reading.unwrap().log_prob).collect();
    near(&found, &mean);
    let p: Vec<f64> = mean.iter().map(|mean| mean.exp()).collect();
    near(&record.turn_gains[0], &[2.0 * (p[1] - p[0]), 2.0 * (p[2] - p[1]), 0.0]);
    assert_eq!(record.rewards, [0.0], "the total contains only the rewards");
    assert_replayed(&rollout, &record).await;
}

#[tokio::test]
async fn a_reply_is_scored_with_and_without_feedback() {
    let probe = FeedbackProbe { mask: "(hidden)".to_owned(), weight: 1.0 };
    let rollout = probing(TurnProbe::Feedback(probe)).await;
    let policy = Scorer::new(&rollout);
    let record = play_by(&rollout, Actor::Policy(&policy)).await;
    let (generated, scored) = (policy.generated.into_inner().unwrap(), policy.scored.into_inner().unwrap());
    // The first turn has no feedback; then each reply is scored twice.
    assert_eq!((generated.len(), scored.len()), (3, 4));
    let shown = |tokens: &[u32]| rollout.chat().decode(tokens).unwrap();
    let mut gains = vec![];
    for (turn, pair) in (1..).zip(scored.chunks(2)) {
        let [with, without] = pair else { panic!("both sides are scored") };
        assert_eq!(with.prefix[..], generated[turn].tokens[..]);
        let hidden = shown(&with.prefix).replace(&format!("tresult-{}<", turn - 1), "t(hidden)<");
        assert_eq!(shown(&without.prefix), hidden, "only the newest answer is hidden");
        assert_ne!(with.prefix, without.prefix);
        assert_eq!(with.continuation, without.continuation);
        let reply = if turn == 1 { call("echo", r#"{"text": "result-1"}"#) } else { "done".to_owned() };
        assert_eq!(rollout.chat().decode_reply(&with.continuation).unwrap(), reply);
        gains.push(f64::from(log_prob(with.prefix.len())) - f64::from(log_prob(without.prefix.len())));
    }
    near(&record.turn_gains[0], &[gains[0], gains[1], 0.0]);
    assert_eq!(readings(&record)[0], None);
    assert_replayed(&rollout, &record).await;
    // Other weights would give other scores; a replay does not compute them.
    let mut other = record.clone();
    other.policy_turns[1].probe_score = Some(ProbeScore { log_prob: -1.0, without: Some(-3.0) });
    let replayed = rollout.replay_group(std::slice::from_ref(&other)).await.unwrap();
    near(&replayed[0].turn_gains[0], &[2.0, gains[1], 0.0]);
}

#[tokio::test]
async fn forks_score_only_their_own_turns() {
    let rollout = probing(answer("")).await;
    let policy = Scorer::new(&rollout);
    let record = play_by(&rollout, Actor::Policy(&policy)).await;
    policy.scored.lock().unwrap().clear();
    let forks = rollout.fork_recorded(&record, 1, vec![plan(1, 9)], Actor::Policy(&policy)).await.unwrap();
    assert_eq!(readings(&forks[0]), readings(&record));
    assert_eq!(policy.scored.lock().unwrap().len(), 2, "the first turn's number is taken over");
    assert_eq!(forks[0].turn_gains, record.turn_gains);
    assert_replayed(&rollout, &forks[0]).await;
}

#[tokio::test]
async fn notes_and_texts_that_do_not_fit_are_not_scored() {
    let strategy = ContextStrategy::Summary(Summary { tokens: 200, instruction: "Now sum up.".to_owned() });
    let rollout = probing(answer("")).await.with_context(strategy).unwrap();
    let policy = Scorer { context: 100_000, ..Scorer::new(&rollout) };
    let plan = gymkhana_rollout::EpisodePlan { turns: Some(6), ..plan(0, 7) };
    let record = rollout.run_group(vec![plan], Actor::Policy(&policy)).await.unwrap().remove(0);
    assert!(record.policy_turns.iter().any(|turn| turn.note.is_some()));
    for turn in &record.policy_turns {
        assert_eq!(turn.probe_score.is_some(), turn.note.is_none(), "turn {}", turn.turn);
    }
    assert_replayed(&rollout, &record).await;
    // The answer has at least one digit, which does not fit after the first prompt.
    let rollout = probing(answer(&"x".repeat(5000))).await;
    let policy = Scorer { context: 5000, ..Scorer::new(&rollout) };
    let record = play_by(&rollout, Actor::Policy(&policy)).await;
    assert_eq!((record.ending, readings(&record)), (Ending::Terminated, vec![None; 3]));
}

#[tokio::test]
async fn policies_without_scoring_and_environments_without_an_answer_are_refused() {
    let rollout = probing(answer("")).await;
    let scripted = ScriptedPolicy::new(100, |_: &GenerateRequest| vec![0]);
    let refused = rollout.check_policy("opponent", &scripted).unwrap_err();
    assert!(matches!(&refused, ProbeError::CannotScore { policy } if policy == "opponent"), "{refused}");
    rollout.check_policy("local", &Scorer::new(&rollout)).unwrap();
    let plain = crate::common::rollout(&table(), limits()).await;
    plain.check_policy("opponent", &scripted).unwrap();
    // Two seats have no privileged view; their replies can be scored.
    let two_seats = Table::new().environment("guest-two-seats", &[]);
    let refused = crate::common::rollout(&two_seats, limits()).await.with_probe(Some(answer(""))).err().unwrap();
    assert!(matches!(&refused, ProbeError::NoView { environment } if environment == "guest-two-seats"), "{refused}");
    let feedback = TurnProbe::Feedback(FeedbackProbe::default());
    crate::common::rollout(&two_seats, limits()).await.with_probe(Some(feedback)).unwrap();
    // A view without the field is an environment failure with a message.
    let field = TurnProbe::Answer(AnswerProbe { field: "anser".to_owned(), ..AnswerProbe::default() });
    let rollout = probing(field).await;
    let record = play_by(&rollout, Actor::Policy(&Scorer::new(&rollout))).await;
    assert_eq!(record.ending, Ending::Dropped);
    let message = &record.failures[0].message;
    assert!(message.contains("`anser`") && message.ends_with("its fields are `answer`"), "{message}");
    let refused = rollout.check_answer(&plan(0, 7).task, Seed(7)).await.unwrap_err();
    assert_eq!(refused.to_string(), *message);
    probing(answer("")).await.check_answer(&plan(0, 7).task, Seed(7)).await.unwrap();
    let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
    assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
}
