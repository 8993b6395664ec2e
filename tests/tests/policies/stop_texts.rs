//! Stop texts over the tiny model's tokenizer: which sampled tokens complete a text.

use gymkhana_chat::{ChatFiles, ChatFormat, StopTexts};
use gymkhana_policy::StopCondition;
use gymkhana_trainer::{TinyModel, Trainer, TrainerSettings};

fn chat() -> ChatFormat {
    let trainer = Trainer::create(&TinyModel::default(), &TrainerSettings::default()).expect("a model");
    let text = |name: &str| trainer.files().iter().find(|(found, _)| *found == name).map(|(_, text)| text.to_owned());
    let files = ChatFiles {
        tokenizer: text("tokenizer.json").expect("a tokenizer"),
        config: text("tokenizer_config.json").expect("its configuration"),
        template: text("chat_template.jinja"),
        ends: vec![],
    };
    ChatFormat::new(&files).expect("the tiny model's own files")
}

fn condition(texts: &[&str], chat: &ChatFormat) -> Option<StopTexts> {
    StopTexts::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), chat)
}

#[test]
fn only_a_complete_text_at_the_end_is_a_match() {
    let chat = chat();
    let texts = condition(&["ab", "c"], &chat).expect("texts");
    assert!(!texts.is_met(&[97]) && !texts.is_met(&[98]), "half of a text");
    assert!(texts.is_met(&[97, 98]) && texts.is_met(&[120, 99]));
}

#[test]
fn a_control_token_completes_a_text_that_it_contains() {
    let chat = chat();
    let texts = condition(&["<|im_end"], &chat).expect("texts");
    assert!(texts.is_met(&[97, 258]));
}

#[test]
fn an_empty_list_of_texts_gives_no_condition() {
    let chat = chat();
    assert!(condition(&[], &chat).is_none());
}
