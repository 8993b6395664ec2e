//! From hand-made records through the layout to advantages and loss masks: anchors, void turns, unfinished episodes,
//! segments, comparison of seats, staleness and the entropy band.

use gymkhana_record::{
    Call, Ending, EpisodeId, EpisodeRecord, Function, Part, Phase, PolicyTurn, Sampled, SeatFunctions, Seed, Segment,
    TaskRef, Turn,
};

use crate::advantage::{self, AdvantageState};
use crate::layout::{Batch, RlData};
use gymkhana_algorithm::RlSettings;
use gymkhana_algorithm::{
    AboveCap, Algorithm, BandMode, BandUnit, Bounds, CapLevel, Credit, EntropyBand, GroupBy, Mask, OffPolicy, Preset,
    RewardScale, Scale,
};
use gymkhana_engine::Column;

const VERSION: u32 = 3;

pub(crate) fn preset(name: &str) -> Algorithm {
    Preset::named(name).and_then(|preset| preset.algorithm()).expect("a preset")
}

fn text(words: &str) -> Vec<Part> {
    vec![Part::Text(words.to_owned())]
}

/// An episode of seat 0 that was offered no tools, with an empty transcript.
pub(crate) fn episode(member: u32, segments: Vec<Segment>, rewards: &[f64]) -> EpisodeRecord {
    EpisodeRecord {
        turn_limit: 16,
        segments,
        rewards: rewards.to_vec(),
        ..EpisodeRecord::new(
            EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member, attempt: 0 },
            TaskRef { split: "train".to_owned(), index: 7 },
            Seed(0),
            Ending::Terminated,
        )
    }
}

/// A segment of one given token and two sampled tokens for each turn. Sampled tokens have this entropy, and the weight
/// version is the turn.
pub(crate) fn segment(seat: u32, turns: std::ops::Range<u32>, entropy: f32) -> Segment {
    let mut segment = Segment::new(seat);
    for turn in turns {
        segment.append_given(&[1], turn);
        let sampled = Sampled {
            tokens: vec![2, 3],
            log_probs: vec![-1.0, -2.0],
            entropies: vec![entropy; 2],
            versions: vec![turn; 2],
        };
        segment.append_sampled(&sampled, turn).expect("equal columns");
    }
    segment
}

fn policy_turn(turn: u32, transcript: u32) -> PolicyTurn {
    PolicyTurn { seat: 0, turn, transcript, steps: turn, state: None, probe_score: None, thought_tokens: 0, note: None }
}

fn message() -> Turn {
    Turn::Message { seat: 0, content: text("go") }
}

/// Lays out one group and computes advantages; returns each episode's advantages by token, `None` where masked.
fn advantages(group: Vec<EpisodeRecord>, algorithm: &Algorithm) -> Vec<Vec<Option<f64>>> {
    let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
    let mut batch = Batch::new(&[group], &settings);
    advantage::compute(&mut batch.inputs, algorithm, &mut AdvantageState::default(), VERSION, &mut Seed(1).stream());
    let of_token = |tokens: &gymkhana_engine::TokenStats, token| {
        tokens.is_in_loss(token).then(|| tokens.get(Column::Advantage, token))
    };
    let inputs = batch.inputs.iter().map(|input| &input.tokens);
    inputs.map(|tokens| (0..tokens.len()).map(|token| of_token(tokens, token)).collect()).collect()
}

#[track_caller]
fn near(found: &[Option<f64>], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?} is not {expected}");
    }
}

/// Two turns: the seat sees `hall`, then `second`.
fn walk(member: u32, second: &str, reward: f64) -> EpisodeRecord {
    let mut record = episode(member, vec![segment(0, 0..2, 1.0)], &[reward]);
    record.opening.observations = vec![(0, text("hall"))];
    record.turns = vec![message(), Turn::Observation { seat: 0, content: text(second) }, message()];
    record.policy_turns = vec![policy_turn(0, 0), policy_turn(1, 2)];
    record.turn_rewards = vec![vec![0.0, reward]];
    record
}

