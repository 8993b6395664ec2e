//! Each check on a symptom and on a sound stage.

use gymkhana_finding::{Finding, FindingStatus};
use gymkhana_record::step_metrics::{rl, sft};
use gymkhana_record::{
    Boundary, Call, CallSite, Ending, EpisodeId, EpisodeRecord, Failure, FailureKind, Function, Part, Phase,
    PolicyTurn, Sampled, SeatFunctions, Seed, Segment, StepMetric, TaskRef, Turn,
};

use crate::{Health, HealthSettings};

const RUN_FILE: &str = "[limits]\ncontext_tokens = 100\n[[stages]]\nkind = \"rl\"\nstep_divergence = 1e-4\n";

/// Steps and groups of a stage, and members of a group.
const STEPS: u64 = 4;
const GROUPS: u64 = 4;
const MEMBERS: u64 = 4;

fn id(number: u64) -> EpisodeId {
    let (member, group) = ((number % MEMBERS) as u32, (number / MEMBERS % GROUPS) as u32);
    EpisodeId { stage: 0, phase: Phase::Train, step: number / MEMBERS / GROUPS, group, member, attempt: 0 }
}

/// A sound episode: a call, a message, tokens, a reward that differs within the group, and times.
fn sound(number: u64) -> EpisodeRecord {
    let task = TaskRef { split: "train".to_owned(), index: 0 };
    let mut record = EpisodeRecord::new(id(number), task, Seed(0), Ending::Terminated);
    let parameters = "{}".to_owned();
    let function = Function { name: "add".to_owned(), description: String::new(), parameters, cost: 0.0 };
    record.opening.functions = vec![SeatFunctions { seat: 0, functions: vec![function] }];
    let member = number % MEMBERS;
    record.turns = vec![call("add", &format!("{{\"a\":{member}}}")), said(&format!("It is {member}."))];
    record.segments = vec![segment(10, &[number as u32, 7, 8])];
    record.policy_turns = vec![turn()];
    record.rewards = vec![member as f64];
    record.success = member == 0;
    (record.timing.policy_ms, record.timing.tool_ms) = (200.0, 30.0);
    record
}

fn turn() -> PolicyTurn {
    let (seat, turn, transcript, steps) = (0, 0, 0, 0);
    PolicyTurn { seat, turn, transcript, steps, state: None, probe_score: None, thought_tokens: 0, note: None }
}

fn call(name: &str, arguments: &str) -> Turn {
    let call = Call { id: "call-0".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    Turn::Call { seat: 0, call, cost: 0.0 }
}

fn said(text: &str) -> Turn {
    Turn::Message { seat: 0, content: vec![Part::Text(text.to_owned())] }
}

fn refused(reason: &str) -> Turn {
    Turn::Answer { seat: 0, id: "call-0".to_owned(), content: vec![Part::Text(reason.to_owned())], failed: true }
}

/// A prompt of some tokens and a reply, whose surprise is half a nat above and below the entropy in turn.
fn segment(prompt: usize, reply: &[u32]) -> Segment {
    let mut segment = Segment::new(0);
    segment.append_given(&vec![1; prompt], 0);
    let log_probs = reply.iter().map(|token| if token % 2 == 0 { -0.5 } else { -1.5 }).collect();
    let (entropies, versions) = (vec![1.0; reply.len()], vec![0; reply.len()]);
    segment.append_sampled(&Sampled { tokens: reply.to_vec(), log_probs, entropies, versions }, 0).unwrap();
    segment
}

/// Sound metrics of a step.
fn metrics(step: u64) -> Vec<(StepMetric, f64)> {
    vec![
        (rl::REWARD, 0.1 * step as f64),
        (rl::SUCCESS, 0.05 * step as f64),
        (rl::EPISODES, 16.0),
        (rl::CUT_REPLIES, 0.1),
        (rl::UPDATES, 1.0),
        (rl::SKIPPED_UPDATES, 0.0),
        (rl::EPISODES_WITH_ADVANTAGE, 6.0),
        (rl::STEP_DIVERGENCE, 2e-4),
        (rl::ENTROPY, 1.0),
        (rl::STALENESS_MEAN, 1.0),
        (rl::ON_POLICY_DIVERGENCE, 1e-6),
        (rl::DEMONSTRATIONS, 16.0),
        (sft::LEFT_OUT, 0.0),
    ]
}

/// A stage of sound episodes and steps, each changed.
fn health(steps: u64, change: impl Fn(&mut EpisodeRecord), edit: impl Fn(u64, &mut Vec<(StepMetric, f64)>)) -> Health {
    let mut health = Health::new(HealthSettings::parse(RUN_FILE).unwrap());
    for number in 0..STEPS * GROUPS * MEMBERS {
        let mut record = sound(number);
        change(&mut record);
        health.add_episode(&record);
    }
    for step in 0..steps {
        let mut values = metrics(step);
        edit(step, &mut values);
        health.add_metrics(0, step, &values.iter().map(|(metric, value)| (metric.name(), *value)));
    }
    health
}

/// Checks outside of their usual range after a change of every episode.
fn after(change: impl Fn(&mut EpisodeRecord)) -> Vec<Finding> {
    health(STEPS, change, |_, _| {}).unusual(0)
}

/// The same after a change of a metric of every step.
fn after_metric(metric: StepMetric, value: impl Fn(u64) -> f64) -> Vec<Finding> {
    let set = |step: u64, values: &mut Vec<(StepMetric, f64)>| {
        values.retain(|(known, _)| known.name() != metric.name());
        values.push((metric, value(step)));
    };
    health(12, |_| {}, set).unusual(0)
}

fn checks(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| &*finding.check).collect()
}

