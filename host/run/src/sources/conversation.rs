//! Conversations of files as demonstrations: tokenised through the model's chat template, masked by role.

use std::path::{Path, PathBuf};

use gymkhana_chat::{ChatError, ChatFormat, Role, python_json};
use gymkhana_config::SourceSection;
use gymkhana_data::{ChatCall, ChatConversation, ChatMessage, ReadRows, Skips, SourceLocation, conversations};
use gymkhana_orchestration::{Classify, Reporter, RunResult};
use gymkhana_record::{Function, Segment};

use super::layout::{ConversationPart, Laid, WrittenReply, lay_out};
use super::{Demonstration, FunctionNames, LearningModel};

/// Skipped rows that are listed.
const LISTED: usize = 10;

/// Reads the conversations of files. With `observations`, the texts of users and tools are imitated as well.
pub(super) fn read(
    files: &[PathBuf],
    section: &SourceSection,
    learner: LearningModel<'_>,
    observations: bool,
    called: &mut FunctionNames,
    reporter: &dyn Reporter,
) -> RunResult<Vec<Demonstration>> {
    let mut skips = Skips::at_most(section.skip_bad);
    let mut read = Vec::new();
    for file in files {
        let found = conversations(file, section.weight_column.as_deref(), &mut skips).user_error()?;
        for (place, conversation) in kept(found, file, reporter) {
            add_called(&conversation, called);
            let segments = segments(learner.chat, &place, &conversation, observations)?;
            read.push(Demonstration { segments, weight: conversation.weight });
        }
    }
    Ok(read)
}

/// Adds the functions that the replies of a conversation call.
pub(super) fn add_called(conversation: &ChatConversation, called: &mut FunctionNames) {
    for message in &conversation.messages {
        if let ChatMessage::Assistant { calls, .. } = message {
            called.extend(calls.iter().map(|call| call.name.clone()));
        }
    }
}

/// The rows that were read. Remarks and skipped rows are reported.
pub(super) fn kept<T>(
    ReadRows { rows, skipped, remarks }: ReadRows<T>,
    file: &Path,
    reporter: &dyn Reporter,
) -> Vec<(SourceLocation, T)> {
    remarks.warnings().iter().for_each(|warning| reporter.warn(&format!("{}: {warning}", file.display())));
    for (place, why) in skipped.iter().take(LISTED) {
        reporter.warn(&format!("skipped {place}: {why}"));
    }
    if skipped.len() > LISTED {
        reporter.warn(&format!("{}: skipped {} more rows", file.display(), skipped.len() - LISTED));
    }
    rows
}

/// Contexts of a conversation, with the replies after its prompt marked as sampled, and with `observations` the texts of
/// users and tools between them.
pub(super) fn segments(
    chat: &ChatFormat,
    place: &SourceLocation,
    conversation: &ChatConversation,
    observations: bool,
) -> RunResult<Vec<Segment>> {
    let laid = tokens(chat, conversation).user_context(format!(
        "{place}: the model's chat format cannot write the conversation\nhint: correct the row, or remove it"
    ))?;
    let after_prompt = |laid: Laid| match conversation.prompt_replies {
        Some(replies) => laid.after_prompt(u32::try_from(replies).unwrap_or(u32::MAX)),
        None => laid,
    };
    let plain = |laid: Laid| if observations { laid.with_observations() } else { laid.segment };
    Ok(laid.into_iter().map(|laid| plain(after_prompt(laid))).collect())
}

/// Contexts of a conversation.
fn tokens(chat: &ChatFormat, conversation: &ChatConversation) -> Result<Vec<Laid>, ChatError> {
    let function = |function: &gymkhana_data::Function| Function {
        name: function.name.clone(),
        description: function.description.clone(),
        parameters: function.parameters.to_string(),
        cost: 0.0,
    };
    let functions: Vec<Function> = conversation.functions.iter().map(function).collect();
    let part = |message: &ChatMessage| match message {
        ChatMessage::System(text) => ConversationPart::Heard(Role::System, text.clone()),
        ChatMessage::User(text) => ConversationPart::Heard(Role::User, text.clone()),
        ChatMessage::Tool(text) => ConversationPart::Heard(Role::Tool, text.clone()),
        ChatMessage::Assistant { thoughts, text, calls } => {
            // Arguments have the spacing of chat templates.
            let call = |call: &ChatCall| (call.name.clone(), python_json(&call.arguments));
            let calls = calls.iter().map(call).collect();
            ConversationPart::Written(WrittenReply { thoughts: thoughts.clone(), text: text.clone(), calls })
        }
    };
    let parts: Vec<ConversationPart> = conversation.messages.iter().map(part).collect();
    lay_out(chat, 0, &functions, &parts)
}
