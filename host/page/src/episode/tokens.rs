//! The tokens of an episode's segments, coloured by what the policy thought of them.

use gymkhana_record::{EpisodeRecord, Segment};
use maud::{Markup, html};

use super::token_texts::TokenTexts;
use crate::layout::{choices, select};
use crate::query::{Query, WrongOption};
use crate::run::ShownRun;
use crate::words::{counted, number, visible};

/// Most tokens of a segment that are shown at a time.
const MOST: usize = 4_000;
/// Number of shades in the style sheet.
const SHADES: f64 = 9.0;

/// What the colour of a token shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    LogProbability,
    Entropy,
    Version,
    Mask,
}

impl Colour {
    /// Reads the colour of a query.
    pub fn parse(query: &Query) -> Result<Self, WrongOption> {
        let all = [
            ("log-probability", Self::LogProbability),
            ("entropy", Self::Entropy),
            ("version", Self::Version),
            ("mask", Self::Mask),
        ];
        let expected = "log-probability, entropy, version or mask";
        Ok(query.choice("colour", &all, expected)?.unwrap_or(Self::LogProbability))
    }

    /// The shade of a sampled token, from 0 to 9. A log-probability of 0 and an entropy of 0 have none.
    fn shade(self, segment: &Segment, place: usize) -> u8 {
        let share = match self {
            Self::LogProbability => f64::from(-segment.log_probs()[place]) / 5.0,
            Self::Entropy => f64::from(segment.entropies()[place]) / 4.0,
            Self::Version => return (segment.versions()[place] % 8) as u8 + 1,
            Self::Mask => return 5,
        };
        (share * SHADES).clamp(0.0, SHADES).round() as u8
    }
}

/// The section with the tokens of all segments.
pub(crate) fn section(record: &EpisodeRecord, run: &ShownRun, query: &Query) -> Result<Markup, WrongOption> {
    let colour = Colour::parse(query)?;
    let from = query.parsed::<usize>("first_token", "the number of a token")?.unwrap_or(0);
    let vocabulary = TokenTexts::of(&run.reader);
    let path = &run.episode_path(record.id);
    let words = [("", "log-probability"), ("entropy", "entropy"), ("version", "weight version"), ("mask", "loss mask")];
    Ok(html! {
        h2 #tokens { "Tokens" }
        @if record.segments.is_empty() {
            p { "The record has no tokens." }
        } @else {
            form.options method="get" action=(format!("{path}#tokens")) aria-label="Tokens" data-auto {
                (select(query, "colour", "Colour by", &choices(&words)))
                button { "Show" }
            }
            p.legend {
                "Sampled tokens are underlined. "
                @match colour {
                    Colour::LogProbability => { "Darker: less probable, " (scale()) " from 0 to -5 nats." },
                    Colour::Entropy => { "Darker: higher entropy, " (scale()) " from 0 to 4 nats." },
                    Colour::Version => "One colour for each weight version, repeated after eight.",
                    Colour::Mask => "Coloured tokens enter the loss.",
                }
            }
            @for (place, segment) in record.segments.iter().enumerate() {
                (one(segment, place, colour, from, vocabulary.as_ref(), (path, query)))
            }
        }
    })
}

fn scale() -> Markup {
    html! { span.scale aria-hidden="true" { @for shade in 0..=9 { span.token.(format!("shade-{shade}")) { "\u{a0}" } } } }
}

fn one(
    segment: &Segment,
    place: usize,
    colour: Colour,
    from: usize,
    vocabulary: Option<&TokenTexts>,
    (path, query): (&str, &Query),
) -> Markup {
    let end = from.saturating_add(MOST).min(segment.len());
    let shown = from.min(end)..end;
    let label = format!("Segment {place} of seat {}", segment.seat());
    html! {
        h3 { (label) ", " (counted(segment.len(), "token")) ", " (segment.sampled_len()) " sampled" }
        div.tokens role="region" aria-label=(label) tabindex="0" {
            @for at in shown { (token(segment, at, colour, vocabulary)) }
        }
        @if end < segment.len() {
            p { a href=(format!("{}#tokens", query.with("first_token", end.to_string()).link(path))) { "Next tokens" } }
        }
    }
}

fn token(segment: &Segment, at: usize, colour: Colour, vocabulary: Option<&TokenTexts>) -> Markup {
    let id = segment.tokens()[at];
    let text = vocabulary.and_then(|vocabulary| vocabulary.text(id));
    let shown = match text {
        Some(text) => visible(text).replace('\n', "↵\n"),
        None => format!("{id} "),
    };
    html! {
        @if segment.sampled()[at] {
            span class={ "token sampled " (class(colour, colour.shade(segment, at))) } title=(format!(
                "token {id}, reply {}, log-probability {}, entropy {}, version {}",
                segment.turns()[at],
                number(f64::from(segment.log_probs()[at])),
                number(f64::from(segment.entropies()[at])),
                segment.versions()[at],
            )) { (shown) }
        } @else {
            span.token title=(format!("token {id}, given")) { (shown) }
        }
    }
}

fn class(colour: Colour, shade: u8) -> String {
    if colour == Colour::Version { format!("version-{shade}") } else { format!("shade-{shade}") }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Sampled;

    use super::*;

    #[test]
    fn shades_follow_the_numbers() {
        let mut segment = Segment::new(0);
        segment.append_given(&[1], 0);
        let sampled = Sampled {
            tokens: vec![2, 3, 4],
            log_probs: vec![0.0, -2.5, -50.0],
            entropies: vec![0.0, 4.0, 1.0],
            versions: vec![0, 8, 3],
        };
        segment.append_sampled(&sampled, 0).unwrap();
        let shades = |colour: Colour| [1, 2, 3].map(|at| colour.shade(&segment, at));
        // A log-probability of -2.5 is half of the scale: 4.5, rounded up.
        assert_eq!(shades(Colour::LogProbability), [0, 5, 9]);
        assert_eq!(shades(Colour::Entropy), [0, 9, 2]);
        assert_eq!(shades(Colour::Version), [1, 1, 4]);
        let given = token(&segment, 0, Colour::Mask, None).into_string();
        assert!(!given.contains("shade"), "{given}");
    }
}