/// Asserts that one check is outside of its usual range, with this text and words of the remedy.
#[track_caller]
fn assert_only(findings: &[Finding], check: &str, text: &str, remedy: &str) {
    assert_eq!(checks(findings), [check], "{findings:?}");
    assert!(findings[0].text.contains(text), "{findings:?}");
    assert!(findings[0].hint.as_deref().is_some_and(|hint| hint.contains(remedy)), "{findings:?}");
}

#[test]
fn a_sound_stage_has_a_figure_for_every_check_and_no_warning() {
    let findings = health(12, |_| {}, |_, _| {}).findings();
    assert_eq!(checks(&findings), crate::names().collect::<Vec<_>>());
    for finding in &findings {
        assert_eq!(finding.status, FindingStatus::Ok, "{finding:?}");
        assert!(finding.range.is_some(), "{finding:?}");
    }
    let text =
        |check: &str| findings.iter().find(|finding| finding.check == check).map(|finding| finding.text.as_str());
    assert_eq!(text("functions"), Some("1 of 1 called, 1.00 calls per episode"));
    let variety = "4.0 distinct sequences of calls or messages per group of 4.0, in 16 groups that are not solved";
    assert_eq!(text("variety"), Some(variety));
    assert_eq!(text("reward-and-success"), Some("reward 0.200 to 0.900, success 10.0 % to 45.0 %"));
}

#[test]
fn a_stage_without_data_is_not_measured() {
    let findings = Health::new(HealthSettings::default()).findings();
    assert!(findings.iter().all(|finding| finding.text == "not measured" && finding.range.is_none()), "{findings:?}");
}

#[test]
fn episodes_that_a_limit_cuts_short_are_found_with_the_limit() {
    for (ending, key) in [
        (Ending::TurnLimit, "raise `limits.turns`"),
        (Ending::ContextLimit, "`limits.context_tokens` or `policy.tiny.context`"),
        (Ending::CallLimit, "`limits.calls`"),
        (Ending::TimeLimit, "`limits.seconds`"),
        (Ending::EarlyStopped, "`limits.early_stop`"),
        (Ending::Truncated, "`environment.options`"),
    ] {
        let found = after(|record| record.ending = ending);
        assert_only(&found, "endings", &format!("75.0 % cut short without success; {ending} 100.0 %"), key);
    }
    // Endless tasks that are solved when a limit ends them are sound.
    let solved = after(|record| (record.ending, record.success) = (Ending::TurnLimit, true));
    assert_eq!(checks(&solved), Vec::<&str>::new());
}