/// Returns are 1, 0, 0. In the group: 2/3, -1/3, -1/3. All saw the hall: 2/3, -1/3, -1/3 again. Two saw the door: 1/2
/// and -1/2; a wall that one episode saw alone adds 0.
#[test]
fn gigpo_compares_turns_with_equal_observations() {
    let algorithm =
        Algorithm { credit: Credit::Anchors { discount: 1.0, weight: 1.0 }, scale: Scale::None, ..preset("gigpo") };
    let group = vec![walk(0, "door", 1.0), walk(1, "door", 0.0), walk(2, "wall", 0.0)];
    let found = advantages(group, &algorithm);
    near(&found[0], &[4.0 / 3.0, 4.0 / 3.0, 7.0 / 6.0, 7.0 / 6.0]);
    near(&found[1], &[-2.0 / 3.0, -2.0 / 3.0, -5.0 / 6.0, -5.0 / 6.0]);
    near(&found[2], &[-2.0 / 3.0, -2.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0]);
}

/// As above, with states instead of texts: all turns heard other texts, and the second turns of the first two episodes
/// began in the same state.
#[test]
fn gigpo_compares_turns_in_equal_states() {
    let algorithm =
        Algorithm { credit: Credit::Anchors { discount: 1.0, weight: 1.0 }, scale: Scale::None, ..preset("gigpo") };
    let in_states = |member, texts: &str, states: [&str; 2], reward| {
        let mut record = walk(member, texts, reward);
        record.opening.observations = vec![(0, text(&format!("step 1, {member}")))];
        for (turn, state) in record.policy_turns.iter_mut().zip(states) {
            turn.state = Some(state.to_owned());
        }
        record
    };
    let group = vec![
        in_states(0, "door, step 2", ["00000000000000aa", "00000000000000bb"], 1.0),
        in_states(1, "door, step 3", ["00000000000000aa", "00000000000000bb"], 0.0),
        in_states(2, "door, step 2", ["00000000000000aa", "00000000000000cc"], 0.0),
    ];
    let found = advantages(group, &algorithm);
    near(&found[0], &[4.0 / 3.0, 4.0 / 3.0, 7.0 / 6.0, 7.0 / 6.0]);
    near(&found[1], &[-2.0 / 3.0, -2.0 / 3.0, -5.0 / 6.0, -5.0 / 6.0]);
    near(&found[2], &[-2.0 / 3.0, -2.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0]);
}

#[test]
fn simpletir_masks_episodes_with_a_void_turn() {
    let offered = |mut record: EpisodeRecord, turn: &str| {
        let function =
            Function { name: "add".to_owned(), description: String::new(), parameters: "{}".to_owned(), cost: 0.0 };
        record.opening.functions = vec![SeatFunctions { seat: 0, functions: vec![function] }];
        let call = Call { id: "1".to_owned(), name: "add".to_owned(), arguments: "{}".to_owned() };
        let answer = Turn::Answer { seat: 0, id: "1".to_owned(), content: text("2"), failed: false };
        let cut = Turn::MalformedCall { seat: 0, id: "1".to_owned(), text: "{\"name\": \"add\",".to_owned() };
        record.turns = match turn {
            "call" => vec![message(), Turn::Call { seat: 0, call, cost: 0.0 }, answer, message()],
            "malformed" => vec![message(), cut, answer, message()],
            _ => vec![message(), Turn::Observation { seat: 0, content: text("?") }, message()],
        };
        record.policy_turns = vec![policy_turn(0, 0), policy_turn(1, record.turns.len() as u32 - 1)];
        record
    };
    let two_turns = |member, reward| episode(member, vec![segment(0, 0..2, 1.0)], &[reward]);
    let group = vec![
        offered(two_turns(0, 1.0), "call"),
        offered(two_turns(1, 0.0), "message"),
        offered(two_turns(2, 0.0), "malformed"),
    ];
    let found = advantages(group.clone(), &preset("simpletir"));
    assert!(found[0].iter().all(|advantage| advantage.is_some_and(|advantage| advantage > 0.0)), "{found:?}");
    assert_eq!(found[1..], [[None; 4], [None; 4]]);
    let unmasked = Algorithm { masks: vec![], ..preset("simpletir") };
    assert!(advantages(group, &unmasked)[1].iter().all(Option::is_some), "the mask alone leaves it out");
}

#[test]
fn over_long_masks_episodes_that_any_limit_cut_short_and_compares_with_them() {
    let one_turn = |member, reward| episode(member, vec![segment(0, 0..1, 1.0)], &[reward]);
    for (name, ending) in [
        ("mini-o3", Ending::TurnLimit),
        ("mini-o3", Ending::Truncated),
        ("supo", Ending::ContextLimit),
        ("supo", Ending::Truncated),
    ] {
        let unfinished = EpisodeRecord { ending, ..one_turn(2, 0.0) };
        let algorithm = Algorithm { scale: Scale::None, ..preset(name) };
        let found = advantages(vec![one_turn(0, 1.0), one_turn(1, 0.5), unfinished], &algorithm);
        // The mean of 1, 1/2 and the unfinished 0 is 1/2.
        near(&found[0], &[0.5, 0.5]);
        near(&found[1], &[0.0, 0.0]);
        assert_eq!(found[2], [None, None], "{name}, {ending}");
    }
}

