//! Sampling plans over real components:
//! - a group has its budget of episodes with every plan, each with its own number, and the same ones in every run;
//! - paths branch where the policy is uncertain after a tool answer, and only there;
//! - the kept episodes of an oversampled group are marked, and all are recorded;
//! - a failed attempt is repeated with the environment's hint;
//! - an episode that repeats states is stopped early, and groups can have different turn limits;
//! - with every plan, a replay gives the same bytes.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::common::{Table, call, limits, rollout, rollout_in, sandbox};
use gymkhana_chat::ReplyPiece;
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, Sampling, ScoreRequest, Stop,
};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Sampled, Seed, TaskRef};
use gymkhana_rollout::{
    Actor, Branch, EarlyStop, GroupPlan, Guided, Limits, Oversample, Prefixes, Probe, ReplayDifference, Rollout,
    SamplingPlan, Selection,
};

/// Replies with a function of the prompt's text and a random number, with the entropy that the function gives.
struct Unsure<'a, F> {
    rollout: &'a Rollout,
    say: F,
}

impl<F: Fn(&str, u64) -> (String, f32) + Send + Sync> Policy for Unsure<'_, F> {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        let prompt = self.rollout.chat().decode(&request.tokens).unwrap();
        let (reply, entropy) = (self.say)(&prompt, request.seed.stream().bits());
        let tokens = self.rollout.chat().encode_reply(&[ReplyPiece::Frame(&reply)]).unwrap();
        let count = tokens.len();
        let (log_probs, entropies, versions) = (vec![-0.5; count], vec![entropy; count], vec![0; count]);
        let sampled = Sampled { tokens, log_probs, entropies, versions };
        Box::pin(async move { Ok(Generated { sampled, stop: Stop::Token }) })
    }

    fn score(&self, _request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async { Err(PolicyError::CannotScore) })
    }

    fn can_score(&self) -> bool {
        false
    }

    fn release(&self, _conversation: Conversation) {}

    fn context(&self) -> usize {
        usize::MAX
    }
}

/// Fails once, at this request, and otherwise behaves like the other policy.
struct FailsOnce<P> {
    policy: P,
    left: AtomicI64,
}

impl<P: Policy> Policy for FailsOnce<P> {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Box::pin(async { Err(PolicyError::Gone("as asked".to_owned())) });
        }
        self.policy.generate(request)
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        self.policy.score(request)
    }

    fn can_score(&self) -> bool {
        self.policy.can_score()
    }

    fn release(&self, conversation: Conversation) {
        self.policy.release(conversation);
    }

    fn context(&self) -> usize {
        self.policy.context()
    }
}

fn group(size: u32) -> GroupPlan {
    GroupPlan {
        id: EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 },
        task: TaskRef { split: "train".to_owned(), index: 3 },
        seeds: Seed(11),
        sampling: Sampling::at(1.0),
        place: 0,
        size,
        turns: None,
    }
}

/// Calls a tool twice, then guesses; half of the guesses are right.
fn guesses(prompt: &str, chance: u64) -> String {
    match prompt.matches("<|im_start|>a").count() {
        1 | 2 => call("echo", &format!("{{\"text\": \"{}\"}}", chance % 1000)),
        _ if chance.is_multiple_of(2) => "yes".to_owned(),
        _ => "no".to_owned(),
    }
}

/// Limits for two calls and a guess.
fn three_turns() -> Limits {
    Limits { turns: 3, ..limits() }
}

fn guessing_table() -> Table {
    Table::new().environment("guest-hostile-environment", &[]).tool("guest-hostile-tool", &[])
}

/// Plays by a plan and checks the properties of every plan.
async fn play_plan(
    rollout: &Rollout,
    plan: &SamplingPlan,
    size: u32,
    say: impl Fn(&str, u64) -> (String, f32) + Send + Sync,
) -> Vec<EpisodeRecord> {
    let policy = Unsure { rollout, say };
    let records = rollout.run_plan(&group(size), plan, Actor::Policy(&policy)).await.unwrap();
    let members: BTreeSet<u32> = records.iter().map(|record| record.id.member).collect();
    assert_eq!(members.len(), records.len(), "a number was given twice");
    for record in &records {
        let parent = |fork: &gymkhana_record::Fork| records.iter().any(|other| other.id == fork.parent);
        assert!(record.forks.iter().all(parent), "a parent is not in the group");
        assert_eq!(record.failures, []);
    }
    let again = rollout.run_plan(&group(size), plan, Actor::Policy(&policy)).await.unwrap();
    let replayed = rollout.replay_group(&records).await.unwrap();
    assert_eq!((records.len(), records.len()), (again.len(), replayed.len()));
    for ((record, again), replayed) in records.iter().zip(&again).zip(&replayed) {
        assert_eq!(ReplayDifference::between(record, again), None, "a second run differs");
        assert_eq!(ReplayDifference::between(record, replayed), None);
    }
    assert_eq!(rollout.take_failed_forks().count, 0);
    records
}

