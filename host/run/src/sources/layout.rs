//! The tokens of a conversation: what the policy would have seen and written, with the places of observed texts.

use std::borrow::Cow;
use std::ops::Range;

use gymkhana_chat::{Begun, ChatError, ChatFormat, Extension, Message, NewCall, NewReply, Rendered, Role};
use gymkhana_record::{Function, Sampled, Segment};

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConversationPart {
    /// A message of the run, a user or a tool.
    Heard(Role, String),
    /// The tokens of a reply, with the stop token at its end.
    Reply(Vec<u32>),
    /// A reply that is to be written as the model would.
    Written(WrittenReply),
}

/// A reply that is to be written as the model would.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WrittenReply {
    /// Thoughts apart from the text.
    pub thoughts: Option<String>,
    pub text: String,
    /// Names and arguments of calls.
    pub calls: Vec<(String, String)>,
}

impl ConversationPart {
    /// The tokens of a reply, with the stop token at their end; empty for another part. `begun` tells whether the prompt has
    /// opened a thought.
    fn reply(&self, chat: &ChatFormat, begun: Begun) -> Result<Cow<'_, [u32]>, ChatError> {
        match self {
            Self::Heard(..) => Ok(Cow::Borrowed(&[])),
            Self::Reply(tokens) => Ok(Cow::Borrowed(tokens)),
            Self::Written(reply) => reply.tokens(chat, begun).map(Cow::Owned),
        }
    }
}

impl WrittenReply {
    /// The tokens, with the stop token at their end.
    fn tokens(&self, chat: &ChatFormat, begun: Begun) -> Result<Vec<u32>, ChatError> {
        let calls: Vec<NewCall<'_>> = self.calls.iter().map(|(name, arguments)| NewCall { name, arguments }).collect();
        chat.write_reply(&NewReply { thoughts: self.thoughts.as_deref(), text: &self.text, calls: &calls }, begun)
    }
}

/// A context, and the places of the texts of users and tools in it. A text that occurs in several contexts has a place in
/// the first one only.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Laid {
    pub segment: Segment,
    pub observed: Vec<Range<usize>>,
}

impl Laid {
    /// The context with the observed texts marked as sampled, so that they are imitated as well.
    pub fn with_observations(self) -> Segment {
        let Self { mut segment, observed } = self;
        observed.into_iter().for_each(|place| segment.mark(place, true));
        segment
    }

    /// The same, whose prompt has this number of replies: nothing of the prompt is imitated.
    pub fn after_prompt(mut self, replies: u32) -> Self {
        self.segment.mark_given_before(replies);
        let turns = self.segment.turns();
        self.observed.retain(|place| turns.get(place.start).is_some_and(|turn| *turn > replies));
        self
    }
}

/// Contexts of a conversation, in the way in which a rollout builds them. Messages after the last reply are left out.
pub(super) fn lay_out(
    chat: &ChatFormat,
    seat: u32,
    functions: &[Function],
    parts: &[ConversationPart],
) -> Result<Vec<Laid>, ChatError> {
    let (mut messages, mut rendered, mut stopped) = (Vec::<Message>::new(), Rendered::default(), false);
    let (mut laid, mut known, mut turn) = (Vec::<Laid>::new(), 0, 0);
    for part in parts {
        if let ConversationPart::Heard(role, text) = part {
            messages.push(Message::of_text(*role, text.clone()));
            continue;
        }
        let grown = chat.extend_observed(&rendered, &messages, functions, stopped)?;
        rendered = grown.rendered;
        let tokens = part.reply(chat, rendered.begun())?;
        let (given, is_new) = match grown.extension {
            Extension::Append(given) => (given, laid.is_empty()),
            Extension::Restart(given) => (given, true),
        };
        if is_new {
            laid.push(Laid { segment: Segment::new(seat), observed: vec![] });
        }
        let Some(Laid { segment, observed }) = laid.last_mut() else { continue };
        let (start, seen) = (segment.len(), if is_new { known } else { 0 });
        let places = grown.observed.iter().map(|place| start + place.start..start + place.end);
        let fresh: Vec<Range<usize>> = places.skip(seen).collect();
        known += fresh.len();
        observed.extend(fresh);
        segment.append_given(&given, turn);
        // The columns have one length.
        segment.append_sampled(&imitated(&tokens), turn).unwrap_or_default();
        stopped = tokens.last().is_some_and(|last| chat.stop().contains(last));
        let spoken = tokens[..tokens.len() - usize::from(stopped)].to_vec();
        messages.push(Message::reply(String::new(), spoken));
        turn += 1;
    }
    Ok(laid)
}

