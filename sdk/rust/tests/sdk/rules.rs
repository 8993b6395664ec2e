//! Rules that the SDK applies to every plugin: valid options, seats in turn, finished episodes and open handles.

use gymkhana_sdk::environment::{
    Action, ActionBody, Environment, Episode, Info, ResetResult, Snapshot, Split, StepResult,
};
use gymkhana_sdk::reward::{self, Ending, Ranged, Reward, Score, SeatCall, SeatMessage, Trajectory, Turn};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::tool::{self, Answer, Session, Tool};
use gymkhana_sdk::{Call, Error, Function, NamedValue, Parameters, PluginOptions, Range, Task, named, text, text_of};

#[derive(PluginOptions)]
struct CountingOptions {
    /// Step
    #[option(default = 1, range = 1..=9)]
    by: u64,
}

/// Environment in which two seats count in turn; calling `stop` ends the game.
struct Counting {
    count: u64,
    step: u64,
}

impl Environment for Counting {
    type Options = CountingOptions;

    fn info() -> Info {
        Info::new("Count in turn", ["first", "second"])
    }

    fn splits(_options: &CountingOptions) -> Result<Vec<Split>, Error> {
        Ok(vec![Split::of("train", 3)])
    }

    fn reset(_task: &Task, options: &CountingOptions, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let stop = Function::new("stop", "Ends the game.", Parameters::new());
        let counting = Self { count: 0, step: options.by };
        Ok((counting, ResetResult::default().show(1, text("0")).next_seat(1).offer(1, vec![stop])))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        if action.call().is_some() {
            return Ok(StepResult::new().reward_to(1, 0.5).end());
        }
        self.count += self.step;
        let next = 1 - action.seat;
        Ok(StepResult::new().show(next, text(self.count.to_string())).next_seat(next))
    }
}

impl Snapshot for Counting {
    fn snapshot(&self) -> Vec<u8> {
        Writer::new().integer(self.count).integer(self.step).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let restored = Self { count: reader.integer()?, step: reader.integer()? };
        reader.end()?;
        Ok(restored)
    }
}

fn reset(options: Vec<NamedValue>) -> Result<(Episode<Counting>, ResetResult), Error> {
    Episode::reset(&Task { split: "train".into(), index: 0 }, options, 0)
}

fn call(seat: u32, name: &str) -> Action {
    Action { seat, body: ActionBody::Call(Call::advised(name, "{}")) }
}

#[test]
fn options_are_checked_before_the_author_sees_them() {
    assert!(matches!(reset(vec![named("bi", 2)]), Err(Error::Invalid(message)) if message.contains("`by`")));
    assert!(matches!(reset(vec![named("by", 10)]), Err(Error::Invalid(message)) if message.contains("1 to 9")));
    assert!(matches!(Episode::<Counting>::splits(vec![named("by", 0)]), Err(Error::Invalid(_))));
    let (mut episode, _) = reset(vec![named("by", 3)]).expect("a good option");
    let result = episode.step(Action::say(1, "go")).expect("its turn");
    assert_eq!(text_of(&result.observations[0].content), "3");
}

#[test]
fn seats_take_turns() {
    let (mut episode, _) = reset(Vec::new()).expect("no options");
    let early = episode.step(Action::say(0, "go"));
    assert_eq!(early, Err(Error::Invalid("it is the turn of seat 1, not of seat 0".into())));
    assert_eq!(episode.step(Action::say(1, "go")).map(|result| result.next_seat), Ok(0));
    assert!(matches!(episode.step(Action::say(1, "go")), Err(Error::Invalid(_))));
}

#[test]
fn only_offered_functions_are_called() {
    let (mut episode, _) = reset(Vec::new()).expect("no options");
    assert!(matches!(episode.step(call(1, "stpo")), Err(Error::NotFound(message)) if message.contains("`stpo`")));
    episode.step(Action::say(1, "go")).expect("its turn");
    assert!(matches!(episode.step(call(0, "stop")), Err(Error::NotFound(_))), "offered to the other seat");
}

