//! Seeded records in which every field has a value.
#![allow(dead_code, reason = "each test file uses some of these")]

use gymkhana_record::{
    AgentCall, AgentRun, Boundary, Call, CallCost, CallSite, Component, Content, Cost, EPISODE_SCHEMA, Ending,
    EpisodeId, EpisodeRecord, Evidence, Exchange, Failure, FailureKind, Function, HttpRequest, HttpResponse, LogEntry,
    LogLevel, Media, ModelMessage, ModelReply, ModelRequest, ModelRole, NamedValue, Opening, Part, Phase, PluginScore,
    PolicyTurn, ProbeScore, Question, Refused, Reply, Score, SeatFunctions, SeatRewards, Seed, Segment, SegmentColumns,
    Stream, TaskRef, Timing, Turn, Value,
};

/// Id of the `number`-th episode of a run: eight members per group, four groups per step.
pub fn id(number: u64) -> EpisodeId {
    EpisodeId {
        stage: 1,
        phase: Phase::Train,
        step: number / 32,
        group: (number / 8 % 4) as u32,
        member: (number % 8) as u32,
        attempt: 0,
    }
}

/// Record of the `number`-th episode; equal for equal numbers.
pub fn record(number: u64) -> EpisodeRecord {
    let mut stream = Seed(number).child("record").stream();
    let random = &mut stream;
    EpisodeRecord {
        schema: EPISODE_SCHEMA,
        id: id(number),
        task: TaskRef { split: words(random), index: random.bits() },
        seed: Seed(random.bits()),
        forks: vec![],
        turn_limit: random.bits() as u32,
        guidance: (random.below(2) == 0).then(|| content(random)),
        hint: (random.below(2) == 0).then(|| content(random)),
        selected: random.below(2) == 0,
        training_step: random.bits(),
        opening: Opening {
            functions: several(random, |random| SeatFunctions {
                seat: random.bits() as u32,
                functions: several(random, function),
            }),
            setup: several(random, |random| (words(random), bytes(random))),
            observations: several(random, |random| (random.bits() as u32, content(random))),
        },
        turns: several(random, turn),
        policy_turns: several(random, policy_turn),
        segments: several(random, segment),
        ending: [Ending::Terminated, Ending::TurnLimit, Ending::EnvironmentFailed][random.below(3) as usize],
        environment_rewards: several(random, |random| SeatRewards { seat: 0, rewards: several(random, double) }),
        extras: several(random, named_value),
        privileged: several(random, named_value),
        views: several(random, named_value),
        scores: several(random, |random| PluginScore { plugin: words(random), scores: several(random, score) }),
        rewards: several(random, double),
        turn_rewards: several(random, |random| several(random, double)),
        turn_gains: several(random, |random| several(random, double)),
        success: random.below(2) == 0,
        failures: several(random, failure),
        exchanges: several(random, exchange),
        costs: several(random, cost),
        logs: several(random, log_entry),
        unsandboxed: several(random, words),
        agent: (random.below(2) == 0).then(|| agent_run(random)),
        timing: Timing { total_ms: double(random), policy_ms: double(random), ..Timing::default() },
        environment: (random.below(2) == 0).then(|| words(random)),
    }
}

fn agent_run(random: &mut Stream) -> AgentRun {
    AgentRun {
        answer: Some(words(random)),
        exit: Some(random.bits() as i32),
        begin: 1,
        turns: random.bits() as u32,
        calls: several(random, agent_call),
        stderr: words(random),
        ..AgentRun::default()
    }
}

fn agent_call(random: &mut Stream) -> AgentCall {
    let call = Call { id: words(random), name: words(random), arguments: words(random) };
    AgentCall { call, listed: random.below(2) == 0, begin: random.bits() as u32, turns: random.bits() as u32 }
}

fn cost(random: &mut Stream) -> CallCost {
    let at = failure(random).at;
    let fuel = (random.below(2) == 0).then(|| random.bits());
    let memory_bytes = (random.below(2) == 0).then(|| random.bits());
    CallCost { at, call_site: call_site(random), cost: Cost { running_us: double(random), fuel, memory_bytes } }
}

fn log_entry(random: &mut Stream) -> LogEntry {
    let at = failure(random).at;
    let seat = (random.below(2) == 0).then(|| random.bits() as u32);
    let level = [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error][random.below(4) as usize];
    LogEntry { at, call_site: call_site(random), seat, level, text: words(random) }
}

fn exchange(random: &mut Stream) -> Exchange {
    let (question, reply) = match random.below(3) {
        0 => (
            Question::Http(HttpRequest {
                method: words(random),
                url: words(random),
                headers: several(random, |random| (words(random), words(random))),
                body: bytes(random),
                timeout_ms: random.bits() as u32,
            }),
            Reply::Http(HttpResponse { status: random.bits() as u16, headers: vec![], body: bytes(random) }),
        ),
        1 => (
            Question::Model(ModelRequest {
                messages: several(random, |random| ModelMessage { role: ModelRole::User, content: content(random) }),
                max_tokens: random.bits() as u32,
                temperature: single(random),
                stop: several(random, words),
            }),
            Reply::Model(ModelReply {
                text: words(random),
                cut: random.below(2) == 0,
                prompt_tokens: random.bits() as u32,
                completion_tokens: random.bits() as u32,
            }),
        ),
        _ => (
            Question::Tool(Call { id: words(random), name: words(random), arguments: words(random) }),
            Reply::Refused(Refused::Failed(words(random))),
        ),
    };
    Exchange { at: failure(random).at, call_site: call_site(random), question, reply }
}

