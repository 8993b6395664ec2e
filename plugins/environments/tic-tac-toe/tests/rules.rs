//! Comparison with known figures of the game, and properties of the environment.

use std::collections::HashSet;

use gymkhana_sdk::environment::{
    Action, Advice, Episode, Oracle, Picture, Privileged, Render, ResetResult, Split, StateKey, StepResult,
};
use gymkhana_sdk::{Error, NamedValue, Rng, Task, Value, named, text_of};
use tic_tac_toe::{Board, Mark, TicTacToe};

fn start(split: &str, index: u64, options: Vec<NamedValue>, seed: u64) -> (Episode<TicTacToe>, ResetResult) {
    Episode::reset(&Task { split: split.to_owned(), index }, options, seed).expect("a task that there is")
}

/// Game from the empty board.
fn whole_game() -> Episode<TicTacToe> {
    start("train", 0, vec![named("opening", 0)], 0).0
}

/// Plays moves, X first, and returns the last result.
fn play(episode: &mut Episode<TicTacToe>, moves: &[&str]) -> StepResult {
    let mut seat = 0;
    let mut last = StepResult::new();
    for words in moves {
        last = episode.step(Action::say(seat, *words)).expect("words are never an error");
        seat = last.next_seat;
    }
    last
}

fn rewards(stepped: &StepResult) -> Vec<(u32, f64)> {
    stepped.rewards.iter().map(|earned| (earned.seat, earned.reward)).collect()
}

fn advice(episode: &Episode<TicTacToe>) -> String {
    match episode.environment().advise(&[], &[]) {
        Ok(Advice::Message(square)) => square,
        other => panic!("no square: {other:?}"),
    }
}

/// Counts of all games from a board: wins of X, wins of O and draws.
fn games(board: Board, mover: Mark) -> [u32; 3] {
    match (board.winner(), board.free().next()) {
        (Some(Mark::X), _) => [1, 0, 0],
        (Some(Mark::O), _) => [0, 1, 0],
        (None, None) => [0, 0, 1],
        (None, Some(_)) => board.free().fold([0; 3], |sum, square| {
            let more = games(board.with(square, mover), mover.other());
            std::array::from_fn(|place| sum[place] + more[place])
        }),
    }
}

/// Published counts of all games: 255,168, with 131,184 wins of X, 77,904 wins of O and 46,080 draws.
#[test]
fn there_are_as_many_games_as_there_should_be() {
    assert_eq!(games(Board::default(), Mark::X), [131_184, 77_904, 46_080]);
}

#[test]
fn a_row_wins_and_a_full_board_is_a_draw() {
    let won = play(&mut whole_game(), &["1", "4", "2", "<move>5</move>", "I take 3!"]);
    assert!(won.terminated && !won.truncated);
    assert_eq!(rewards(&won), [(0, 1.0), (1, -1.0)]);
    let shown: Vec<String> = won.observations.iter().map(|seen| text_of(&seen.content)).collect();
    assert_eq!(shown, ["You won.\nXXX\nOO6\n789", "You lost.\nXXX\nOO6\n789"]);
    let facts = [named("success", true), named("board", "XXX\nOO6\n789")];
    assert_eq!(won.extras, [&facts[..], &[named("x-points", 1.0), named("o-points", 0.0)]].concat());
    let lost = play(&mut whole_game(), &["1", "4", "2", "5", "9", "6"]);
    assert_eq!(rewards(&lost), [(0, -1.0), (1, 1.0)]);
    let drawn = play(&mut whole_game(), &["1", "2", "3", "5", "4", "6", "8", "7", "9"]);
    assert!(drawn.terminated);
    assert_eq!(rewards(&drawn), [(0, 0.0), (1, 0.0)]);
    assert_eq!(drawn.extras[2..], [named("x-points", 0.5), named("o-points", 0.5)]);
}