#[test]
fn failures_are_found_with_their_cause() {
    for (kind, key) in [
        (FailureKind::Trap, "correct the plugin"),
        (FailureKind::Memory, "`sandbox.memory_mib`"),
        (FailureKind::Capacity, "`sandbox.instances`"),
    ] {
        let found = after(|record| {
            let (at, call_site) = (Boundary::Tool("sql".to_owned()), CallSite::tool("call-0"));
            if record.id.member == 1 {
                record.failures = vec![Failure { at, kind, call_site, message: String::new() }];
            }
        });
        assert_only(&found, "failures", &format!("25.0 % of 64 episodes; tool `sql`: {kind} 16"), key);
    }
}

#[test]
fn prompts_near_the_end_of_the_context_are_found() {
    let found = after(|record| record.segments = vec![segment(96, &[record.id.member, 7, 8])]);
    assert_only(&found, "context", "100.0 % with a prompt of at least 95 % of the context", "`context.strategy`");
}

#[test]
fn a_slow_episode_is_found_with_its_boundary() {
    let found = after(|record| {
        if record.id == id(5) {
            record.timing.tool_ms = 60_000.0;
        }
    });
    let text = "60.200 s per turn in episode 0.train.0.1.1.0, mostly tools; median at most 0.256 s";
    assert_only(&found, "slow-turns", text, "`sandbox.wall_seconds`");
    // Slow throughout is a property of the environment.
    assert_eq!(checks(&after(|record| record.timing.tool_ms = 60_000.0)), Vec::<&str>::new());
}

#[test]
fn cut_replies_are_found() {
    let found = after_metric(rl::CUT_REPLIES, |_| 0.5);
    assert_only(&found, "cut-replies", "50.0 % of the replies", "raise `limits.reply_tokens`");
}

#[test]
fn malformed_calls_are_found_with_their_kind() {
    let malformed = || Turn::MalformedCall { seat: 0, id: "call-0".to_owned(), text: "{".to_owned() };
    for (reason, kind, key) in [
        ("the call is not closed by </tool_call>; the reply was cut after 8 tokens", "cut 32", "`limits.reply_tokens`"),
        ("the arguments are not a JSON object", "arguments 32", "`policy.tool_format`"),
    ] {
        let found = after(|record| {
            if record.id.member % 2 == 0 {
                record.turns = vec![malformed(), refused(reason), said(&record.id.to_string())];
            }
        });
        assert_only(&found, "malformed-calls", &format!("50.0 % of 64 calls; {kind}"), key);
    }
    let unknown = after(|record| {
        if record.id.member % 2 == 0 {
            record.turns = vec![call("sub", &record.id.to_string()), refused("unknown function `sub`; known: add")];
        }
    });
    assert_only(&unknown, "malformed-calls", "50.0 % of 64 calls; unknown function 32", "`policy.system`");
}

#[test]
fn functions_that_are_never_called_are_found_unless_tasks_are_solved() {
    let silent = |record: &mut EpisodeRecord| {
        record.turns.remove(0);
    };
    assert_only(
        &after(silent),
        "functions",
        "0 of 1 called, 0.00 calls per episode; never called: `add`",
        "`policy.tool_format`",
    );
    let solved = after(|record| {
        silent(record);
        record.success = true;
    });
    assert_eq!(checks(&solved), Vec::<&str>::new());
}

#[test]
fn groups_with_equal_rewards_are_found_unless_they_are_solved() {
    let flat = |record: &mut EpisodeRecord| (record.rewards, record.success) = (vec![0.0], false);
    let text = "100.0 % of 16 groups have equal rewards and are not solved; 0.0 % are solved by all members";
    assert_only(&after(flat), "groups-without-signal", text, "`stages.rl.dynamic_sampling.max_rounds`");
    let solved = after(|record| (record.rewards, record.success) = (vec![1.0], true));
    assert_eq!(checks(&solved), Vec::<&str>::new());
    // A teacher gives advantages whatever the rewards.
    let taught = |_: u64, values: &mut Vec<(StepMetric, f64)>| {
        values.retain(|(metric, _)| metric.name() != rl::EPISODES_WITH_ADVANTAGE.name());
        values.push((rl::EPISODES_WITH_ADVANTAGE, 16.0));
    };
    assert_eq!(checks(&health(STEPS, flat, taught).unusual(0)), Vec::<&str>::new());
}