/// Tokens without the numbers of a sampler.
fn imitated(tokens: &[u32]) -> Sampled {
    let count = tokens.len();
    let (log_probs, entropies, versions) = (vec![0.0; count], vec![0.0; count], vec![0; count]);
    Sampled { tokens: tokens.to_vec(), log_probs, entropies, versions }
}

#[cfg(test)]
mod tests {
    use gymkhana_chat::{ChatFiles, ReplyPiece};

    use super::*;

    const TOKENIZER: &str = include_str!("../../../../tests/golden/chat/tokenizer.json");
    const CONFIG: &str = include_str!("../../../../tests/golden/chat/tokenizer_config.json");
    const TEMPLATE: &str = include_str!("../../../../tests/golden/chat/chat_template.jinja");

    fn chat(template: &str) -> ChatFormat {
        let (tokenizer, config) = (TOKENIZER.to_owned(), CONFIG.to_owned());
        ChatFormat::new(&ChatFiles { tokenizer, config, template: Some(template.to_owned()), ends: vec![] })
            .expect("a chat format")
    }

    /// Messages of every role, whose texts are words of the template.
    fn conversation(chat: &ChatFormat) -> Vec<ConversationPart> {
        let heard = |role, text: &str| ConversationPart::Heard(role, text.to_owned());
        let reply =
            |text: &str| ConversationPart::Reply(chat.encode_reply(&[ReplyPiece::Plain(text)]).expect("tokens"));
        vec![
            heard(Role::System, "system"),
            heard(Role::User, "user"),
            reply("assistant"),
            heard(Role::Tool, "tool"),
            heard(Role::Tool, "second"),
            reply("user"),
            heard(Role::User, "unanswered"),
        ]
    }

    /// The text of the tokens that are trained on.
    fn trained(chat: &ChatFormat, segments: &[Segment]) -> String {
        let trained = |segment: &Segment| {
            let tokens = segment.tokens().iter().zip(segment.sampled()).filter(|(_, sampled)| **sampled);
            tokens.map(|(token, _)| *token).collect::<Vec<u32>>()
        };
        chat.decode(&segments.iter().flat_map(trained).collect::<Vec<u32>>()).expect("a text")
    }

    #[test]
    fn no_token_of_the_template_is_trained() {
        let chat = chat(TEMPLATE);
        let stop = chat.decode(&chat.stop()[..1]).expect("a text");
        let laid = lay_out(&chat, 0, &[], &conversation(&chat)).expect("tokens");
        assert_eq!(laid.len(), 1);
        let plain: Vec<Segment> = laid.iter().map(|laid| laid.segment.clone()).collect();
        assert_eq!(trained(&chat, &plain), format!("assistant{stop}user{stop}"));
        let observed: Vec<Segment> = laid.into_iter().map(Laid::with_observations).collect();
        assert_eq!(trained(&chat, &observed), format!("userassistant{stop}toolseconduser{stop}"));
        assert_eq!(observed[0].tokens(), plain[0].tokens());
    }

    /// The prompt has one reply; the texts of the tools after it are the last of the prompt.
    #[test]
    fn nothing_of_a_prompt_is_trained() {
        let chat = chat(TEMPLATE);
        let stop = chat.decode(&chat.stop()[..1]).expect("a text");
        let laid = lay_out(&chat, 0, &[], &conversation(&chat)).expect("tokens");
        let after: Vec<Segment> = laid.into_iter().map(|laid| laid.after_prompt(1).with_observations()).collect();
        assert_eq!(trained(&chat, &after), format!("user{stop}"));
    }

    /// A template that drops the first message after a reply begins a new context, in which nothing is trained again.
    #[test]
    fn a_text_is_trained_in_its_first_context_only() {
        let template = "{% set later = messages | selectattr('role', 'equalto', 'assistant') | list | length > 0 %}\
                        {% if later %}<|im_start|>again\n{% endif %}\
                        {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                        {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        let chat = chat(template);
        let stop = chat.decode(&chat.stop()[..1]).expect("a text");
        let laid = lay_out(&chat, 0, &[], &conversation(&chat)).expect("tokens");
        assert_eq!(laid.len(), 2);
        let observed: Vec<Segment> = laid.into_iter().map(Laid::with_observations).collect();
        assert_eq!(trained(&chat, &observed[..1]), format!("userassistant{stop}"));
        assert_eq!(trained(&chat, &observed[1..]), format!("toolseconduser{stop}"));
    }
}
