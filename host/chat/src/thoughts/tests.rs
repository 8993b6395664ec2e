//! Replies of published models, and of models that were cut or misuse the marks.

use proptest::prelude::*;

use super::*;

fn of(template: &str) -> ThoughtMarks {
    ThoughtMarks::detect(template, &[]).unwrap()
}

/// Thoughts and message of a reply.
fn split<'t>(marks: &ThoughtMarks, reply: &'t str, begun: Begun) -> (Option<&'t str>, &'t str) {
    let SplitReply { thoughts, message, .. } = marks.split(reply, begun);
    (thoughts, message)
}

#[test]
fn thoughts_stand_before_the_message() {
    let marks = ThoughtMarks::default();
    for (reply, begun, thoughts, message) in [
        ("<think>\nTwo plus three is 5.\n</think>\n\n5", Begun::No, Some("Two plus three is 5."), "5"),
        ("Two plus three is 5.\n</think>\n\n5", Begun::Yes, Some("Two plus three is 5."), "5"),
        // The model repeats the mark of the prompt.
        ("<think>\na\n</think>\n\nb", Begun::Yes, Some("a"), "b"),
        // Cut while thinking.
        ("<think>\nperhaps answer: 5", Begun::No, Some("perhaps answer: 5"), ""),
        ("perhaps answer: 5", Begun::Yes, Some("perhaps answer: 5"), ""),
        ("<think>", Begun::No, Some(""), ""),
        // Without thoughts, and with empty ones.
        ("5", Begun::No, None, "5"),
        (" b", Begun::No, None, " b"),
        ("", Begun::No, None, ""),
        ("<think>\n\n</think>\n\n5", Begun::No, Some(""), "5"),
        ("</think>5", Begun::Yes, Some(""), "5"),
        // Two thoughts in a row.
        ("<think>a</think>\n<think>b</think>c", Begun::No, Some("a</think>\n<think>b"), "c"),
        // Marks inside of the message belong to it.
        ("The tag </think> ends a thought.", Begun::No, None, "The tag </think> ends a thought."),
        ("Use <think> and </think>.", Begun::No, None, "Use <think> and </think>."),
        ("<think>a</think>b</think>c", Begun::No, Some("a"), "b</think>c"),
        // An endpoint does not know the prompt.
        ("a\n</think>\n\nb", Begun::Unknown, Some("a"), "b"),
        ("<think>a</think>b", Begun::Unknown, Some("a"), "b"),
        ("b", Begun::Unknown, None, "b"),
    ] {
        assert_eq!(split(&marks, reply, begun), (thoughts, message), "{reply:?} {begun:?}");
    }
}

#[test]
fn families_have_marks_of_their_own() {
    let harmony = of("<|start|>assistant<|channel|>analysis<|message|>");
    let reply = "<|channel|>analysis<|message|>Simple.<|end|><|start|>assistant<|channel|>final<|message|>Hi.";
    assert_eq!(split(&harmony, reply, Begun::No), (Some("Simple."), "Hi."));
    assert_eq!(split(&harmony, "<|channel|>final<|message|>Hi.<|return|>", Begun::No), (None, "Hi."));
    let call = "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary to=functions.f \
                <|constrain|>json<|message|>{}<|call|>";
    let (thoughts, message) = split(&harmony, call, Begun::No);
    assert_eq!(thoughts, Some("Look."));
    assert!(message.contains("commentary to=functions.f"), "{message}");
    for (template, reply, thoughts, message) in [
        ("[THINK]", "[THINK]a[/THINK]b", "a", "b"),
        ("<|channel>", "<|channel>thought\na<channel|>b", "a", "b"),
        ("<seed:think>", "<seed:think>a</seed:think>b", "a", "b"),
        ("<mm:think>", "<mm:think>a</mm:think>\nb", "a", "b"),
        ("<|START_THINKING|>", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "a", "b"),
        ("<|inner_prefix|>", "<|inner_prefix|>a<|inner_suffix|>b", "a", "b"),
        ("</think>", "<think>a</think>b", "a", "b"),
    ] {
        assert_eq!(split(&of(template), reply, Begun::No), (Some(thoughts), message), "{template}");
    }
}

#[test]
fn marks_are_detected_in_the_template_or_among_the_tokens() {
    // `<|end|>` ends the messages of other models too.
    assert_eq!(ThoughtMarks::detect("<|user|>{{ m.content }}<|end|>", &["<|end|>".to_owned()]), None);
    assert_eq!(ThoughtMarks::detect("plain", &["<think>".to_owned()]), None);
    assert_eq!(
        ThoughtMarks::detect("plain", &["</think>".to_owned(), "<think>".to_owned()]),
        Some(ThoughtMarks::default())
    );
    assert_eq!(
        ThoughtMarks::detect("[THINK]", &["</think>".to_owned(), "<think>".to_owned()]).unwrap().open(),
        "[THINK]"
    );
}

#[test]
fn a_reply_of_an_unknown_model_is_split_by_the_marks_at_its_beginning() {
    for (reply, thoughts, message) in [
        ("[THINK]a[/THINK]b </think>", Some("a"), "b </think>"),
        ("<seed:think>a</seed:think>b", Some("a"), "b"),
        ("<think>a</think>b", Some("a"), "b"),
        ("a</think>b", Some("a"), "b"),
        ("The mark [THINK] opens", None, "The mark [THINK] opens"),
    ] {
        let split = ThoughtMarks::split_any(reply);
        assert_eq!((split.thoughts, split.message), (thoughts, message), "{reply}");
    }
}

#[test]
fn a_prompt_may_open_a_thought() {
    let marks = ThoughtMarks::default();
    assert_eq!(marks.begun("<|im_start|>assistant\n<think>\n"), Begun::Yes);
    assert_eq!(marks.begun("<|im_start|>assistant\n<think>\n\n</think>\n\n"), Begun::No);
    assert_eq!(marks.begun("<|im_start|>assistant\n"), Begun::No);
}

#[test]
fn marks_of_ones_own_are_checked() {
    let marks = ThoughtMarks::new("[why]", "[/why]").unwrap();
    assert_eq!(split(&marks, "[why]a[/why] b", Begun::No), (Some("a"), "b"));
    assert_eq!(ThoughtMarks::new(" ", "x"), Err(MarksError::Empty));
    assert_eq!(ThoughtMarks::new("x", "x"), Err(MarksError::Equal));
}

proptest! {
    /// The message is the end of the reply, and `bytes` is where the thoughts end.
    #[test]
    fn a_reply_is_its_thoughts_and_its_message(reply in "(<think>|</think>|a|\\[|\n| |ä){0,12}", begun in 0..3usize) {
        let begun = [Begun::Yes, Begun::No, Begun::Unknown][begun];
        let split = ThoughtMarks::default().split(&reply, begun);
        prop_assert!(reply.is_char_boundary(split.bytes));
        prop_assert!(reply[split.bytes..].ends_with(split.message));
        prop_assert_eq!(reply[split.bytes..].trim(), split.message.trim());
        prop_assert!(split.thoughts.is_some() || split.bytes == 0);
        let again = ThoughtMarks::default().split(split.message, Begun::No);
        prop_assert!(split.thoughts.is_none() || !split.message.starts_with("<think>"));
        prop_assert_eq!(again.message, split.message);
    }
}