/// The first member's second reply has no stop token, 3.
#[test]
fn replies_that_a_limit_cut_are_masked_alone_or_with_their_episode() {
    let mut cut = segment(0, 0..2, 1.0);
    cut.append_given(&[1], 2);
    let sampled = Sampled { tokens: vec![2], log_probs: vec![-1.0], entropies: vec![1.0], versions: vec![2] };
    cut.append_sampled(&sampled, 2).expect("equal columns");
    let group = [episode(0, vec![cut], &[1.0]), episode(1, vec![segment(0, 0..1, 1.0)], &[0.0])];
    let in_loss = |masks: Vec<Mask>| {
        let algorithm = Algorithm { masks, ..Algorithm::default() };
        let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
        let groups = [group.to_vec()];
        let data = RlData { is_cut: &|_, reply| reply.last() != Some(&3), ..RlData::from(&groups[..]) };
        let mut batch = Batch::of(&data, &settings);
        advantage::compute(
            &mut batch.inputs,
            &algorithm,
            &mut AdvantageState::default(),
            VERSION,
            &mut Seed(1).stream(),
        );
        let advantages = batch.inputs.iter().map(|input| input.tokens.get(Column::Advantage, 0)).collect::<Vec<_>>();
        assert_eq!(advantages, [1.0, -1.0], "masked episodes are compared");
        batch.inputs.iter().map(|input| input.tokens.in_loss().collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(in_loss(vec![]), [vec![0, 1, 2, 3, 4], vec![0, 1]]);
    assert_eq!(in_loss(vec![Mask::CutReply]), [vec![0, 1, 2, 3], vec![0, 1]]);
    assert_eq!(in_loss(vec![Mask::CutEpisode]), [vec![], vec![0, 1]]);
}

#[test]
fn supo_gives_every_segment_the_advantage_of_the_episode() {
    let algorithm = Algorithm { scale: Scale::None, ..preset("supo") };
    let summarised = |member, reward| {
        let mut record = episode(member, vec![segment(0, 0..2, 1.0), segment(0, 2..3, 1.0)], &[reward]);
        record.policy_turns = vec![policy_turn(0, 0), policy_turn(1, 1), policy_turn(2, 1)];
        record.policy_turns[1].note = Some("a summary".to_owned());
        record
    };
    let group = vec![summarised(0, 1.0), EpisodeRecord { ending: Ending::ContextLimit, ..summarised(1, 0.0) }];
    let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
    let batch = Batch::new(std::slice::from_ref(&group), &settings);
    assert_eq!(batch.all_sequences().len(), 4, "one sequence per segment");
    let found = advantages(group, &algorithm);
    near(&found[0], &[0.5; 6]);
    assert_eq!(found[1], [None; 6]);
}

/// Seat 0 always earns 1 and seat 1 always 0: seats among themselves are equal, all together differ by the mean 1/2.
#[test]
fn group_by_all_compares_seats_with_each_other() {
    let game = |member| episode(member, vec![segment(0, 0..1, 1.0), segment(1, 0..1, 1.0)], &[1.0, 0.0]);
    let by = |group_by| Algorithm { group_by, scale: Scale::None, ..preset("mars") };
    let all = Algorithm { credit: Credit::Episode {}, ..by(GroupBy::All) };
    let seat = Algorithm { credit: Credit::Episode {}, ..by(GroupBy::Seat) };
    for (algorithm, expected) in [(all, [0.5, -0.5]), (seat, [0.0, 0.0])] {
        let found = advantages(vec![game(0), game(1)], &algorithm);
        near(&found[0], &[expected[0]; 2]);
        near(&found[1], &[expected[1]; 2]);
    }
}

/// Episodes of one turn of two tokens with these rewards.
fn rewarded(rewards: [f64; 3]) -> Vec<EpisodeRecord> {
    (0..).zip(rewards).map(|(member, reward)| episode(member, vec![segment(0, 0..1, 1.0)], &[reward])).collect()
}

/// 5, 0, -3 become 1, 0, -1; each minus the mean of the others: 1 + 1/2, 0, -1 - 1/2. Of the advantages 6.5, -1 and -5.5
/// of the rewards themselves, two are beyond the bounds. 1, 3, 5 have the deviation 2: 0.5, 1.5, 2.5 without bounds, and
/// 0.5, 1.5, 2 below an upper bound of 2, which applies after the division.
#[test]
fn rewards_and_advantages_are_scaled_and_clipped() {
    let bounds = |low, high| Some(Bounds { low, high });
    let plain = Algorithm::default;
    for (rewards, algorithm, expected) in [
        ([5.0, 0.0, -3.0], Algorithm { reward_clip: bounds(-1.0, 1.0), ..plain() }, [1.5, 0.0, -1.5]),
        ([5.0, 0.0, -3.0], Algorithm { advantage_clip: bounds(-2.0, 0.5), ..plain() }, [0.5, -1.0, -2.0]),
        ([1.0, 3.0, 5.0], Algorithm { reward_scale: RewardScale::Running, ..plain() }, [-1.5, 0.0, 1.5]),
        (
            [1.0, 3.0, 5.0],
            Algorithm { reward_scale: RewardScale::Running, reward_clip: bounds(0.0, 2.0), ..plain() },
            [-1.25, 0.25, 1.0],
        ),
    ] {
        let found = advantages(rewarded(rewards), &algorithm);
        for (found, expected) in found.iter().zip(expected) {
            near(found, &[expected; 2]);
        }
    }
}

/// Ratios 1.5 and 3: their product is 4.5, their geometric mean 2.1213.
#[test]
fn importance_weights_have_a_level_and_a_mode() {
    let ratios: [f64; 2] = [1.5, 3.0];
    for (level, mode, cap, expected) in [
        (CapLevel::Token, AboveCap::Truncate, 2.0, [1.5, 2.0]),
        (CapLevel::Token, AboveCap::Mask, 2.0, [1.5, 0.0]),
        (CapLevel::Sequence, AboveCap::Truncate, 2.5, [2.5, 2.5]),
        (CapLevel::Sequence, AboveCap::Mask, 2.5, [0.0, 0.0]),
        (CapLevel::Sequence, AboveCap::Mask, 5.0, [4.5, 4.5]),
        (CapLevel::Geometric, AboveCap::Truncate, 2.0, [2.0, 2.0]),
        (CapLevel::Geometric, AboveCap::Truncate, 2.5, [4.5_f64.sqrt(); 2]),
        (CapLevel::Geometric, AboveCap::Mask, 2.0, [0.0, 0.0]),
    ] {
        let off_policy = Some(OffPolicy { cap, mode, level, veto: None, stale_steps: None });
        let algorithm = Algorithm { off_policy, ..Algorithm::default() };
        let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
        let mut batch = Batch::new(&[rewarded([1.0, 0.0, 0.0])], &settings);
        for (token, ratio) in ratios.into_iter().enumerate() {
            let tokens = &mut batch.inputs[0].tokens;
            tokens.set(Column::Proximal, token, tokens.get(Column::Behaviour, token) + ratio.ln());
        }
        advantage::compute(
            &mut batch.inputs,
            &algorithm,
            &mut AdvantageState::default(),
            VERSION,
            &mut Seed(1).stream(),
        );
        for (found, expected) in batch.inputs[0].tokens.column(Column::Correction).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{level:?}, {mode:?}, {cap}: {found} is not {expected}");
        }
    }
}

/// Tokens of turn `n` have weight version `n`; the step begins with version 3.
#[test]
fn stale_tokens_are_masked() {
    let group = |_| (0..2).map(|member| episode(member, vec![segment(0, 0..4, 1.0)], &[f64::from(member)])).collect();
    let off_policy =
        |stale_steps| OffPolicy { cap: 2.0, mode: AboveCap::Truncate, level: CapLevel::Token, veto: None, stale_steps };
    let masked = |stale_steps| {
        let algorithm = Algorithm { off_policy: Some(off_policy(stale_steps)), ..Algorithm::default() };
        advantages(group(()), &algorithm)[0].iter().filter(|advantage| advantage.is_none()).count()
    };
    assert_eq!((masked(None), masked(Some(3)), masked(Some(1))), (0, 0, 4));
}

/// Equal rewards, and a divergence of 1/2 nat at one of four tokens, which costs 0.005. Its advantage is 0.00375 under the
/// mean. Whitening to deviation 1 would give 1.5 instead of 0.0375.
#[test]
fn whitening_does_not_scale_the_noise_of_the_penalty_to_deviation_1() {
    let algorithm = preset("reinforce++");
    assert_eq!((algorithm.kl.map(|kl| kl.beta), algorithm.whiten_floor), (Some(0.01), 0.1));
    let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
    let group = (0..2).map(|member| episode(member, vec![segment(0, 0..1, 1.0)], &[1.0])).collect();
    let mut batch = Batch::new(&[group], &settings);
    for (index, input) in batch.inputs.iter_mut().enumerate() {
        for token in 0..2 {
            let proximal = input.tokens.get(Column::Proximal, token);
            let below = if (index, token) == (0, 0) { 0.5 } else { 0.0 };
            input.tokens.set(Column::Reference, token, proximal - below);
        }
    }
    advantage::compute(&mut batch.inputs, &algorithm, &mut AdvantageState::default(), VERSION, &mut Seed(1).stream());
    let found: Vec<f64> =
        batch.inputs.iter().flat_map(|input| input.tokens.column(Column::Advantage).into_owned()).collect();
    for (found, expected) in found.into_iter().zip([-0.0375, 0.0125, 0.0125, 0.0125]) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }
}

