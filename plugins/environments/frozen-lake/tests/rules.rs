//! Comparison with Gymnasium (`gymnasium_golden.json`, written by `gymnasium_golden.py`), and properties of the
//! environment.

use std::collections::{HashMap, HashSet};

use frozen_lake::{Direction, FrozenLake, Map};
use gymkhana_sdk::environment::{
    Action, Advice, Environment, Episode, Oracle, Picture, Privileged, Render, ResetResult, Snapshot, Split, StateKey,
    StepResult,
};
use gymkhana_sdk::{Error, NamedValue, Task, named, text_of};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("gymnasium_golden.json")).expect("Gymnasium's answers")
}

fn rows(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn start(split: &str, index: u64, options: Vec<NamedValue>, seed: u64) -> (Episode<FrozenLake>, ResetResult) {
    let task = Task { split: split.to_owned(), index };
    Episode::reset(&task, options, seed).expect("a task that there is")
}

fn say(episode: &mut Episode<FrozenLake>, word: &str) -> StepResult {
    episode.step(Action::say(0, word)).expect("words are never an error")
}

fn shown(stepped: &StepResult) -> String {
    text_of(&stepped.observations[0].content)
}

/// Episode with the agent at a position, made from a snapshot whose second field is the position.
fn placed(map: &Map, slippery: bool, place: u64, seed: u64) -> FrozenLake {
    let mut snapshot = FrozenLake::new(map.clone(), slippery, 100, seed).snapshot();
    let field = 8 + map.text().len();
    snapshot[field..field + 8].copy_from_slice(&place.to_le_bytes());
    FrozenLake::restore(&snapshot).expect("a snapshot with another place")
}

/// Position of the agent, read from its observation.
fn place_in(observation: &str) -> u64 {
    observation.replace('\n', "").find('A').expect("the agent is on the map") as u64
}

#[test]
fn maps_and_turn_limits_equal_those_of_gymnasium() {
    let golden = golden();
    for name in ["4x4", "8x8"] {
        assert_eq!(Map::fixed(name).map(|map| map.text()), Some(rows(&golden["maps"][name]).join("\n")));
        let (mut episode, _) = start("train", 0, vec![named("map", name)], 0);
        let turns = (1..).find(|_| say(&mut episode, "up").truncated);
        assert_eq!(turns, golden["turns"][name].as_u64(), "{name}");
    }
}

#[test]
fn valid_maps_equal_those_of_gymnasium() {
    for board in golden()["boards"].as_array().expect("boards") {
        let map = Map::parse(&rows(&board["rows"])).expect("a board of known letters");
        assert_eq!(Some(map.is_valid()), board["valid"].as_bool(), "{}", map.text());
    }
}

/// Every outcome in Gymnasium's table occurs with its probability, and no other outcome occurs.
#[test]
fn transitions_equal_those_of_gymnasium() {
    let golden = golden();
    for (name, draws) in [("4x4 firm", 1), ("8x8 firm", 1), ("4x4 slippery", 600), ("8x8 slippery", 60)] {
        let map = Map::fixed(&name[..3]).expect("a fixed map");
        let table = golden["transitions"][name].as_array().expect("states");
        for (state, actions) in
            table.iter().enumerate().filter(|(state, _)| !map.is_hole(*state) && !map.is_goal(*state))
        {
            for direction in Direction::ALL {
                let mut expected: HashMap<(u64, bool, bool), f64> = HashMap::new();
                for outcome in actions[direction as usize].as_array().expect("outcomes") {
                    let next = outcome[1].as_u64().expect("a state");
                    let key = (next, outcome[2] == 1.0, outcome[3] == true);
                    *expected.entry(key).or_default() += outcome[0].as_f64().expect("a probability");
                }
                let mut counts: HashMap<(u64, bool, bool), u32> = HashMap::new();
                for seed in 0..draws {
                    let mut lake = placed(&map, name.ends_with("slippery"), state as u64, seed);
                    let stepped = lake.step(Action::say(0, direction.word())).expect("a direction");
                    let rewarded = stepped.rewards.iter().any(|earned| earned.reward == 1.0);
                    *counts.entry((place_in(&shown(&stepped)), rewarded, stepped.terminated)).or_default() += 1;
                }
                assert_eq!(
                    counts.keys().collect::<HashSet<_>>(),
                    expected.keys().collect(),
                    "{name} {state} {direction:?}"
                );
                for (outcome, count) in counts {
                    let (probability, draws) = (expected[&outcome], f64::from(u32::try_from(draws).expect("small")));
                    // Five standard deviations.
                    let spread = 5.0 * (draws * probability * (1.0 - probability)).max(0.0).sqrt() + 1e-9;
                    assert!((f64::from(count) - draws * probability).abs() <= spread, "{name} {state} {direction:?}");
                }
            }
        }
    }
}

#[test]
fn splits_never_share_a_map_and_held_out_maps_are_distinct() {
    for (size, enough) in [(3, 4), (4, 200), (5, 256), (8, 256), (16, 256)] {
        let options = || vec![named("size", size)];
        let splits = Episode::<FrozenLake>::splits(options()).expect("good options");
        assert_eq!(splits[0], Split::endless("train"));
        let tasks = splits[1].tasks.expect("a finite test split");
        assert!(tasks >= enough, "{tasks} test maps of size {size}");
        let map = |split, index| text_of(&start(split, index, options(), 0).1.observations[0].content);
        let held_out: HashSet<String> = (0..tasks.min(64)).map(|index| map("test", index)).collect();
        assert_eq!(held_out.len() as u64, tasks.min(64));
        assert!((0..2000).all(|index| !held_out.contains(&map("train", index))), "size {size}");
        let past = Task { split: "test".into(), index: tasks };
        assert!(matches!(Episode::<FrozenLake>::reset(&past, options(), 0), Err(Error::NotFound(_))));
    }
}

/// Two maps of size 2 have a path, and both belong to `train`.
#[test]
fn a_split_without_maps_is_left_out() {
    let splits = Episode::<FrozenLake>::splits(vec![named("size", 2)]).expect("good options");
    assert_eq!(splits, [Split::endless("train")]);
}

#[test]
fn random_maps_keep_the_rule() {
    let mut holes = 0_u32;
    for index in 0..500 {
        let (episode, started) = start("train", index, vec![named("size", 8)], 0);
        let map: Vec<String> =
            text_of(&started.observations[0].content).replacen('A', "S", 1).lines().map(str::to_owned).collect();
        let map = Map::parse(&map).expect("start, goal, ice and holes");
        assert!(map.is_valid());
        assert_eq!(
            episode.environment().privileged(),
            [named("distance", i64::from(map.distances()[0].expect("valid")))]
        );
        holes += (0..64).filter(|place| map.is_hole(*place)).count() as u32;
    }
    // Gymnasium's generate_random_map(8) has 11.99 holes on average; five standard deviations are 0.67.
    let mean = f64::from(holes) / 500.0;
    assert!((mean - 11.99).abs() < 0.67, "{mean} holes a map");
}

#[test]
fn the_expert_reaches_the_goal_on_the_shortest_path() {
    for size in [3, 4, 8] {
        for index in 0..50 {
            let (mut episode, _) = start("train", index, vec![named("size", size)], 0);
            let shortest = match episode.environment().privileged().as_slice() {
                [NamedValue { value: gymkhana_sdk::Value::Integer(steps), .. }] => *steps,
                other => panic!("no distance: {other:?}"),
            };
            let mut last = StepResult::new();
            for _ in 0..shortest {
                assert!(!last.terminated);
                let Ok(Advice::Message(word)) = episode.environment().advise(&[], &[]) else { panic!("no advice") };
                last = say(&mut episode, &word);
            }
            assert!(last.terminated && last.extras[0] == named("success", true) && last.rewards[0].reward == 1.0);
        }
    }
}

/// Value iteration on Gymnasium's own table gives a policy that succeeds in 0.7402 of episodes of 100 turns.
#[test]
fn the_expert_on_slippery_ice_is_as_good_as_can_be() {
    let map = Map::fixed("4x4").expect("a fixed map");
    let advise = |place| match placed(&map, true, place, 0).advise(&[], &[]) {
        Ok(Advice::Message(word)) => word,
        other => panic!("no word: {other:?}"),
    };
    let words: Vec<String> = (0..16).map(advise).collect();
    let mut successes = 0;
    for seed in 0..2000 {
        let (mut episode, started) = start("train", 0, vec![named("map", "4x4"), named("slippery", true)], seed);
        let mut seen = text_of(&started.observations[0].content);
        loop {
            let stepped = say(&mut episode, &words[place_in(&seen) as usize]);
            if stepped.terminated || stepped.truncated {
                successes += u32::from(stepped.extras[0] == named("success", true));
                break;
            }
            seen = shown(&stepped);
        }
    }
    // 1480 expected; five standard deviations are 98.
    assert!(1480_u32.abs_diff(successes) < 98, "{successes} of 2000");
}

#[test]
fn one_direction_is_a_move_and_anything_else_costs_a_turn() {
    let options = || vec![named("map", "4x4"), named("turns", 3)];
    let (mut episode, started) = start("train", 0, options(), 0);
    assert_eq!(text_of(&started.observations[0].content), "AFFF\nFHFH\nFFFH\nHFFG");
    assert_eq!(shown(&say(&mut episode, "  I go RIGHT!\n")), "SAFF\nFHFH\nFFFH\nHFFG");
    for words in ["left or right", "upright", ""] {
        let (mut other, _) = start("train", 0, options(), 0);
        assert_eq!(shown(&say(&mut other, words)), "Say left, down, right or up.\nAFFF\nFHFH\nFFFH\nHFFG", "{words}");
    }
    assert!(!say(&mut episode, "jump").truncated);
    let last = say(&mut episode, "left");
    assert!(last.truncated && !last.terminated);
    assert_eq!(last.extras, [named("success", false), named("map", "SFFF\nFHFH\nFFFH\nHFFG")]);
}

#[test]
fn holes_end_the_episode_without_a_reward() {
    let (mut episode, _) = start("train", 0, vec![named("map", "4x4")], 0);
    say(&mut episode, "right");
    let fallen = say(&mut episode, "down");
    assert!(fallen.terminated && fallen.rewards[0].reward == 0.0 && fallen.extras[0] == named("success", false));
    assert!(episode.environment().privileged().is_empty());
    assert!(matches!(episode.step(Action::say(0, "up")), Err(Error::Invalid(_))));
}

#[test]
fn a_restored_episode_slips_alike() {
    let (mut episode, _) = start("train", 5, vec![named("slippery", true), named("size", 8)], 11);
    for step in 0..6 {
        let mut restored = Episode::<FrozenLake>::restore(&episode.snapshot()).expect("its own snapshot");
        let word = Direction::ALL[step % 4].word();
        let (one, other) = (episode.step(Action::say(0, word)), restored.step(Action::say(0, word)));
        assert_eq!(one, other);
        assert_eq!(episode.snapshot(), restored.snapshot());
        if one.is_ok_and(|stepped| stepped.terminated) {
            return;
        }
    }
}

#[test]
fn damaged_snapshots_are_refused() {
    let (episode, _) = start("train", 5, Vec::new(), 11);
    let snapshot = episode.snapshot();
    for length in 0..snapshot.len() {
        let cut = Episode::<FrozenLake>::restore(&snapshot[..length]);
        assert!(matches!(cut, Err(Error::BadSnapshot(_))), "cut at {length}");
    }
    for place in 0..snapshot.len() {
        let mut damaged = snapshot.clone();
        damaged[place] ^= 0x80;
        // Corrupted bytes may restore another state, but must not panic.
        let _ = Episode::<FrozenLake>::restore(&damaged);
    }
}

#[test]
fn state_keys_forget_the_path() {
    let key = |words: &[&str]| {
        let (mut episode, _) = start("train", 0, vec![named("map", "8x8")], 0);
        words.iter().for_each(|word| drop(say(&mut episode, word)));
        episode.environment().state_key()
    };
    assert_eq!(key(&["right", "down"]), key(&["down", "right", "jump"]));
    assert_ne!(key(&["right"]), key(&["down"]));
}

#[test]
fn the_picture_shows_every_tile_and_the_agent() {
    let (episode, _) = start("train", 0, vec![named("map", "4x4")], 0);
    let Picture::Svg(svg) = episode.environment().render() else { panic!("no SVG") };
    assert_eq!(
        (svg.matches("<rect").count(), svg.matches("#1f3f66").count(), svg.matches("<circle").count()),
        (16, 4, 1)
    );
}
