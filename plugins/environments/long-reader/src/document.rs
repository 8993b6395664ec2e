//! Document: facts among filler sentences. Each part is generated when it is shown, so that a document of half a million
//! characters costs as much as its current part.

use gymkhana_sdk::{Rng, hash};

use crate::facts::{Facts, POSITIONS};
use crate::settings::Settings;

/// Share of documents in the test split, as 1 of this many.
const HELD_OUT: u64 = 8;

/// Filler sentences; `{p}` is a place, `{t}` a thing and `{n}` a number below 100.
const FILLERS: [&str; 16] = [
    "It rained in {p} for {n} days.",
    "The market of {p} opens at dawn.",
    "A {t} was found near the bridge.",
    "Few people visit {p} in winter.",
    "The road to {p} is {n} miles long.",
    "Somebody painted the {t} green.",
    "The baker of {p} sold {n} loaves.",
    "Nothing is known about the old {t}.",
    "In {p} the bells ring at noon.",
    "The {t} belongs to the town hall.",
    "Children in {p} learn to swim early.",
    "The ferry to {p} was late again.",
    "They carried the {t} up the hill.",
    "About {n} boats lie in the harbour.",
    "The newspaper of {p} has {n} pages.",
    "A storm broke the {t} last year.",
];
const PLACES: [&str; 20] = [
    "Arlen", "Borga", "Cassel", "Dorn", "Ebra", "Falun", "Gorna", "Holm", "Irsk", "Jerna", "Kolby", "Lunde", "Mavra",
    "Norre", "Olm", "Pernik", "Rasta", "Selm", "Tarn", "Varno",
];
const THINGS: [&str; 16] = [
    "wagon", "clock", "ladder", "kettle", "lantern", "piano", "statue", "fence", "cart", "mirror", "bench", "chest",
    "drum", "anchor", "fountain", "gate",
];

/// Document of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Facts and questions.
    pub facts: Facts,
    /// Seed of the fillers.
    seed: u64,
    parts: u64,
    part_chars: usize,
}

impl Document {
    /// Document at an index of a split; equal indices give equal documents. The memory, the time of the questions and
    /// the oracle do not change it.
    pub fn at(test: bool, index: u64, settings: &Settings) -> Self {
        let Settings { characters, parts, questions, hops, distractors, changed, .. } = settings;
        let split = if test { "test" } else { "train" };
        let task = format!("{split}/{index}/{characters}/{parts}/{questions}/{hops}/{distractors}/{changed}");
        let mut rng = Rng::new(hash(task.as_bytes()));
        loop {
            let facts = Facts::draw(&mut rng, settings);
            let document =
                Self { facts, seed: rng.bits(), parts: *parts, part_chars: (characters / parts.max(&1)) as usize };
            if document.is_held_out() == test {
                return document;
            }
        }
    }

    /// The questions determine the split, so the splits share no task.
    pub fn is_held_out(&self) -> bool {
        let asked: String = self.facts.questions.iter().map(|question| question.text.as_str()).collect();
        hash(asked.as_bytes()).is_multiple_of(HELD_OUT)
    }

    /// Text of a part: at least one filler sentence, and its facts among them.
    pub fn part(&self, number: u64) -> String {
        let fillers = self.fillers(number);
        let slots = fillers.len() as u64 + 1;
        let mut facts = self.facts.all.iter().filter(|fact| fact.part() == number).peekable();
        let mut sentences: Vec<&str> = vec![];
        for slot in 0..slots {
            while let Some(fact) = facts.next_if(|fact| fact.place % POSITIONS * slots / POSITIONS == slot) {
                sentences.push(&fact.text);
            }
            sentences.extend(fillers.get(slot as usize).map(String::as_str));
        }
        sentences.join(" ")
    }

    /// First filler sentence of a part.
    pub fn aside(&self, number: u64) -> String {
        filler(&mut self.stream(number))
    }

    /// Filler sentences that bring a part to its length.
    fn fillers(&self, number: u64) -> Vec<String> {
        let facts = self.facts.all.iter().filter(|fact| fact.part() == number);
        let mut length: usize = facts.map(|fact| fact.text.len() + 1).sum();
        let mut rng = self.stream(number);
        let mut fillers = vec![];
        while fillers.is_empty() || length < self.part_chars {
            let sentence = filler(&mut rng);
            length += sentence.len() + 1;
            fillers.push(sentence);
        }
        fillers
    }

    fn stream(&self, number: u64) -> Rng {
        Rng::new(hash(&[self.seed.to_le_bytes(), number.to_le_bytes()].concat()))
    }
}

fn filler(rng: &mut Rng) -> String {
    let number = rng.between(2, 99).to_string();
    let (place, thing) = (*rng.pick(&PLACES), *rng.pick(&THINGS));
    rng.pick(&FILLERS).replace("{p}", place).replace("{t}", thing).replace("{n}", &number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::settings;

    #[test]
    fn every_fact_is_told_once_in_its_part() {
        let settings = Settings { questions: 4, hops: 2, distractors: 20, changed: 50, ..settings() };
        let document = Document::at(false, 3, &settings);
        let parts: Vec<String> = (0..settings.parts).map(|number| document.part(number)).collect();
        let whole = parts.join(" ");
        let mut end = 0;
        for fact in &document.facts.all {
            assert_eq!(whole.matches(&fact.text).count(), 1, "{}", fact.text);
            assert!(parts[fact.part() as usize].contains(&fact.text), "{}", fact.text);
            let place = whole.find(&fact.text).expect("it was counted");
            assert!(place >= end, "facts keep their order: {}", fact.text);
            end = place;
        }
        // Only facts have numbers of four digits.
        let facts: String = document.facts.all.iter().fold(whole, |whole, fact| whole.replace(&fact.text, ""));
        assert!(!facts.split(|symbol: char| !symbol.is_ascii_digit()).any(|digits| digits.len() > 2), "{facts}");
    }

    #[test]
    fn lengths_are_those_of_the_options() {
        for (characters, parts) in [(100, 1), (4_000, 8), (524_288, 256), (524_288, 1)] {
            let document = Document::at(false, 0, &Settings { characters, parts, ..settings() });
            let length: usize = (0..parts).map(|number| document.part(number).len()).sum();
            // A part ends with the first sentence beyond its length; no sentence has more than 50 characters.
            let (characters, most) = (characters as usize, characters as usize + parts as usize * 50);
            let facts: usize = document.facts.all.iter().map(|fact| fact.text.len() + 1).sum();
            assert!((characters - parts as usize..=most + facts).contains(&length), "{characters} {parts}: {length}");
        }
    }

    #[test]
    fn splits_share_no_questions_and_indices_have_tasks() {
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..40 {
            for test in [false, true] {
                let document = Document::at(test, index, &settings());
                assert_eq!(document.is_held_out(), test);
                assert_eq!(document, Document::at(test, index, &settings()));
                seen.insert(document.part(0));
            }
        }
        assert_eq!(seen.len(), 80, "every task has its own document");
        assert!(Document::at(false, 0, &settings()).part(0).contains(&Document::at(false, 0, &settings()).aside(0)));
    }
}