#[test]
fn forbidden_moves_are_answered_and_then_lose() {
    let mut episode = whole_game();
    play(&mut episode, &["5"]);
    let refused = |words: &str, episode: &mut Episode<TicTacToe>| {
        let stepped = episode.step(Action::say(1, words)).expect("words are never an error");
        (stepped.terminated, stepped.next_seat, text_of(&stepped.observations[0].content))
    };
    let board = "You are O.\n123\n4X6\n789";
    let answer = |left: &str| (false, 1, format!("Say the number of one free square; {left} left.\n{board}"));
    assert_eq!(refused("5", &mut episode), answer("2 tries"));
    assert_eq!(refused("1 or 2", &mut episode), answer("1 try"));
    let lost = episode.step(Action::say(1, "the corner")).expect("words are never an error");
    assert!(lost.terminated);
    assert_eq!(rewards(&lost), [(0, 1.0), (1, -1.0)]);
    assert_eq!(lost.extras[0], named("success", false));
    assert!(matches!(episode.step(Action::say(0, "1")), Err(Error::Invalid(_))));
    // Each invalid word with a valid twin.
    for (wrong, right) in [("0", "1"), ("10", "9"), ("<move></move>", "3: <move>4</move>"), ("", " 7\n")] {
        assert_eq!(play(&mut whole_game(), &[wrong]).next_seat, 0, "{wrong}");
        assert_eq!(play(&mut whole_game(), &[right]).next_seat, 1, "{right}");
    }
}

#[test]
fn tries_are_counted_by_seat_and_by_option() {
    let (mut episode, _) = start("train", 0, vec![named("opening", 0), named("tries", 2)], 0);
    let stepped = play(&mut episode, &["no", "1", "no", "2"]);
    assert!(!stepped.terminated && stepped.next_seat == 0);
    assert_eq!(rewards(&play(&mut episode, &["no"])), [(0, -1.0), (1, 1.0)]);
}

/// After k moves there are 9! / (x! o! (9 - k)!) positions.
#[test]
fn splits_share_no_rotated_position() {
    for (opening, positions) in [(0, 1), (1, 9), (2, 72), (3, 252), (4, 756)] {
        let options = || vec![named("opening", opening)];
        let splits = Episode::<TicTacToe>::splits(options()).expect("good options");
        assert_eq!(splits.iter().filter_map(|split| split.tasks).sum::<u64>(), positions);
        let board = |split: &Split, index| {
            let (_, started) = start(&split.name, index, options(), 0);
            let shown = text_of(&started.observations[0].content);
            Board::parse(shown.split_once('\n').expect("a board below the first line").1).expect("a board")
        };
        let boards = |split: &Split| (0..split.tasks.unwrap_or(0)).map(|index| board(split, index)).collect::<Vec<_>>();
        let codes: Vec<HashSet<usize>> =
            splits.iter().map(|split| boards(split).iter().map(Board::canonical_code).collect()).collect();
        let distinct: HashSet<Board> = splits.iter().flat_map(boards).collect();
        assert_eq!(distinct.len() as u64, positions, "each position is one task");
        assert_eq!(codes.len(), if opening < 2 { 1 } else { 2 }, "{splits:?}");
        if let [train, test] = &codes[..] {
            assert!(train.is_disjoint(test) && !test.is_empty() && train.len() > test.len());
        }
    }
}

#[test]
fn an_option_selects_the_first_mark() {
    let opened = |first: &str, index, opening: i64| {
        let (_, started) = start("train", index, vec![named("opening", opening), named("first", first)], 0);
        (started.next_seat, text_of(&started.observations[0].content).matches('O').count())
    };
    // "You are O." contains an O that is not on the board.
    assert_eq!((opened("x", 0, 0), opened("o", 0, 0)), ((0, 0), (1, 1)));
    assert_eq!((opened("alternate", 0, 0), opened("alternate", 1, 0)), ((0, 0), (1, 1)));
    assert_eq!((opened("x", 0, 3), opened("o", 0, 3)), ((1, 2), (0, 2)));
    let options = vec![named("opening", 3), named("first", "alternate")];
    let tasks: u64 = Episode::<TicTacToe>::splits(options).expect("good").iter().filter_map(|split| split.tasks).sum();
    assert_eq!(tasks, 504);
    let past = Task { split: "train".into(), index: 2 };
    let options = vec![named("opening", 0), named("first", "alternate")];
    assert!(matches!(Episode::<TicTacToe>::reset(&past, options, 0), Err(Error::NotFound(_))));
    let nowhere = Task { split: "dev".into(), index: 0 };
    assert!(matches!(Episode::<TicTacToe>::reset(&nowhere, vec![], 0), Err(Error::NotFound(_))));
}