fn forked(records: &[EpisodeRecord]) -> Vec<&EpisodeRecord> {
    records.iter().filter(|record| !record.forks.is_empty()).collect()
}

#[tokio::test]
async fn paths_branch_where_the_policy_is_uncertain_after_an_answer() {
    let rollout = rollout(&guessing_table(), three_turns()).await;
    let plan = SamplingPlan::Branch(Branch { roots: 2, base: 0.5, slope: 1.0, threshold: 0.6, ..Branch::default() });
    // Uncertain from the second turn on: every turn but the first follows an answer.
    let unsure = |prompt: &str, chance| {
        let later = prompt.matches("<|im_start|>a").count() > 1;
        (guesses(prompt, chance), if later { 2.0 } else { 0.5 })
    };
    let records = play_plan(&rollout, &plan, 8, unsure).await;
    let members: Vec<u32> = records.iter().map(|record| record.id.member).collect();
    assert_eq!(members, [0, 1, 2, 3, 4, 5, 6, 7]);
    let forks = forked(&records);
    assert_eq!(forks.len(), 6, "the whole budget of branches is used");
    assert!(forks.iter().all(|record| record.forks.iter().all(|fork| fork.turns[0] >= 1)), "after an answer only");
    // Certain after answers: no branches, and the whole budget starts from the beginning.
    let sure = |prompt: &str, chance| (guesses(prompt, chance), 0.5);
    let records = play_plan(&rollout, &plan, 8, sure).await;
    assert_eq!((records.len(), forked(&records).len()), (8, 0));
    // Uncertain, but never after an answer.
    let silent = |_: &str, chance: u64| ((if chance.is_multiple_of(2) { "yes" } else { "no" }).to_owned(), 9.0);
    assert_eq!(forked(&play_plan(&rollout, &plan, 8, silent).await).len(), 0);
}

/// With beta = 1, an entropy of 3 in the first turn and of 1 after answers: sigmoid(2) = 0.881, so 7 of 8 begin at the
/// start. Conversely, sigmoid(-2) = 0.119, so 1 does.
#[tokio::test]
async fn the_first_episode_decides_the_number_of_roots() {
    let rollout = rollout(&guessing_table(), three_turns()).await;
    for (first, later, roots) in [(3.0, 1.0, 7), (1.0, 3.0, 1)] {
        let branch = Branch { roots: 1, probe: Some(Probe { beta: 1.0 }), base: 9.0, ..Branch::default() };
        let unsure = |prompt: &str, chance| {
            let entropy = if prompt.matches("<|im_start|>a").count() > 1 { later } else { first };
            (guesses(prompt, chance), entropy)
        };
        let records = play_plan(&rollout, &SamplingPlan::Branch(branch), 8, unsure).await;
        // The first episode has ended when the others begin, so with it alone no branch is possible.
        let branches = if roots == 1 { 0 } else { 8 - roots };
        assert_eq!((records.len(), forked(&records).len()), (8, branches), "{first} {later}");
    }
}

/// With a penalty of 1, no path branches in two consecutive turns.
#[tokio::test]
async fn a_path_that_has_just_branched_branches_less() {
    let rollout = rollout(&guessing_table(), three_turns()).await;
    let unsure = |prompt: &str, chance| (guesses(prompt, chance), 1.0);
    let deepest = |records: &[EpisodeRecord]| records.iter().map(|record| record.forks.len()).max().unwrap();
    let always = Branch { roots: 1, base: 5.0, penalty: Some(0.0), ..Branch::default() };
    let records = play_plan(&rollout, &SamplingPlan::Branch(always), 8, unsure).await;
    assert!(deepest(&records) >= 2, "forks of forks");
    let once = Branch { penalty: Some(1.0), ..always };
    let records = play_plan(&rollout, &SamplingPlan::Branch(once), 8, unsure).await;
    for record in &records {
        let turns: Vec<u32> = record.forks.iter().map(|fork| fork.taken()).collect();
        assert!(turns.windows(2).all(|pair| pair[1] > pair[0] + 1), "{turns:?}");
    }
}

