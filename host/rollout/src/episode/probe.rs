//! Turn probes: the policy scores a given text in every turn.
//!
//! Two methods use them. IGPO scores the right answer before each turn; the increase of its probability is the gain of
//! the turn. InfoPO scores the next reply with and without the feedback of the turn; the difference is the gain. Scores
//! are recorded with the policy's turns. A replay takes them from the record, because it has no weights.

use std::sync::Arc;

use futures::future::try_join;
use gymkhana_chat::ChatError;
use gymkhana_policy::{Policy, PolicyError, ScoreRequest};
use gymkhana_record::{EpisodeRecord, NamedValue, PolicyTurn, ProbeScore, Sampled, Seed, TaskRef, Value};
use gymkhana_rules::{AnswerProbe, TurnProbe};
use gymkhana_sandbox::OptionalInterface;

use crate::Rollout;
use crate::listed;

/// A probe that the policy or the environment does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The policy cannot score text.
    #[error(
        "[probe] requires a policy that can score, but `{policy}` cannot\nhint: choose another policy or remove [probe]"
    )]
    CannotScore {
        /// The policy's name.
        policy: String,
    },
    /// The environment has no privileged view.
    #[error(
        "[probe] scores a field of the privileged view, but environment `{environment}` has none\nhint: choose kind = \
         \"feedback\" or remove [probe]"
    )]
    NoView {
        /// The environment.
        environment: String,
    },
    /// The view has no such field.
    #[error(
        "[probe] scores the field `{field}`, but the privileged view of environment `{environment}` has no such text or \
         number\nhint: its fields are {}",
        listed(known)
    )]
    NoField {
        /// The environment.
        environment: String,
        /// The field.
        field: String,
        /// Fields of the view.
        known: Vec<String>,
    },
}

/// The right answer in tokens.
#[derive(Debug, Clone)]
pub(crate) struct ProbeAnswer {
    lead: Vec<u32>,
    tokens: Arc<[u32]>,
}

/// The policy's mean log-probability of a text in nats per token; `None` if prefix and text exceed the policy's context,
/// or if the policy assigns it probability 0.
async fn score(policy: &dyn Policy, prefix: Vec<u32>, text: &[u32]) -> Result<Option<f64>, PolicyError> {
    if text.is_empty() || prefix.len() + text.len() > policy.context() {
        return Ok(None);
    }
    let scored = policy.score(ScoreRequest { prefix: prefix.into(), continuation: text.into() }).await?;
    let sum: f64 = scored.log_probs.iter().map(|log_prob| f64::from(*log_prob)).sum();
    // Records hold only finite numbers.
    Ok(Some(sum / scored.log_probs.len() as f64).filter(|mean| mean.is_finite()))
}

/// Scores the right answer after a context.
pub(crate) async fn read_answer(
    policy: &dyn Policy,
    context: &[u32],
    answer: &ProbeAnswer,
) -> Result<Option<ProbeScore>, PolicyError> {
    let log_prob = score(policy, [context, &answer.lead].concat(), &answer.tokens).await?;
    Ok(log_prob.map(|log_prob| ProbeScore { log_prob, without: None }))
}

/// Scores a reply after the context and after the context with masked feedback, concurrently and at the same
/// temperature.
pub(crate) async fn read_feedback(
    policy: &dyn Policy,
    context: &[u32],
    masked: &[u32],
    reply: &Sampled,
) -> Result<Option<ProbeScore>, PolicyError> {
    let with = score(policy, context.to_vec(), &reply.tokens);
    let without = score(policy, masked.to_vec(), &reply.tokens);
    let both = try_join(with, without).await?;
    Ok(match both {
        (Some(log_prob), Some(without)) => Some(ProbeScore { log_prob, without: Some(without) }),
        _ => None,
    })
}

impl Rollout {
    /// Sets the probe.
    ///
    /// # Errors
    /// If the environment has no privileged view to read an answer from.
    pub fn with_probe(mut self, probe: Option<TurnProbe>) -> Result<Self, ProbeError> {
        let environment = &self.plugins.environment.plugin;
        if matches!(probe, Some(TurnProbe::Answer(_))) && !environment.offers(OptionalInterface::Privileged) {
            return Err(ProbeError::NoView { environment: environment.name().to_owned() });
        }
        self.probe = probe;
        Ok(self)
    }

    /// Checks that a policy can score text, if the run has a probe.
    ///
    /// # Errors
    /// If the policy cannot score.
    pub fn check_policy(&self, name: &str, policy: &dyn Policy) -> Result<(), ProbeError> {
        if self.probe.is_none() || policy.can_score() {
            return Ok(());
        }
        Err(ProbeError::CannotScore { policy: name.to_owned() })
    }

