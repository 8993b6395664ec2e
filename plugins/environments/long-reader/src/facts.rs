//! Facts of a document: who has which number, who gave a letter to whom, and the questions about them.

use gymkhana_sdk::Rng;

use crate::settings::Settings;

/// First and last names; no name is the beginning of another.
const FIRST: [&str; 40] = [
    "Ada", "Bela", "Cora", "Dario", "Elin", "Felix", "Gita", "Hugo", "Ines", "Jonas", "Kaya", "Levi", "Mira", "Nils",
    "Olga", "Pavel", "Quentin", "Rosa", "Sven", "Tara", "Ugo", "Vera", "Wanda", "Xenia", "Yusuf", "Zoe", "Amir",
    "Bruno", "Clara", "Diego", "Emma", "Farid", "Greta", "Hana", "Ivan", "Judit", "Kofi", "Lena", "Marco", "Noor",
];
const LAST: [&str; 40] = [
    "Abel", "Brandt", "Castro", "Duval", "Engel", "Fischer", "Gomez", "Hansen", "Ivanov", "Jansen", "Kovac", "Larsen",
    "Moreau", "Novak", "Ortiz", "Petrov", "Quist", "Rossi", "Santos", "Tanaka", "Ulrich", "Vargas", "Weber", "Xu",
    "Yilmaz", "Zeman", "Adeyemi", "Bauer", "Costa", "Dubois", "Egger", "Fontana", "Grant", "Haddad", "Iqbal", "Jung",
    "Klein", "Lopez", "Meyer", "Nagy",
];
/// Numbers have four digits.
const NUMBERS: (i64, i64) = (1_000, 9_999);
/// Positions in a part, so that a place is a part and a position in it.
pub const POSITIONS: u64 = 1 << 20;

/// Sentence about a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Place in the document: part times [`POSITIONS`] plus position.
    pub place: u64,
    /// Sentence.
    pub text: String,
    /// Question that needs it, if one does.
    pub question: Option<usize>,
}

impl Fact {
    /// Part of the document that states it.
    pub fn part(&self) -> u64 {
        self.place / POSITIONS
    }
}

/// Question with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Text.
    pub text: String,
    /// Number that is the answer.
    pub answer: String,
    /// Persons from the named one to the one with the number.
    pub people: Vec<String>,
    /// Sentences that lead to the answer, in the order of the persons.
    pub steps: Vec<String>,
}

/// Facts and questions of a document. A reader who knows a question meets its facts in the order of its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// All facts, in the order of the document.
    pub all: Vec<Fact>,
    /// Questions.
    pub questions: Vec<Question>,
}

/// Source of names, numbers and places, none of which repeats.
struct Draw<'a> {
    rng: &'a mut Rng,
    settings: &'a Settings,
    names: Vec<String>,
    numbers: Vec<i64>,
}

impl Facts {
    /// Draws facts and questions.
    pub fn draw(rng: &mut Rng, settings: &Settings) -> Self {
        let mut draw = Draw { rng, settings, names: vec![], numbers: vec![] };
        let mut facts = Self { all: vec![], questions: vec![] };
        for number in 0..settings.questions as usize {
            let people: Vec<String> = (0..settings.hops).map(|_| draw.name()).collect();
            let (steps, answer) = draw.chain(&people, true);
            let text = asked(&people[0], settings.hops);
            facts.add(draw.places(&steps), &steps, Some(number));
            facts.questions.push(Question { text, answer, people, steps });
        }
        for number in 0..settings.distractors {
            let person = draw.name();
            // With letters, every second distractor is one, given to a person of whom nothing else is said.
            let people = if settings.hops > 1 && number % 2 == 1 { vec![person, draw.name()] } else { vec![person] };
            let (steps, _) = draw.chain(&people, people.len() == 1);
            facts.add(draw.places(&steps), &steps, None);
        }
        facts.all.sort_by_key(|fact| fact.place);
        facts
    }

    fn add(&mut self, places: Vec<u64>, steps: &[String], question: Option<usize>) {
        let facts = places.into_iter().zip(steps).map(|(place, text)| Fact { place, text: text.clone(), question });
        self.all.extend(facts);
    }
}

