//! Failed episodes: no preset ever rewards the turn that provoked a failure, and one that the infrastructure failed leaves
//! no trace in any number of the others.

use gymkhana_algorithm::{Preset, RlSettings};
use gymkhana_record::{
    Boundary, CallSite, Ending, EpisodeRecord, Failure, FailureKind, Fork, PolicyTurn, Seed, Stream,
};

use crate::advantage::{self, AdvantageState};
use crate::from_records::{episode, preset, segment};
use crate::layout::Batch;
use gymkhana_engine::Column;

/// Least total of the groups below.
const LEAST: f64 = -1.0;

/// An episode of this many turns, each of which paid -0.1.
fn played(member: u32, turns: u32, reward: f64) -> EpisodeRecord {
    let turn = |turn| PolicyTurn {
        seat: 0,
        turn,
        transcript: 0,
        steps: turn,
        state: None,
        probe_score: None,
        thought_tokens: 0,
        note: None,
    };
    EpisodeRecord {
        policy_turns: (0..turns).map(turn).collect(),
        turn_rewards: vec![vec![-0.1; turns as usize]],
        ..episode(member, vec![segment(0, 0..turns, 1.0)], &[reward])
    }
}

/// An episode whose last turn made the environment, a reward or the agent program fail.
fn failed(member: u32, turns: u32, at: Boundary) -> EpisodeRecord {
    let ending = match at {
        Boundary::Environment(_) => Ending::EnvironmentFailed,
        Boundary::Agent => Ending::AgentFailed,
        _ => Ending::Terminated,
    };
    let failure = Failure { at, kind: FailureKind::Trap, call_site: CallSite::Step(0), message: "a trap".to_owned() };
    EpisodeRecord { ending, failures: vec![failure], ..played(member, turns, LEAST) }
}

/// A group of one failed and three other episodes, with numbers of a critic, a teacher and a reference policy.
fn batch(stream: &mut Stream, at: Boundary, settings: &RlSettings) -> Batch {
    let mut group = vec![failed(0, 1 + stream.below(3) as u32, at)];
    // The others earn the least total or up to 0.2 more, so that penalties and critics may turn the comparison.
    group.extend((1..4).map(|member| played(member, 1 + stream.below(6) as u32, LEAST + 0.1 * stream.below(3) as f64)));
    let mut batch = Batch::new(&[group], settings);
    for input in &mut batch.inputs {
        for token in 0..input.tokens.len() {
            for column in [Column::Proximal, Column::Reference, Column::Teacher, Column::Value] {
                input.tokens.set(column, token, -3.0 * stream.unit());
            }
        }
    }
    batch
}

#[test]
fn no_preset_rewards_a_provoked_failure() {
    let at = [Boundary::Environment("e".to_owned()), Boundary::Reward("r".to_owned()), Boundary::Agent];
    for name in Preset::names() {
        let algorithm = preset(name);
        let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
        let mut stream = Seed(1).child(name).stream();
        for at in at.iter().cycle().take(60) {
            let mut batch = batch(&mut stream, at.clone(), &settings);
            let mut memory = AdvantageState::default();
            advantage::compute(&mut batch.inputs, &algorithm, &mut memory, 3, &mut stream);
            let turn = batch.inputs[0].turns.last().expect("a turn").tokens.clone();
            let advantages = &batch.inputs[0].tokens.column(Column::Advantage)[turn];
            assert!(advantages.iter().all(|advantage| *advantage <= 0.0), "{name}, {at}: {advantages:?}");
        }
    }
}

/// The same failure at a tool is an observation, and one of the host is not the agent's: both leave advantages alone.
#[test]
fn other_failures_are_not_the_agents() {
    let algorithm = preset("loop");
    let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
    let first = |mut record: EpisodeRecord| {
        record.rewards = vec![1.0];
        let mut batch = Batch::new(&[vec![record, played(1, 1, 0.0)]], &settings);
        advantage::compute(&mut batch.inputs, &algorithm, &mut AdvantageState::default(), 3, &mut Seed(1).stream());
        batch.inputs[0].tokens.get(Column::Advantage, 0)
    };
    assert_eq!(first(failed(0, 1, Boundary::Environment("e".to_owned()))), 0.0);
    assert_eq!(first(failed(0, 1, Boundary::Tool("t".to_owned()))), 1.0);
    let mut of_host = failed(0, 1, Boundary::Reward("r".to_owned()));
    of_host.failures[0].kind = FailureKind::Fault;
    assert_eq!(first(of_host), 1.0);
}

/// A group of 2 to 5 episodes, of which some continue turns of the first.
fn tree(stream: &mut Stream, group: u32) -> Vec<EpisodeRecord> {
    let members = 2 + stream.below(4) as u32;
    let member = |member| {
        let mut record = played(member, 1 + stream.below(4) as u32, stream.unit());
        record.id.group = group;
        record.success = stream.below(2) == 0;
        record
    };
    let mut records: Vec<EpisodeRecord> = (0..members).map(member).collect();
    let parent = records[0].id;
    for record in records.iter_mut().skip(1).filter(|record| record.policy_turns.len() > 1) {
        if stream.below(2) == 0 {
            record.forks.push(Fork { parent, turns: vec![1], seed: Seed(0) });
        }
    }
    records
}

/// The groups with dropped attempts of their members, some of them branches, at random places, and a lost group.
fn with_dropped(stream: &mut Stream, groups: &[Vec<EpisodeRecord>]) -> Vec<Vec<EpisodeRecord>> {
    let mut found: Vec<Vec<EpisodeRecord>> = groups.to_vec();
    for group in &mut found {
        for _ in 0..1 + stream.below(3) {
            let mut dropped = group[stream.below(group.len() as u64) as usize].clone();
            dropped.id.attempt += 1 + stream.below(100) as u32;
            dropped.ending = Ending::Dropped;
            dropped.rewards = vec![1000.0 * stream.unit()];
            group.insert(stream.below(group.len() as u64 + 1) as usize, dropped);
        }
    }
    let lost = found[0].iter().map(|record| EpisodeRecord { ending: Ending::Dropped, ..record.clone() }).collect();
    found.insert(stream.below(found.len() as u64 + 1) as usize, lost);
    found
}

/// Coefficients of all tokens, and the averages that later steps use, over three steps of each preset.
#[test]
fn dropped_members_leave_no_trace_in_any_preset() {
    for name in Preset::names() {
        let algorithm = preset(name);
        let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
        for seed in 0..20 {
            let mut tasks = Seed(seed).child(name).stream();
            let (mut with, mut without) = (AdvantageState::default(), AdvantageState::default());
            for version in 0..3 {
                let groups = [tree(&mut tasks, 0), tree(&mut tasks, 1), tree(&mut tasks, 2)];
                let step = |groups: &[Vec<EpisodeRecord>], memory: &mut AdvantageState| {
                    let mut batch = Batch::new(groups, &settings);
                    let mut stream = Seed(seed).child(version).stream();
                    for input in &mut batch.inputs {
                        for token in 0..input.tokens.len() {
                            for column in [Column::Proximal, Column::Reference, Column::Teacher, Column::Value] {
                                input.tokens.set(column, token, -3.0 * stream.unit());
                            }
                        }
                    }
                    advantage::compute(&mut batch.inputs, &algorithm, memory, version as u32, &mut stream);
                    batch.inputs
                };
                let dropped = with_dropped(&mut tasks, &groups);
                assert_eq!(step(&dropped, &mut with), step(&groups, &mut without), "{name}, seed {seed}");
                assert_eq!(with, without, "{name}, seed {seed}");
            }
        }
    }
}