#[tokio::test]
async fn the_budget_goes_to_prefixes_with_uncertain_outcomes() {
    let rollout = rollout(&guessing_table(), three_turns()).await;
    let plan = SamplingPlan::Prefixes(Prefixes { roots: 4, ..Prefixes::default() });
    let records = play_plan(&rollout, &plan, 10, |prompt, chance| (guesses(prompt, chance), 1.0)).await;
    assert_eq!((records.len(), forked(&records).len()), (10, 6));
    assert!(records.iter().any(|record| record.success) && records.iter().any(|record| !record.success));
    // If all episodes fail, no outcome is uncertain, and the budget is still used.
    let records = play_plan(&rollout, &plan, 6, |_, _| ("no".to_owned(), 1.0)).await;
    assert_eq!(records.len(), 6);
}

#[tokio::test]
async fn an_episode_of_a_tree_is_repeated_after_a_fault_of_the_model() {
    let always = Branch { roots: 2, base: 5.0, ..Branch::default() };
    for plan in [SamplingPlan::Branch(always), SamplingPlan::Prefixes(Prefixes { roots: 2, ..Prefixes::default() })] {
        for (retries, lost) in [(0, 1), (1, 0)] {
            let rollout = rollout_in(sandbox(), &guessing_table(), three_turns(), retries).await;
            // Six episodes of three turns; branches share some of them.
            for at in [0, 2, 5, 8, 11] {
                let policy = Unsure { rollout: &rollout, say: |prompt: &str, chance| (guesses(prompt, chance), 1.0) };
                let policy = FailsOnce { policy, left: AtomicI64::new(at) };
                let records = rollout.run_plan(&group(6), &plan, Actor::Policy(&policy)).await.unwrap();
                let sound = records.iter().filter(|record| record.ending != Ending::Dropped);
                let members: BTreeSet<u32> = sound.clone().map(|record| record.id.member).collect();
                assert_eq!((members.len(), sound.count()), (6 - lost, 6 - lost), "{plan:?}, {retries}, {at}");
                let again = records.iter().filter(|record| record.id.attempt == 1).count();
                assert_eq!(again, retries as usize, "{plan:?}, {at}");
                for record in &records {
                    let parent = |fork: &gymkhana_record::Fork| records.iter().any(|other| other.id == fork.parent);
                    assert!(record.forks.iter().all(parent), "{plan:?}, {at}: a parent is not in the group");
                }
            }
        }
    }
}

#[tokio::test]
async fn kept_episodes_of_an_oversampled_group_are_marked() {
    let rollout = rollout(&guessing_table(), Limits { turns: 2, ..limits() }).await;
    // Two of three guesses are right, and one of three calls fails.
    let say = |prompt: &str, chance: u64| match prompt.matches("<|im_start|>a").count() {
        1 if chance.is_multiple_of(3) => (call("failed", "{}"), 1.0),
        1 => (call("echo", "{\"text\": \"fine\"}"), 1.0),
        _ if chance % 3 < 2 => ("yes".to_owned(), 1.0),
        _ => ("no".to_owned(), 1.0),
    };
    for keep in [Selection::Clean, Selection::Balanced] {
        let plan = SamplingPlan::Oversample(Oversample { factor: 3, keep });
        let records = play_plan(&rollout, &plan, 8, say).await;
        assert_eq!(records.len(), 24);
        let kept: Vec<&EpisodeRecord> = records.iter().filter(|record| record.selected).collect();
        assert_eq!(kept.len(), 8);
        let failed_call = |record: &&EpisodeRecord| crate::common::answers(record)[0].1;
        let clean_left = records.iter().filter(|record| record.success && !record.selected && !failed_call(record));
        let unclean_kept = kept.iter().filter(|record| record.success && failed_call(record));
        match keep {
            // A solved episode with a failed call is not kept while one without is available.
            Selection::Clean => assert!(clean_left.count() == 0 || unclean_kept.count() == 0),
            Selection::Balanced => assert_eq!(kept.iter().filter(|record| record.success).count(), 4),
        }
    }
}