impl Draw<'_> {
    /// Name that was not drawn yet.
    fn name(&mut self) -> String {
        loop {
            let name = format!("{} {}", self.rng.pick(&FIRST), self.rng.pick(&LAST));
            if !self.names.contains(&name) {
                self.names.push(name.clone());
                return name;
            }
        }
    }

    /// Number that was not drawn yet.
    fn number(&mut self) -> i64 {
        loop {
            let number = self.rng.between(NUMBERS.0, NUMBERS.1);
            if !self.numbers.contains(&number) {
                self.numbers.push(number);
                return number;
            }
        }
    }

    /// Sentences by which a letter goes from person to person, with the number of the last one if it `ends`; the number
    /// may change. Returns also the last number.
    fn chain(&mut self, people: &[String], ends: bool) -> (Vec<String>, String) {
        let given = people.windows(2).map(|pair| format!("{} gave the letter to {}.", pair[0], pair[1]));
        let mut steps: Vec<String> = given.collect();
        let mut number = String::new();
        if ends {
            let last = &people[people.len() - 1];
            number = self.number().to_string();
            steps.push(format!("The number of {last} is {number}."));
            if self.rng.below(100) < self.settings.changed {
                number = self.number().to_string();
                steps.push(format!("The number of {last} is now {number}."));
            }
        }
        (steps, number)
    }

    /// Places of sentences, in order.
    fn places(&mut self, steps: &[String]) -> Vec<u64> {
        let end = self.settings.parts * POSITIONS;
        let mut places: Vec<u64> = steps.iter().map(|_| self.rng.below(end)).collect();
        places.sort_unstable();
        places
    }
}

/// Text of a question.
fn asked(person: &str, hops: u64) -> String {
    match hops {
        1 => format!("What is the number of {person}?"),
        2 => format!("What is the number of the person to whom {person} gave the letter?"),
        _ => format!(
            "{person} gave the letter away, and it was given to the next person {} more times. What is the number of the \
             person who has it then?",
            hops - 2
        )
        .replace(" 1 more times", " once more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::settings;

    #[test]
    fn names_differ_and_none_begins_another() {
        for names in [FIRST, LAST] {
            for (place, name) in names.iter().enumerate() {
                assert!(
                    names.iter().enumerate().all(|(other, text)| other == place || !text.starts_with(name)),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_question_names_the_first_person_only() {
        let people = |hops| asked("Ada Abel", hops);
        assert_eq!(people(1), "What is the number of Ada Abel?");
        assert_eq!(people(2), "What is the number of the person to whom Ada Abel gave the letter?");
        assert!(people(3).contains("to the next person once more. What"), "{}", people(3));
        assert!(people(4).contains("to the next person 2 more times. What"), "{}", people(4));
    }

    #[test]
    fn steps_lead_from_the_named_person_to_the_answer() {
        let settings = Settings { questions: 3, hops: 3, distractors: 9, changed: 100, ..settings() };
        let facts = Facts::draw(&mut Rng::new(4), &settings);
        // Two letters, a number and its change for each question; four letters and five numbers that change.
        assert_eq!(facts.all.len(), 3 * 4 + 4 + 5 * 2);
        for (number, question) in facts.questions.iter().enumerate() {
            let [first, second, third] = &question.people[..] else { panic!("{:?}", question.people) };
            assert_eq!(question.steps[0], format!("{first} gave the letter to {second}."));
            assert_eq!(question.steps[1], format!("{second} gave the letter to {third}."));
            assert!(question.steps[2].starts_with(&format!("The number of {third} is ")), "{:?}", question.steps);
            assert_eq!(question.steps[3], format!("The number of {third} is now {}.", question.answer));
            let met: Vec<&String> =
                facts.all.iter().filter(|fact| fact.question == Some(number)).map(|fact| &fact.text).collect();
            assert_eq!(met, question.steps.iter().collect::<Vec<_>>());
        }
        assert!(facts.all.iter().all(|fact| fact.part() < settings.parts));
    }
}
