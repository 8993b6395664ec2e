//! Several seats in one episode: each is compared with itself, and a model trains only on its own seats.

use crate::common::{episode, figure, segment, smallest, written};
use gymkhana_record::{EpisodeRecord, Segment, StepMetrics};
use gymkhana_trainer::{RlSettings, Trainer, TrainerSettings};

/// Segment of the second seat.
fn second(reply: &[u32]) -> Segment {
    let mut segment = Segment::new(1);
    segment.append_given(&[257, 90], 0);
    segment.append_sampled(&written(reply), 0).expect("equal columns");
    segment
}

/// Episodes of two seats that sample two and three tokens, with these rewards.
fn group(rewards: &[[f64; 2]]) -> Vec<EpisodeRecord> {
    let member = |(member, rewards): (u32, &[f64; 2])| EpisodeRecord {
        rewards: rewards.to_vec(),
        segments: vec![segment(&[257, 65], &written(&[70 + member, 258])), second(&[80 + member, 81, 258])],
        ..episode(0, member, Segment::default(), 0.0)
    };
    (0..).zip(rewards).map(member).collect()
}

const REWARDS: [[f64; 2]; 3] = [[1.0, 10.0], [0.0, 40.0], [-1.0, 40.0]];

/// Computed by hand. The first seat's rewards 1, 0, -1 minus the means of the others -1/2, 0, 1/2 are 3/2, 0 and -3/2;
/// the second's 10, 40, 40 minus 40, 25, 25 are -30, 15 and 15.
#[tokio::test]
async fn a_seat_is_compared_with_the_same_seat_of_the_others() {
    for (seat, expected) in [(0, (1.5_f64 * 1.5 * 2.0 / 3.0).sqrt()), (1, ((900.0 + 225.0 * 2.0) / 3.0_f64).sqrt())] {
        let metrics = step(&[group(&REWARDS)], Some(vec![seat])).await;
        assert!((figure(&metrics, "advantage_std") - expected).abs() < 1e-9, "seat {seat}: {metrics:?}");
        assert!(figure(&metrics, "advantage_mean").abs() < 1e-9);
    }
}

async fn step(groups: &[Vec<EpisodeRecord>], seats: Option<Vec<u32>>) -> StepMetrics {
    let trainer = Trainer::create(&smallest(), &TrainerSettings::default()).expect("a model");
    trainer.rl_step(groups, &RlSettings { seats, ..RlSettings::default() }).await.expect("a step")
}

#[tokio::test]
async fn a_model_trains_only_on_its_own_seats() {
    let whole = group(&REWARDS);
    let only = |seat: u32| {
        let mut group = whole.clone();
        group.iter_mut().for_each(|record| record.segments.retain(|segment| segment.seat() == seat));
        group
    };
    let mut losses = vec![];
    for (seat, tokens) in [(0, 6.0), (1, 9.0)] {
        let metrics = step(std::slice::from_ref(&whole), Some(vec![seat])).await;
        assert_eq!(figure(&metrics, "tokens"), tokens);
        assert_eq!(metrics, step(&[only(seat)], None).await, "seat {seat}: equal to a batch without the other seat");
        losses.push(figure(&metrics, "loss"));
    }
    assert_ne!(losses[0], losses[1]);
    let both = step(std::slice::from_ref(&whole), Some(vec![0, 1])).await;
    assert_eq!((figure(&both, "tokens"), &both), (15.0, &step(std::slice::from_ref(&whole), None).await));
    assert_eq!(figure(&step(&[whole], Some(vec![2])).await, "updates"), 0.0);
}

/// Tokens of other policies need not be in this model's vocabulary.
#[tokio::test]
async fn tokens_of_other_policies_are_ignored() {
    let mut foreign = group(&REWARDS);
    foreign[0].segments[1] = second(&[100_000, 258]);
    let trainer = Trainer::create(&smallest(), &TrainerSettings::default()).expect("a model");
    let learn = |seats| RlSettings { seats, ..RlSettings::default() };
    let own = trainer.rl_step(std::slice::from_ref(&foreign), &learn(Some(vec![0]))).await.expect("a step");
    assert_eq!(figure(&own, "tokens"), 6.0);
    let error = trainer.rl_step(&[foreign], &learn(None)).await.expect_err("a foreign token");
    assert!(error.to_string().contains("100000"), "{error}");
}