/// The band of a turn is 0.8 to 1.2 times its history of 1 nat. The step's episodes have entropies of 1/4 and 7/4: their
/// mean is inside of the band, and each of them is outside.
#[test]
fn the_unit_of_the_entropy_band_decides_what_leaves_it() {
    let slopes = |unit| {
        let band = EntropyBand { low: 0.8, high: 1.2, weight: 0.1, mode: BandMode::Hinge, unit, from_turn: 0 };
        let algorithm = Algorithm { entropy_band: Some(band), entropy_bonus: 0.1, ..Algorithm::default() };
        let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
        let (mut memory, mut slopes) = (AdvantageState::default(), Vec::new());
        for entropies in [[1.0, 1.0], [0.25, 1.75]] {
            let of_member = |(member, entropy)| episode(member, vec![segment(0, 0..1, entropy)], &[f64::from(member)]);
            let mut batch = Batch::new(&[(0..).zip(entropies).map(of_member).collect()], &settings);
            // The first token of the second episode is inside of the band.
            batch.inputs[1].tokens.set(Column::Entropy, 0, 1.0);
            advantage::compute(&mut batch.inputs, &algorithm, &mut memory, 0, &mut Seed(1).stream());
            slopes = batch.inputs.iter().map(|input| input.tokens.column(Column::BandSlope).into_owned()).collect();
        }
        slopes
    };
    // Means: of the batch (1/4 + 1/4 + 1 + 7/4) / 4 = 0.8125, of the turns 1/4 and 1.375.
    assert_eq!(slopes(BandUnit::Batch), [[0.0; 2]; 2]);
    assert_eq!(slopes(BandUnit::Turn), [[-1.0; 2], [1.0; 2]]);
    assert_eq!(slopes(BandUnit::Token), [[-1.0, -1.0], [0.0, 1.0]]);
}

