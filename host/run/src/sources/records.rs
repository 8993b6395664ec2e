//! Recorded episodes as demonstrations: the tokens of the records as they are.

use std::ops::Range;
use std::path::{Path, PathBuf};

use gymkhana_chat::Role;
use gymkhana_filter::Filter;
use gymkhana_orchestration::chat::read_chat_files;
use gymkhana_orchestration::recorded_runs::{RecordedRun, count_matches};
use gymkhana_orchestration::{RunError, RunResult};
use gymkhana_record::{EpisodeRecord, Function, Segment, Turn, text_of};
use gymkhana_registry::Digest;

use super::layout::{ConversationPart, Laid, lay_out};
use super::{Demonstration, LearningModel};

/// Reads the episodes of runs that meet a filter. With `observations`, the texts of users and tools are imitated as well.
pub(super) fn read(
    folders: &[PathBuf],
    filter: &Filter,
    learner: LearningModel<'_>,
    observations: bool,
) -> RunResult<Vec<Demonstration>> {
    let runs = opened(folders, learner)?;
    if count_matches(&runs, filter)? == 0 {
        let message = format!("no episode of {} meets `{}`", named(folders), filter.text());
        let hint = "loosen `where`; `host show DIR --episodes all` lists the episodes";
        return Err(RunError::user(message).with_hint(hint));
    }
    let mut read = Vec::new();
    for run in &runs {
        for record in run.records() {
            let record = record?;
            if run.meets(&record, Some(filter)) && record.sampled_tokens() > 0 {
                let system = run.file.policy.system.as_deref();
                let segments = if observations { with_observations(&record, system, learner) } else { record.segments };
                read.push(Demonstration { segments, weight: 1.0 });
            }
        }
    }
    if read.is_empty() {
        let message = format!("the episodes of {} hold no sampled tokens", named(folders));
        return Err(RunError::user(message).with_hint(
            "export them with `host data export DIR --format openai --out FILE`, and name the file in `chat`",
        ));
    }
    Ok(read)
}

/// Opens runs whose tokens mean the same to this run's model.
pub(super) fn opened(folders: &[PathBuf], learner: LearningModel<'_>) -> RunResult<Vec<RecordedRun>> {
    let open = |folder: &PathBuf| -> RunResult<RecordedRun> {
        let run = RecordedRun::open(folder)?;
        same_tokenizer(run.path(), learner)?;
        Ok(run)
    };
    folders.iter().map(open).collect()
}

/// Folders in words.
pub(super) fn named(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| format!("`{}`", folder.display())).collect::<Vec<_>>().join(", ")
}

/// Refuses records whose tokens mean something else to this run's model.
fn same_tokenizer(run: &Path, learner: LearningModel<'_>) -> RunResult<()> {
    let found = read_chat_files(run)?;
    if found.tokenizer == learner.files.tokenizer {
        return Ok(());
    }
    let digest = |text: &str| Digest::of(text.as_bytes()).to_string().chars().take(12).collect::<String>();
    let run = run.display();
    Err(RunError::user(format!(
        "the tokens of `{run}` are of another tokenizer than this run's model: its tokenizer.json has the sha256 {}…, the \
         model's {}…",
        digest(&found.tokenizer),
        digest(&learner.files.tokenizer)
    ))
    .with_hint(format!(
        "export the episodes as text with `host data export {run} --format openai --out FILE`, and name the file in `chat`"
    )))
}

/// The contexts of an episode with the texts of users and tools marked as sampled. Contexts that the transcript does not
/// yield again, such as those of a context strategy, stay as they are.
fn with_observations(record: &EpisodeRecord, system: Option<&str>, learner: LearningModel<'_>) -> Vec<Segment> {
    let mut seats: Vec<u32> = record.segments.iter().map(Segment::seat).collect();
    seats.sort_unstable();
    seats.dedup();
    let mut marked = Vec::new();
    for seat in seats {
        let own: Vec<&Segment> = record.segments.iter().filter(|segment| segment.seat() == seat).collect();
        let again = lay_out(learner.chat, seat, functions(record, seat), &parts(record, seat, system));
        match again {
            Ok(again) if same_tokens(&again, &own) => marked.extend(again.into_iter().map(Laid::with_observations)),
            _ => marked.extend(own.into_iter().cloned()),
        }
    }
    marked
}

fn same_tokens(again: &[Laid], own: &[&Segment]) -> bool {
    let same = |(again, own): (&Laid, &&Segment)| {
        again.segment.tokens() == own.tokens() && again.segment.sampled() == own.sampled()
    };
    again.len() == own.len() && again.iter().zip(own).all(same)
}

fn functions(record: &EpisodeRecord, seat: u32) -> &[Function] {
    let offered = record.opening.functions.iter().find(|offered| offered.seat == seat);
    offered.map_or(&[], |offered| offered.functions.as_slice())
}

/// The conversation of a seat: instructions, and then the transcript with the tokens of the replies.
fn parts(record: &EpisodeRecord, seat: u32, system: Option<&str>) -> Vec<ConversationPart> {
    let of_segment = |segment: &Segment| {
        let reply = |place: Range<usize>| (segment.turns()[place.start], segment.tokens()[place].to_vec());
        segment.replies().map(reply).collect::<Vec<_>>()
    };
    let own = record.segments.iter().filter(|segment| segment.seat() == seat);
    let replies: Vec<(u32, Vec<u32>)> = own.flat_map(of_segment).collect();
    let mut parts: Vec<ConversationPart> =
        system.map(|text| ConversationPart::Heard(Role::System, text.to_owned())).into_iter().collect();
    for place in 0..=record.turns.len() {
        let begun = record.policy_turns.iter().filter(|turn| turn.seat == seat && turn.transcript as usize == place);
        for turn in begun {
            let reply = replies.iter().find(|(number, _)| *number == turn.turn);
            parts.extend(reply.map(|(_, tokens)| ConversationPart::Reply(tokens.clone())));
        }
        match record.turns.get(place) {
            Some(Turn::Observation { seat: of, content }) if *of == seat => {
                parts.push(ConversationPart::Heard(Role::User, text_of(content)));
            }
            Some(Turn::Answer { seat: of, content, .. }) if *of == seat => {
                parts.push(ConversationPart::Heard(Role::Tool, text_of(content)));
            }
            _ => {}
        }
    }
    parts
}