#[tokio::test]
async fn a_failed_attempt_is_repeated_with_a_hint() {
    let table = Table::new().environment("frozen-lake", &[("map", gymkhana_record::Value::Text("4x4".to_owned()))]);
    let rollout = rollout(&table, limits()).await;
    // The path across Gymnasium's 4x4 map; without the hint the policy walks into the first hole.
    let way = ["down", "down", "right", "right", "down", "right"];
    let say = move |prompt: &str, _| {
        let turn = prompt.matches("<|im_start|>a").count() - 1;
        let knows = prompt.contains("A hint: the goal is 6 steps from the start, and the way begins with down.");
        (if knows { way[turn] } else { ["right", "down"][turn] }.to_owned(), 1.0)
    };
    let first = GroupPlan { task: TaskRef { split: "train".to_owned(), index: 0 }, ..group(2) };
    let policy = Unsure { rollout: &rollout, say };
    let plan = SamplingPlan::Guided(Guided { retries: 2 });
    let records = rollout.run_plan(&first, &plan, Actor::Policy(&policy)).await.unwrap();
    let outcomes: Vec<(u32, bool, bool)> =
        records.iter().map(|record| (record.id.member, record.guidance.is_some(), record.success)).collect();
    assert_eq!(outcomes, [(0, false, false), (1, false, false), (2, true, true), (3, true, true)]);
    let replayed = rollout.replay_group(&records).await.unwrap();
    for (record, replayed) in records.iter().zip(&replayed) {
        assert_eq!(ReplayDifference::between(record, replayed), None);
    }
}

#[tokio::test]
async fn an_episode_that_repeats_states_is_stopped_early() {
    // At the left edge, `left` does not move, so the state repeats.
    let lake = Table::new().environment("frozen-lake", &[]);
    for (repeats, turns) in [(Some(2), 3), (None, 16)] {
        let early_stop = EarlyStop { repeats, failed_calls: None };
        let rollout = rollout(&lake, Limits { early_stop, ..limits() }).await;
        let records = play_plan(&rollout, &SamplingPlan::Groups {}, 1, |_, _| ("left".to_owned(), 1.0)).await;
        let ending = if repeats.is_some() { Ending::EarlyStopped } else { Ending::TurnLimit };
        assert_eq!((records[0].ending, crate::common::answers(&records[0]).len()), (ending, 0));
        assert_eq!(records[0].segments[0].turns().last(), Some(&(turns - 1)));
    }
    let early_stop = EarlyStop { repeats: None, failed_calls: Some(2) };
    let rollout = rollout(&guessing_table(), Limits { early_stop, ..limits() }).await;
    let records = play_plan(&rollout, &SamplingPlan::Groups {}, 1, |prompt, _| {
        let name = if prompt.matches("<|im_start|>a").count() == 2 { "state" } else { "failed" };
        (call(name, "{}"), 1.0)
    });
    let records = records.await;
    let failed: Vec<bool> = crate::common::answers(&records[0]).into_iter().map(|(_, failed)| failed).collect();
    assert_eq!((records[0].ending, &failed[..]), (Ending::EarlyStopped, &[true, false, true, true][..]));
}

/// At the left edge, `left` does not move, so that all turns begin in the same state.
#[tokio::test]
async fn policy_turns_record_the_state_in_which_they_begin() {
    let rollout = rollout(&Table::new().environment("frozen-lake", &[]), limits()).await;
    let records = play_plan(&rollout, &SamplingPlan::Groups {}, 1, |_, _| ("left".to_owned(), 1.0)).await;
    let replayed = rollout.replay_group(&records).await.unwrap();
    assert_eq!(ReplayDifference::between(&records[0], &replayed[0]), None);
    let found: Vec<Option<String>> = records[0].policy_turns.iter().map(|turn| turn.state.clone()).collect();
    let first = found[1].clone().expect("a state");
    assert!(u64::from_str_radix(&first, 16).is_ok() && first.len() == 16, "{first}");
    assert!(found.len() == 16 && found[1..].iter().all(|state| state.as_deref() == Some(&first)), "{found:?}");
    // A record from before states were recorded has no difference either, and a wrong state is one.
    let mut older = records[0].clone();
    older.policy_turns.iter_mut().for_each(|turn| turn.state = None);
    assert_eq!(ReplayDifference::between(&older, &replayed[0]), None);
    older.policy_turns[3].state = Some("0000000000000000".to_owned());
    assert!(
        ReplayDifference::between(&older, &replayed[0]).is_some_and(|found| found.place.starts_with("policy_turns["))
    );
}

#[tokio::test]
async fn a_group_can_have_its_own_turn_limit() {
    let rollout = rollout(&Table::new().environment("frozen-lake", &[]), limits()).await;
    let policy = Unsure { rollout: &rollout, say: |_: &str, _| ("left".to_owned(), 1.0) };
    let short = GroupPlan { turns: Some(3), ..group(1) };
    let records = rollout.run_plan(&short, &SamplingPlan::Groups {}, Actor::Policy(&policy)).await.unwrap();
    assert_eq!((records[0].ending, records[0].turn_limit), (Ending::TurnLimit, 3));
    let replayed = rollout.replay_group(&records).await.unwrap();
    assert_eq!(ReplayDifference::between(&records[0], &replayed[0]), None);
}
