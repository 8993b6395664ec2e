//! Scores of finished episodes of all shapes: one per seat, finite, in the declared range, with the declared
//! components, and reproducible.

use gymkhana_record::Score;
use gymkhana_registry::Kind;
use gymkhana_sandbox::{CallError, Scorer, Trajectory};

use crate::FinishedEpisode;
use crate::finding::{CheckPhase, Finding, Stop, failed, passed, skipped, stop};
use crate::finished_episode::made_up;
use crate::fixture::{Fixture, Used, splits_of};
use crate::play::{Player, PluginWithOptions, play};
use crate::tree::Tree;

/// Maximum number of recorded groups that are scored.
const MAX_GROUPS: usize = 200;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    if !fixture.is(Kind::Reward) {
        return skipped("it is not a reward");
    }
    let (mut scored, mut refused, mut totals, mut why) = (0, 0, Vec::new(), String::new());
    for (number, (name, group)) in groups(fixture).await?.into_iter().enumerate() {
        let training_steps: &[u64] = if fixture.makes(number) { &[0, 1000] } else { &[0] };
        for &training_step in training_steps {
            match score(fixture, &group, training_step).await {
                Ok(scores) => {
                    scored += 1;
                    totals.extend(scores.iter().flatten().map(|score| score.total));
                }
                Err(error) if error.is_invalid() => {
                    refused += 1;
                    why = format!("{name}: {}", error.message);
                }
                Err(error) => return Err(error).during(name),
            }
        }
    }
    if totals.is_empty() {
        return nothing_scored(fixture, refused, &why);
    }
    let (low, high) = totals
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), total| (low.min(*total), high.max(*total)));
    let refusals =
        if refused > 0 { format!("; {refused} were refused as invalid, such as {why}") } else { String::new() };
    passed(format!("{scored} groups were scored, {} totals from {low} to {high}{refusals}", totals.len()))
}

/// The finding that no episode got a total: nothing is known of the reward's totals and components. A shorter suite plays no
/// recorded episodes, so that a reward may find nothing to score in it.
fn nothing_scored(fixture: &Fixture, refused: usize, why: &str) -> Finding {
    let seen = match refused {
        0 => "it gave no episode a total".to_owned(),
        refused => format!("it gave no episode a total: {refused} groups were refused as invalid, such as {why}"),
    };
    if fixture.is_brief() {
        return skipped(seen);
    }
    let remedy = "give it episodes that it can score, with `--with ENVIRONMENT.wasm` or `--on RUN`";
    failed(seen, remedy)
}

/// Scores each group twice in fresh instances, and once after another group in the same instance.
pub(crate) async fn check_again(fixture: &Fixture) -> Finding {
    if !fixture.is(Kind::Reward) {
        return skipped("it is not a reward");
    }
    if !fixture.plugin.manifest().deterministic {
        return skipped("its manifest declares it non-deterministic");
    }
    let groups = groups(fixture).await?;
    let mut alike = 0;
    for (number, (name, group)) in groups.iter().enumerate().filter(|(number, _)| fixture.makes(*number)) {
        let Ok(first) = score(fixture, group, 7).await else { continue };
        if first.iter().all(Vec::is_empty) {
            continue;
        }
        let second = score(fixture, group, 7).await.during(format!("{name}, scored again"))?;
        same(name, &first, &second, "draw every random choice from the seed")?;
        let (_, other) = &groups[(number + 1) % groups.len()];
        let mut scorer = open(fixture).await.during("the start of a scoring")?;
        // A refusal of the other group is not a finding of this check.
        if scorer.score(&trajectories(other), &fixture.options, 7).await.is_err_and(|error| !error.is_invalid()) {
            continue;
        }
        let third = scorer.score(&trajectories(group), &fixture.options, 7).await;
        let third = third.during(format!("{name}, scored after another group"))?;
        same(
            name,
            &first,
            &third,
            "keep no state in statics, globals or module variables: each group is scored separately",
        )?;
        alike += 1;
    }
    if alike == 0 {
        skipped("it scored no episode")
    } else {
        passed(format!("{alike} groups got the same scores three times"))
    }
}

fn same(name: &str, first: &[Vec<Score>], second: &[Vec<Score>], change: &str) -> Result<(), Stop> {
    match Tree::scores(first).difference(&Tree::scores(second)) {
        None => Ok(()),
        Some(difference) => Err(stop(format!("{name} got two scores: {difference}"), change)),
    }
}

fn trajectories(group: &[FinishedEpisode]) -> Vec<Trajectory<'_>> {
    group.iter().map(FinishedEpisode::trajectory).collect()
}

async fn open(fixture: &Fixture) -> Result<Scorer, CallError> {
    Scorer::open(&fixture.plugin, fixture.seed("scores")).await
}

async fn score(fixture: &Fixture, group: &[FinishedEpisode], training_step: u64) -> Result<Vec<Vec<Score>>, CallError> {
    let mut scorer = open(fixture).await?;
    let scores = scorer.score(&trajectories(group), &fixture.options, training_step).await;
    fixture.use_up(Used { call: "scoring", cost: scorer.cost() });
    scores
}

/// Groups to score: synthetic episodes, recorded ones, and episodes of environments given with the reward.
async fn groups(fixture: &Fixture) -> Result<Vec<(String, Vec<FinishedEpisode>)>, Stop> {
    let mut groups = made_up(fixture.seed("made-up"));
    let recorded = fixture.settings.recorded.iter().take(MAX_GROUPS).enumerate();
    groups.extend(recorded.map(|(number, group)| (format!("the recorded group {number}"), group.clone())));
    let tools: Vec<PluginWithOptions<'_>> = fixture.beside(Kind::Tool).collect();
    for (environment, options) in fixture.beside(Kind::Environment) {
        for task in fixture.some_tasks(&splits_of(environment, options).await?) {
            let mut group = Vec::new();
            for member in 0..3 {
                let seed = fixture.seed("episodes").child(member);
                let oracle = member == 0 && environment.offers(gymkhana_sandbox::OptionalInterface::Oracle);
                let player = if oracle { Player::Oracle } else { Player::Random(Box::new(seed.child(&task).stream())) };
                group.push(play((environment, options), &tools, &task, seed, player).await?);
            }
            groups.push((format!("a group of task {task} of `{}`", environment.name()), group));
        }
    }
    Ok(groups)
}
