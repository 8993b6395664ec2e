//! Figures of an episode by name: flags, numbers and texts.

use gymkhana_record::{Ending, EpisodeRecord, FailureKind, Phase, Segment};

/// An episode with the fact of its run that its record does not hold.
#[derive(Debug, Clone, Copy)]
pub struct Episode<'a> {
    /// The record.
    pub record: &'a EpisodeRecord,
    /// Name of the episode's stage in the run file.
    pub stage: &'a str,
}

/// A figure that is true or false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagFigure {
    Success,
    Selected,
}

/// A figure that is a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NumberFigure {
    Reward,
    Calls,
    MalformedCalls,
    Turns,
    Length,
    SampledTokens,
    Version,
    Step,
    Failures,
    Component(ComponentFigure),
}

/// A component of a reward, the total of a reward, or a fact of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComponentFigure {
    /// Name of the reward, or `environment`.
    pub source: String,
    /// Name of the component or fact, or `total`.
    pub name: String,
}

/// A figure that is a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFigure {
    Environment,
    Split,
    Stage,
    Purpose,
    Ending,
    Failure,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Figure {
    Flag(FlagFigure),
    Number(NumberFigure),
    Text(TextFigure),
}

/// Figures of fixed names.
pub(crate) const FIGURES: [(&str, Figure); 17] = [
    ("success", Figure::Flag(FlagFigure::Success)),
    ("selected", Figure::Flag(FlagFigure::Selected)),
    ("reward", Figure::Number(NumberFigure::Reward)),
    ("calls", Figure::Number(NumberFigure::Calls)),
    ("malformed_calls", Figure::Number(NumberFigure::MalformedCalls)),
    ("turns", Figure::Number(NumberFigure::Turns)),
    ("length", Figure::Number(NumberFigure::Length)),
    ("sampled_tokens", Figure::Number(NumberFigure::SampledTokens)),
    ("version", Figure::Number(NumberFigure::Version)),
    ("step", Figure::Number(NumberFigure::Step)),
    ("failures", Figure::Number(NumberFigure::Failures)),
    ("environment", Figure::Text(TextFigure::Environment)),
    ("split", Figure::Text(TextFigure::Split)),
    ("stage", Figure::Text(TextFigure::Stage)),
    ("purpose", Figure::Text(TextFigure::Purpose)),
    ("ending", Figure::Text(TextFigure::Ending)),
    ("failure", Figure::Text(TextFigure::Failure)),
];

/// Words of `purpose`.
const PURPOSES: [&str; 4] = ["train", "evaluation", "demonstrations", "served"];

impl FlagFigure {
    pub fn of(self, record: &EpisodeRecord) -> bool {
        match self {
            Self::Success => record.success,
            Self::Selected => record.selected,
        }
    }
}

impl NumberFigure {
    /// The number; `None` if the episode has none.
    pub fn of(&self, record: &EpisodeRecord) -> Option<f64> {
        let count = |count: usize| Some(count as f64);
        match self {
            Self::Reward => record.rewards.first().copied(),
            Self::Calls => count(record.calls()),
            Self::MalformedCalls => count(record.malformed_calls()),
            Self::Turns => count(record.policy_turns.iter().filter(|turn| turn.note.is_none()).count()),
            Self::Length => count(record.segments.iter().map(Segment::len).sum()),
            Self::SampledTokens => count(record.sampled_tokens()),
            Self::Version => version(record).map(f64::from),
            Self::Step => Some(record.id.step as f64),
            Self::Failures => count(record.failures.len()),
            Self::Component(component) => component.of(record),
        }
    }
}

/// The newest weight version that sampled a token of the episode.
fn version(record: &EpisodeRecord) -> Option<u32> {
    let of_segment = |segment: &'_ Segment| {
        let sampled = segment.versions().iter().zip(segment.sampled()).filter(|(_, sampled)| **sampled);
        sampled.map(|(version, _)| *version).max()
    };
    record.segments.iter().filter_map(of_segment).max()
}

impl ComponentFigure {
    /// The number of the first seat.
    fn of(&self, record: &EpisodeRecord) -> Option<f64> {
        if self.source == "environment" {
            return record.extras.iter().find(|extra| extra.name == self.name)?.value.as_number();
        }
        let plugin = record.scores.iter().find(|plugin| plugin.plugin == self.source)?;
        let score = plugin.scores.iter().find(|score| score.seat == 0)?;
        match self.name.as_str() {
            "total" => Some(score.total),
            name => score.components.iter().find(|component| component.name == name).map(|component| component.value),
        }
    }
}

impl std::fmt::Display for ComponentFigure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.source, self.name)
    }
}

impl TextFigure {
    /// Whether the figure is this text. An episode has as many kinds of failure as it has failures.
    pub fn is(self, episode: Episode<'_>, text: &str) -> bool {
        let record = episode.record;
        match self {
            Self::Environment => record.environment.as_deref() == Some(text),
            Self::Split => record.task.split == text,
            Self::Stage => episode.stage == text,
            Self::Purpose => purpose(record.id.phase) == text,
            Self::Ending => record.ending.to_string() == text,
            Self::Failure => record.failures.iter().any(|failure| failure.kind.to_string() == text),
        }
    }

    /// All texts of a figure whose texts do not depend on the run.
    pub fn words(self) -> Option<Vec<String>> {
        match self {
            Self::Environment | Self::Split | Self::Stage => None,
            Self::Purpose => Some(PURPOSES.map(str::to_owned).to_vec()),
            Self::Ending => Some(Ending::ALL.iter().map(Ending::to_string).collect()),
            Self::Failure => Some(FailureKind::ALL.iter().map(FailureKind::to_string).collect()),
        }
    }
}

fn purpose(phase: Phase) -> &'static str {
    match phase {
        Phase::Train => "train",
        Phase::Demonstration => "demonstrations",
        Phase::Served => "served",
        Phase::Before
        | Phase::BeforeSampled
        | Phase::During
        | Phase::DuringSampled
        | Phase::After
        | Phase::AfterSampled => "evaluation",
    }
}
