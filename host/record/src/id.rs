//! Episode ids, unique in a run.

use serde::{Deserialize, Serialize};

/// The purpose of an episode, in the order in which a stage plays them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Held-out tasks before the stage, decoded greedily.
    Before,
    /// Held-out tasks before the stage, sampled.
    BeforeSampled,
    /// Played by the oracle, for imitation learning.
    Demonstration,
    /// Sampled for training.
    Train,
    /// Held-out tasks between training steps, decoded greedily.
    During,
    /// Held-out tasks between training steps, sampled.
    DuringSampled,
    /// Held-out tasks after the stage, decoded greedily.
    After,
    /// Held-out tasks after the stage, sampled.
    AfterSampled,
    /// Played by an agent from outside. A record of `host serve` has a transcript and no tokens, one of `host gateway` has
    /// both.
    Served,
}

const PHASES: [(Phase, &str); 9] = [
    (Phase::Before, "before"),
    (Phase::BeforeSampled, "before~"),
    (Phase::Demonstration, "demo"),
    (Phase::Train, "train"),
    (Phase::During, "during"),
    (Phase::DuringSampled, "during~"),
    (Phase::After, "after"),
    (Phase::AfterSampled, "after~"),
    (Phase::Served, "served"),
];

impl Phase {
    /// All phases, in the order in which a stage plays them.
    pub fn all() -> impl Iterator<Item = Self> {
        PHASES.iter().map(|(phase, _)| *phase)
    }

    /// The word in an episode id.
    #[must_use]
    pub fn word(self) -> &'static str {
        PHASES.iter().find(|(phase, _)| *phase == self).map_or("?", |(_, name)| name)
    }

    /// Whether episodes of this phase measure success on held-out tasks.
    #[must_use]
    pub fn is_evaluation(self) -> bool {
        !matches!(self, Self::Demonstration | Self::Train | Self::Served)
    }
}

/// The name of one attempt at one task, unique in a run. Written as `1.train.12.3.5.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EpisodeId {
    /// The stage's place in the run file, from 0.
    pub stage: u32,
    /// The purpose of the episode.
    pub phase: Phase,
    /// The training step, from 0. In evaluations between training steps the number of steps before; otherwise 0.
    pub step: u64,
    /// The group in its step.
    pub group: u32,
    /// The member of the group.
    pub member: u32,
    /// Number of earlier attempts of this member.
    pub attempt: u32,
}

impl std::fmt::Display for EpisodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stage, phase, step, group, member, attempt } = self;
        write!(f, "{stage}.{}.{step}.{group}.{member}.{attempt}", phase.word())
    }
}

/// A text that is not an episode id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an episode id; an example is `1.train.12.3.5.0`: stage, phase, step, group, member, attempt")]
pub struct ParseEpisodeIdError(String);

impl std::str::FromStr for EpisodeId {
    type Err = ParseEpisodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseEpisodeIdError(text.to_owned());
        let fields: Vec<&str> = text.split('.').collect();
        let [stage, phase, step, group, member, attempt] = fields[..] else { return Err(wrong()) };
        let (phase, _) = PHASES.iter().find(|(_, name)| *name == phase).ok_or_else(wrong)?;
        Ok(Self {
            stage: stage.parse().map_err(|_| wrong())?,
            phase: *phase,
            step: step.parse().map_err(|_| wrong())?,
            group: group.parse().map_err(|_| wrong())?,
            member: member.parse().map_err(|_| wrong())?,
            attempt: attempt.parse().map_err(|_| wrong())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text() {
        for (phase, _) in PHASES {
            let id = EpisodeId { stage: 1, phase, step: 12, group: 3, member: 5, attempt: 2 };
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "1.train.12.3.5", "1.train.12.3.5.0.1", "1.play.12.3.5.0", "1.train.-1.3.5.0"] {
            assert!(text.parse::<EpisodeId>().is_err(), "{text}");
        }
    }
}