fn several<T>(random: &mut Stream, of: impl Fn(&mut Stream) -> T) -> Vec<T> {
    (0..random.below(4)).map(|_| of(random)).collect()
}

/// Any finite number, from random bits.
fn double(random: &mut Stream) -> f64 {
    Some(f64::from_bits(random.bits())).filter(|number| number.is_finite()).unwrap_or(-0.0)
}

fn single(random: &mut Stream) -> f32 {
    Some(f32::from_bits(random.bits() as u32)).filter(|number| number.is_finite()).unwrap_or(f32::MIN_POSITIVE)
}

fn words(random: &mut Stream) -> String {
    let alphabet = ['a', 'Z', '0', ' ', '"', '\\', '\n', '\0', '\u{7f}', 'é', '雪', '🦀', '<', '{', '\u{2028}'];
    (0..random.below(12)).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect()
}

fn bytes(random: &mut Stream) -> Vec<u8> {
    let mut bytes = vec![0; random.below(20) as usize];
    random.fill(&mut bytes);
    bytes
}

fn content(random: &mut Stream) -> Content {
    several(random, |random| {
        let kind = random.below(5);
        let media = Media { mime: words(random), bytes: bytes(random) };
        match kind {
            0 => Part::Text(words(random)),
            1 => Part::Image(media),
            2 => Part::Audio(media),
            3 => Part::Video(media),
            _ => Part::Other(media),
        }
    })
}

fn function(random: &mut Stream) -> Function {
    Function { name: words(random), description: words(random), parameters: words(random), cost: double(random) }
}

fn turn(random: &mut Stream) -> Turn {
    let seat = random.bits() as u32;
    match random.below(5) {
        0 => Turn::Message { seat, content: content(random) },
        1 => Turn::Call {
            seat,
            call: Call { id: words(random), name: words(random), arguments: words(random) },
            cost: double(random),
        },
        2 => Turn::Answer { seat, id: words(random), content: content(random), failed: random.below(2) == 0 },
        3 => Turn::MalformedCall { seat, id: words(random), text: words(random) },
        _ => Turn::Observation { seat, content: content(random) },
    }
}

fn policy_turn(random: &mut Stream) -> PolicyTurn {
    let note = (random.below(2) == 0).then(|| words(random));
    let without = (random.below(2) == 0).then(|| double(random));
    let probe_score = (random.below(2) == 0).then(|| ProbeScore { log_prob: double(random), without });
    let state = (random.below(2) == 0).then(|| format!("{:016x}", random.bits()));
    let mut number = || random.bits() as u32;
    PolicyTurn {
        seat: number(),
        turn: number(),
        transcript: number(),
        steps: number(),
        state,
        probe_score,
        thought_tokens: 0,
        note,
    }
}

fn segment(random: &mut Stream) -> Segment {
    let length = random.below(40) as usize;
    let numbers = |random: &mut Stream| (0..length).map(|_| random.bits() as u32).collect::<Vec<u32>>();
    let columns = SegmentColumns {
        // An empty segment of another seat does not survive a part, whose column of seats has one entry per token.
        seat: if length > 0 { random.bits() as u32 } else { 0 },
        tokens: numbers(random),
        sampled: (0..length).map(|_| random.below(2) == 0).collect(),
        log_probs: (0..length).map(|_| single(random)).collect(),
        entropies: (0..length).map(|_| single(random)).collect(),
        versions: numbers(random),
        turns: numbers(random),
    };
    Segment::from_columns(columns).expect("columns of one length")
}

fn call_site(random: &mut Stream) -> CallSite {
    let number = random.bits() as u32;
    match random.below(4) {
        0 => CallSite::Step(number),
        1 => CallSite::Reset,
        2 => CallSite::Scoring(number),
        _ => CallSite::Tool { id: words(random) },
    }
}

fn named_value(random: &mut Stream) -> NamedValue {
    let value = match random.below(6) {
        0 => Value::Flag(random.below(2) == 0),
        1 => Value::Integer(random.bits() as i64),
        2 => Value::Number(double(random)),
        3 => Value::Text(words(random)),
        4 => Value::Bytes(bytes(random)),
        _ => Value::Other(words(random)),
    };
    NamedValue { name: words(random), value }
}

fn score(random: &mut Stream) -> Score {
    Score {
        seat: random.bits() as u32,
        total: double(random),
        components: several(random, |random| Component { name: words(random), value: double(random) }),
        turns: several(random, double),
        evidence: several(random, |random| Evidence { turn: 1, start: 2, end: 3, note: words(random) }),
    }
}

fn failure(random: &mut Stream) -> Failure {
    let at = match random.below(5) {
        0 => Boundary::Environment(words(random)),
        1 => Boundary::Tool(words(random)),
        2 => Boundary::Reward(words(random)),
        3 => Boundary::Model,
        _ => Boundary::Host,
    };
    let kind = [FailureKind::Trap, FailureKind::ResultSize, FailureKind::Fault][random.below(3) as usize];
    Failure { at, kind, call_site: call_site(random), message: words(random) }
}