/// Rewards of single turns are a signal, and so is the sum over groups that dynamic sampling replaced.
#[test]
fn rewards_of_turns_and_groups_that_were_replaced_are_no_symptom() {
    let turns = after(|record| {
        (record.rewards, record.success) = (vec![0.0], false);
        record.turn_rewards = vec![vec![f64::from(record.id.member)]];
    });
    assert_eq!(checks(&turns), Vec::<&str>::new());
    let replaced = after(|record| {
        if record.id.group > 0 {
            (record.rewards, record.success, record.selected) = (vec![0.0], false, false);
        }
    });
    assert_eq!(checks(&replaced), Vec::<&str>::new());
}

#[test]
fn repeated_attempts_are_found() {
    let same_tokens = after(|record| record.segments = vec![segment(10, &[3, 7, 8, 10])]);
    let text = "100.0 % of 48 members after the first repeat the tokens of an earlier one, in 16 groups";
    assert_only(&same_tokens, "duplicates", text, "`stages.rl.temperature`");
    let same_calls = after(|record| record.turns = vec![call("add", "{}")]);
    let text = "1.0 distinct sequences of calls or messages per group of 4.0, in 16 groups that are not solved";
    assert_only(&same_calls, "variety", text, "`stages.rl.temperature`");
}

/// A policy that solves all tasks but a few fails at those in the same way.
#[test]
fn repeats_in_few_groups_are_no_symptom() {
    let found = after(|record| {
        record.segments = vec![segment(10, &[3, 7, 8, 10])];
        record.turns = vec![call("add", "{}")];
        record.success = record.id.step > 0 || record.id.group > 2;
    });
    assert_eq!(checks(&found), Vec::<&str>::new());
}

#[test]
fn steps_without_an_update_are_found_unless_they_are_solved() {
    let found = after_metric(rl::UPDATES, |step| f64::from(u8::from(step % 2 == 0)));
    assert_only(&found, "updates", "6 of 12 steps changed no weights", "easier tasks");
    let idle = |_: u64, values: &mut Vec<(StepMetric, f64)>| {
        values.retain(|(metric, _)| ![rl::UPDATES.name(), rl::SUCCESS.name()].contains(&metric.name()));
        values.extend([(rl::UPDATES, 0.0), (rl::SUCCESS, 1.0)]);
    };
    assert_eq!(checks(&health(12, |_| {}, idle).unusual(0)), Vec::<&str>::new());
}

#[test]
fn skipped_updates_are_found() {
    let found = after_metric(rl::SKIPPED_UPDATES, |step| f64::from(u8::from(step == 3)));
    assert_only(&found, "skipped-updates", "1 skipped because", "lower `stages.rl.optimizer.learning_rate`");
}

#[test]
fn steps_far_from_their_bound_are_found_in_both_directions() {
    let large = after_metric(rl::STEP_DIVERGENCE, |_| 1.0);
    assert_only(&large, "step-size", "10000.00 times the bound of 0.0001", "lower `stages.rl.optimizer.learning_rate`");
    let small = after_metric(rl::STEP_DIVERGENCE, |_| 1e-9);
    assert_only(&small, "step-size", "1.0e-5 times the bound", "raise `stages.rl.optimizer.learning_rate`");
}

#[test]
fn a_reward_that_rises_without_success_is_found() {
    let found = after_metric(rl::SUCCESS, |_| 0.25);
    assert_only(&found, "reward-and-success", "reward 0.200 to 0.900, success 25.0 % to 25.0 %", "`plugins.NAME.gate`");
    assert_eq!(checks(&after_metric(rl::SUCCESS, |_| 0.95)), Vec::<&str>::new());
    // A rise within the spread of the steps is none.
    let noise = |step: u64, values: &mut Vec<(StepMetric, f64)>| {
        values.retain(|(metric, _)| ![rl::REWARD.name(), rl::SUCCESS.name()].contains(&metric.name()));
        values.extend([(rl::REWARD, (step % 3) as f64 + 0.01 * step as f64), (rl::SUCCESS, 0.25)]);
    };
    assert_eq!(checks(&health(12, |_| {}, noise).unusual(0)), Vec::<&str>::new());
}