    /// Checks that the scored field exists when an episode of this task begins. A failure of the environment is left to
    /// the episodes, which record it.
    ///
    /// # Errors
    /// If the field does not exist.
    pub async fn check_answer(&self, task: &TaskRef, seed: Seed) -> Result<(), ProbeError> {
        let Some(TurnProbe::Answer(probe)) = &self.probe else { return Ok(()) };
        let Some(mut episode) = self.trial(task, seed).await else { return Ok(()) };
        let Ok(fields) = episode.environment().privileged().await else { return Ok(()) };
        match self.answer(probe, &fields) {
            Ok(None) => Err(self.no_field(probe, &fields)),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// The error of a view without the scored field.
    pub(super) fn no_field(&self, probe: &AnswerProbe, fields: &[NamedValue]) -> ProbeError {
        ProbeError::NoField {
            environment: self.plugins.environment.plugin.name().to_owned(),
            field: probe.field.clone(),
            known: fields.iter().map(|field| field.name.clone()).collect(),
        }
    }

    /// The right answer in a privileged view; `None` without a text or number in the field.
    pub(super) fn answer(&self, probe: &AnswerProbe, fields: &[NamedValue]) -> Result<Option<ProbeAnswer>, ChatError> {
        let field = fields.iter().find(|field| field.name == probe.field);
        let text = match field.map(|field| &field.value) {
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Integer(number)) => number.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Ok(None),
        };
        let tokens = self.chat.encode_plain(&text)?;
        let lead = self.chat.encode_plain(&probe.lead)?;
        Ok((!tokens.is_empty()).then(|| ProbeAnswer { lead, tokens: tokens.into() }))
    }

    /// Adds the gains of the turns to a record.
    pub(crate) fn add_gains(&self, record: &mut EpisodeRecord) {
        let Some(probe) = &self.probe else { return };
        record.turn_gains = record.turn_rewards.iter().map(|turns| vec![0.0; turns.len()]).collect();
        for (seat, found) in (0..).zip(&mut record.turn_gains) {
            for (turn, gain) in gains(record.policy_turns.iter().filter(|turn| turn.seat == seat)) {
                if let Some(place) = found.get_mut(turn as usize) {
                    *place = probe.weight() * gain;
                }
            }
        }
    }
}

/// Gains of the turns of a seat, from the scores of each turn and the next turn that has one.
fn gains<'a>(turns: impl Iterator<Item = &'a PolicyTurn>) -> Vec<(u32, f64)> {
    let mut gains = Vec::new();
    let mut before: Option<&PolicyTurn> = None;
    for turn in turns.filter(|turn| turn.note.is_none()) {
        let Some(now) = turn.probe_score else {
            // The first turn follows no feedback; the score of the second turn gives its gain.
            before = Some(turn);
            continue;
        };
        let gain = match (before.map(|before| (before.turn, before.probe_score)), now.without) {
            (Some((turn, _)), Some(without)) => Some((turn, now.log_prob - without)),
            (Some((turn, Some(earlier))), None) => Some((turn, now.log_prob.exp() - earlier.log_prob.exp())),
            _ => None,
        };
        gains.extend(gain);
        before = Some(turn);
    }
    gains
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u32, reading: Option<(f64, Option<f64>)>, note: bool) -> PolicyTurn {
        let probe_score = reading.map(|(log_prob, without)| ProbeScore { log_prob, without });
        let note = note.then(|| "a note".to_owned());
        PolicyTurn { seat: 0, turn: number, transcript: 0, steps: 0, state: None, probe_score, thought_tokens: 0, note }
    }

    fn near(turns: &[PolicyTurn], expected: &[(u32, f64)]) {
        let found = gains(turns.iter());
        let equal = |((turn, gain), (other, expected)): (&(u32, f64), &(u32, f64))| {
            turn == other && (gain - expected).abs() < 1e-12
        };
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(equal), "{found:?}");
    }

    /// Probabilities 0.2, 0.5, 0.4: gains 0.3 and -0.1, and none for the last turn.
    #[test]
    fn gains_of_the_answer_by_hand() {
        let at = |number: u32, probability: f64| turn(number, Some((probability.ln(), None)), false);
        near(&[at(0, 0.2), at(1, 0.5), at(2, 0.4)], &[(0, 0.3), (1, -0.1)]);
        near(&[at(0, 0.2)], &[]);
        // A note is not scored: the score after it gives the gain of the turn before it.
        near(&[at(0, 0.2), turn(1, None, true), at(2, 0.4)], &[(0, 0.2)]);
        // Without a score, the gains of the turns around are unknown.
        near(&[at(0, 0.2), turn(1, None, false), at(2, 0.4), at(3, 0.5)], &[(2, 0.1)]);
    }

    /// Mean log-probabilities of the next reply with and without the feedback.
    #[test]
    fn gains_of_feedback_by_hand() {
        let at = |number: u32, with: f64, without: f64| turn(number, Some((with, Some(without))), false);
        near(&[turn(0, None, false), at(1, -0.5, -2.0), at(2, -1.0, -0.75)], &[(0, 1.5), (1, -0.25)]);
    }
}