/// From every opening, against a random player, the oracle gets at least the value of the position.
#[test]
fn the_oracle_keeps_the_value_of_a_position() {
    let mut rng = Rng::new(5);
    for index in 0..100 {
        for expert in [0, 1] {
            let options = vec![named("opening", 3), named("first", "alternate")];
            let (mut episode, started) = start("train", index, options, index);
            let worth = match &episode.environment().privileged()[0].value {
                Value::Integer(value) if expert == 0 => *value,
                Value::Integer(value) => -*value,
                other => panic!("no number: {other:?}"),
            };
            let mut seat = started.next_seat;
            let last = loop {
                let words = if seat == expert { advice(&episode) } else { rng.between(1, 9).to_string() };
                let stepped = episode.step(Action::say(seat, words)).expect("words are never an error");
                if stepped.terminated {
                    break stepped;
                }
                seat = stepped.next_seat;
            };
            assert!(rewards(&last)[expert as usize].1 >= worth as f64, "{index} as seat {expert}");
        }
    }
}

#[test]
fn two_oracles_draw_in_varied_games() {
    let mut boards = HashSet::new();
    for seed in 0..30 {
        let (mut episode, _) = start("train", 0, vec![named("opening", 0)], seed);
        let last = loop {
            let seat = 1 - u32::from(episode.environment().state_key().ends_with(&[0]));
            let words = advice(&episode);
            let stepped = episode.step(Action::say(seat, words)).expect("a move");
            if stepped.terminated {
                break stepped;
            }
        };
        assert_eq!(rewards(&last), [(0, 0.0), (1, 0.0)]);
        boards.insert(text_of(&last.observations[0].content));
    }
    assert!(boards.len() > 5, "{boards:?}");
}

#[test]
fn an_expert_that_slips_is_a_worse_one() {
    let wins_against_slips = |slips: i64| {
        let game = |seed| {
            let (mut episode, started) = start("train", seed % 50, vec![named("slips", slips)], seed);
            let mut seat = started.next_seat;
            loop {
                let words = match seat {
                    0 => start_expert(&episode),
                    _ => advice(&episode),
                };
                let stepped = episode.step(Action::say(seat, words)).expect("a move");
                if stepped.terminated {
                    return rewards(&stepped)[0].1 == 1.0;
                }
                seat = stepped.next_seat;
            }
        };
        (0..100).filter(|seed| game(*seed)).count()
    };
    // X plays perfectly in both cases: `best` ignores slips.
    assert!(wins_against_slips(100) > wins_against_slips(0) + 20);
}

/// First of the best squares.
fn start_expert(episode: &Episode<TicTacToe>) -> String {
    match &episode.environment().privileged()[1].value {
        Value::Text(best) => best.split(' ').next().unwrap_or_default().to_owned(),
        other => panic!("no squares: {other:?}"),
    }
}

#[test]
fn a_restored_game_continues_alike() {
    let (mut episode, started) = start("train", 5, vec![named("slips", 50)], 11);
    let mut seat = started.next_seat;
    loop {
        let mut restored = Episode::<TicTacToe>::restore(&episode.snapshot()).expect("its own snapshot");
        assert_eq!(advice(&episode), advice(&restored));
        let words = advice(&episode);
        let (one, other) = (episode.step(Action::say(seat, words.as_str())), restored.step(Action::say(seat, words)));
        assert_eq!(one, other);
        assert_eq!(episode.snapshot(), restored.snapshot());
        let stepped = one.expect("a move");
        if stepped.terminated {
            break;
        }
        seat = stepped.next_seat;
    }
}

#[test]
fn damaged_snapshots_are_refused() {
    let snapshot = whole_game().snapshot();
    for length in 0..snapshot.len() {
        let cut = Episode::<TicTacToe>::restore(&snapshot[..length]);
        assert!(matches!(cut, Err(Error::BadSnapshot(_))), "cut at {length}");
    }
    for place in 0..snapshot.len() {
        let mut damaged = snapshot.clone();
        damaged[place] ^= 0x80;
        // Corrupted bytes may restore another state, but must not panic.
        let _ = Episode::<TicTacToe>::restore(&damaged);
    }
}

#[test]
fn state_keys_forget_the_path() {
    let key = |moves: &[&str]| {
        let mut episode = whole_game();
        play(&mut episode, moves);
        episode.environment().state_key()
    };
    assert_eq!(key(&["1", "2", "3"]), key(&["3", "no", "2", "1"]));
    assert_ne!(key(&["1"]), key(&["3"]));
}

#[test]
fn the_picture_shows_every_mark() {
    let mut episode = whole_game();
    play(&mut episode, &["1", "2", "3"]);
    let Picture::Svg(svg) = episode.environment().render() else { panic!("no SVG") };
    let count = |shape: &str| svg.matches(shape).count();
    assert_eq!((count("<rect"), count("<path"), count("<circle")), (9, 2, 1));
}