#[test]
fn demonstrations_that_exceed_the_context_are_found() {
    let found = after_metric(sft::LEFT_OUT, |_| 4.0);
    assert_only(&found, "demonstrations", "20.0 % of 240 exceed the context", "`limits.context_tokens`");
}

#[test]
fn a_sharp_fall_of_the_entropy_is_found() {
    let found = after_metric(rl::ENTROPY, |step| if step < 5 { 1.0 } else { 0.4 });
    assert_only(
        &found,
        "entropy",
        "0.400 nats per token in the last step; lowest 0.400 of the step before, in step 5",
        "`stages.rl.step_divergence`",
    );
    assert_eq!(checks(&after_metric(rl::ENTROPY, |step| 0.9_f64.powi(step as i32))), Vec::<&str>::new());
    // A policy that imitated demonstrations is sharp, and gets sharper as it succeeds.
    assert_eq!(checks(&after_metric(rl::ENTROPY, |step| 0.1 / (1 + step) as f64)), Vec::<&str>::new());
}

#[test]
fn stale_tokens_are_found_unless_the_loss_corrects_for_them() {
    let found = after_metric(rl::STALENESS_MEAN, |_| 3.0);
    assert_only(&found, "staleness", "mean of 3.00 training steps", "lower `stages.rl.max_staleness`");
    let corrected = format!("{RUN_FILE}[stages.settings.off_policy]\nkind = \"truncate\"\n");
    let mut health = Health::new(HealthSettings::parse(&corrected).unwrap());
    health.add_metrics(0, 0, &[(rl::STALENESS_MEAN.name(), 3.0)].into_iter());
    assert_eq!(checks(&health.unusual(0)), Vec::<&str>::new());
}

#[test]
fn divergence_from_the_trainer_is_found() {
    let found = after_metric(rl::ON_POLICY_DIVERGENCE, |_| 0.08);
    assert_only(&found, "divergence", "0.080000 nats per token", "`policy.server.logprobs`");
}

/// Late tokens are less probable than the entropy says.
#[test]
fn surprise_that_differs_from_the_entropy_is_found_by_position() {
    let reply: Vec<u32> = (0..24).map(|place| if place < 16 { place } else { 2 * place + 1 }).collect();
    let found = after(|record| {
        let mut own = reply.clone();
        own[0] = 2 * record.id.member;
        record.segments = vec![segment(10, &own)];
    });
    let text = "surprise less entropy: +0.000 from token 0, +0.500 from token 16";
    assert_only(&found, "divergence-by-position", text, "`stages.rl.top_k`");
}

/// A run with several stages shows the name of the stage; one outside of the usual range takes precedence over later ones.
#[test]
fn a_stage_outside_of_the_usual_range_comes_first() {
    let text = "[[stages]]\nkind = \"rl\"\nname = \"first\"\n[[stages]]\nkind = \"rl\"\n";
    let mut health = Health::new(HealthSettings::parse(text).unwrap());
    health.add_metrics(0, 0, &[(rl::CUT_REPLIES.name(), 0.9)].into_iter());
    health.add_metrics(1, 0, &[(rl::CUT_REPLIES.name(), 0.0), (rl::ENTROPY.name(), 1.0)].into_iter());
    let findings = health.findings();
    let cut = findings.iter().find(|finding| finding.check == "cut-replies").unwrap();
    assert_eq!(cut.text, "stage `first`: 90.0 % of the replies");
    let updates = findings.iter().find(|finding| finding.check == "updates").unwrap();
    assert_eq!(updates.text, "stage `rl`: 0 of 1 steps changed no weights");
}

/// A figure that was outside of its range long ago does not count.
#[test]
fn steps_before_the_window_are_forgotten() {
    let found = |steps: u64| {
        let cut = |step: u64, values: &mut Vec<(StepMetric, f64)>| {
            values.retain(|(metric, _)| metric.name() != rl::CUT_REPLIES.name());
            values.push((rl::CUT_REPLIES, if step < 10 { 0.9 } else { 0.0 }));
        };
        let health = health(steps, |_| {}, cut);
        (health.steps(0), checks(&health.unusual(0)).contains(&"cut-replies"))
    };
    assert_eq!((found(20), found(30), found(200)), ((20, true), (20, false), (20, false)));
}