#[test]
fn the_end_is_the_end_also_after_a_restore() {
    let (mut episode, _) = reset(Vec::new()).expect("no options");
    let before = episode.snapshot();
    assert!(episode.step(call(1, "stop")).is_ok_and(|result| result.terminated));
    assert!(matches!(episode.step(Action::say(0, "go")), Err(Error::Invalid(_))));
    let mut ended = Episode::<Counting>::restore(&episode.snapshot()).expect("its own snapshot");
    assert!(matches!(ended.step(Action::say(0, "go")), Err(Error::Invalid(_))));
    let mut earlier = Episode::<Counting>::restore(&before).expect("its own snapshot");
    assert!(earlier.step(call(1, "stop")).is_ok(), "whose turn it is and what was offered come back too");
}

#[derive(PluginOptions)]
struct RecorderOptions {
    /// In capitals
    #[option(default = false)]
    loud: bool,
}

/// Tool that records the arguments of `open`.
struct Recorder(String);

impl Tool for Recorder {
    type Options = RecorderOptions;

    fn info() -> tool::Info {
        tool::Info::new("Remembers")
    }

    fn functions(_options: &RecorderOptions) -> Result<Vec<Function>, Error> {
        Ok(vec![Function::new("recall", "Says it.", Parameters::new()).costing(2.0)])
    }

    fn open(setup: Option<Vec<u8>>, options: &RecorderOptions, seed: u64) -> Result<Self, Error> {
        Ok(Self(format!("{setup:?} {} {seed}", options.loud)))
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        Ok(if call.name == "recall" { Answer::text(self.0.as_str()) } else { Answer::no_function(call) })
    }
}

#[test]
fn a_session_gets_setup_options_and_seed() {
    let mut session = Session::<Recorder>::open(Some(vec![7]), vec![named("loud", true)], 9).expect("good options");
    assert_eq!(session.call(&Call::advised("recall", "{}")), Ok(Answer::text("Some([7]) true 9")));
    assert!(session.call(&Call::advised("recal", "{}")).is_ok_and(|answer| answer.failed));
    assert!(matches!(Session::<Recorder>::open(None, vec![named("lout", true)], 0), Err(Error::Invalid(_))));
    assert_eq!(Session::<Recorder>::functions(Vec::new()).map(|functions| functions[0].cost), Ok(2.0));
}

/// Reward of 1 per call.
struct Busy;

impl Ranged for Busy {
    const RANGE: Range = Range { low: 0.0, high: 9.0 };
}

impl Reward for Busy {
    type Options = ();

    fn info() -> reward::Info {
        reward::Info::new("A point for each call")
    }

    fn score(group: &[Trajectory], _options: &(), _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        reward::each_seat(group, |trajectory, seat| Ok(Score::new(seat, trajectory.calls(seat).count() as f64)))
    }
}

#[test]
fn each_seat_that_acted_is_scored_in_order() {
    let message = |seat| Turn::Message(SeatMessage { seat, content: text("yes") });
    let called = |seat| Turn::Call(SeatCall { seat, call: Call::advised("f", "{}"), cost: 0.0 });
    let shown = Turn::Observation(SeatMessage { seat: 5, content: text("look") });
    let turns = vec![message(2), shown, called(0), called(2), called(2)];
    let played = Trajectory { turns, ..Trajectory::new("train", 0, Ending::Terminated) };
    let idle = Trajectory::new("train", 0, Ending::Failed);
    let scores = reward::score::<Busy>(&[played.clone(), idle], Vec::new(), 0).expect("no options");
    let totals = |scores: &[Score]| scores.iter().map(|score| (score.seat, score.total)).collect::<Vec<_>>();
    assert_eq!(totals(&scores[0]), [(0, 1.0), (2, 2.0)]);
    assert!(scores[1].is_empty());
    assert_eq!(played.last_message(2), None, "the last thing that seat 2 did was a call");
}