/// Entropies fall from 1 to 1/4 in both turns, which leaves the band; turns before `from_turn` cost nothing.
#[test]
fn the_entropy_band_starts_at_from_turn() {
    let costs = |from_turn| {
        let band =
            EntropyBand { low: 0.8, high: 1.2, weight: 0.1, mode: BandMode::Hinge, unit: BandUnit::Batch, from_turn };
        let algorithm = Algorithm { entropy_band: Some(band), entropy_bonus: 0.1, ..Algorithm::default() };
        let settings = RlSettings { algorithm: algorithm.clone(), ..RlSettings::default() };
        let (mut memory, mut slopes) = (AdvantageState::default(), Vec::new());
        for entropy in [1.0, 0.25] {
            let group: Vec<EpisodeRecord> =
                (0..2).map(|member| episode(member, vec![segment(0, 0..2, entropy)], &[f64::from(member)])).collect();
            let mut batch = Batch::new(&[group], &settings);
            advantage::compute(&mut batch.inputs, &algorithm, &mut memory, 0, &mut Seed(1).stream());
            slopes = batch.inputs[0].tokens.column(Column::BandSlope).into_owned();
        }
        slopes
    };
    assert_eq!(costs(0), [-1.0; 4]);
    assert_eq!(costs(1), [0.0, 0.0, -1.0, -1.0]);
    assert_eq!(costs(2), [0.0; 4]);
}

#[test]
fn tasks_are_named_as_the_store_names_them() {
    let batch = Batch::new(&[vec![episode(0, vec![segment(0, 0..1, 1.0)], &[1.0])]], &RlSettings::default());
    assert_eq!(batch.episodes[0].task, "train/7");
}
