//! Story drawn from a seed, with its sum and its answer.

use gymkhana_sdk::{Rng, hash};

use crate::templates::{CONTAINERS, NAMES, THINGS, Template, templates};

/// Share of sums in the test split, as 1 of this many.
const HELD_OUT: u64 = 8;

/// Part of all stories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Train,
    Test,
}

impl Split {
    pub const NAMES: [&str; 2] = ["train", "test"];

    /// Split of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "train" => Some(Self::Train),
            "test" => Some(Self::Test),
            _ => None,
        }
    }
}

/// Complete story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// Text for the solver.
    pub text: String,
    /// Sum in the calculator's syntax.
    pub expression: String,
    /// Value of the sum.
    pub answer: u64,
    /// Key of the split: the numbers in ascending order, and the answer.
    key: u64,
}

impl Story {
    /// Story at an index of a split; equal indices give equal stories.
    pub fn at(split: Split, index: u64, difficulty: u8) -> Self {
        let mut rng = Rng::new(hash(format!("{split:?}/{index}/{difficulty}").as_bytes()));
        loop {
            if let Some(story) = Self::draw(&mut rng, difficulty).filter(|story| story.split() == split) {
                return story;
            }
        }
    }

    /// Split of the story. It depends on the sum, not on the words or the order of the numbers, so that training
    /// stories contain no sum of a test story under other names.
    pub fn split(&self) -> Split {
        if self.key.is_multiple_of(HELD_OUT) { Split::Test } else { Split::Train }
    }

    /// Random story; `None` if the numbers do not suit the sum.
    fn draw(rng: &mut Rng, difficulty: u8) -> Option<Self> {
        let template = rng.pick(templates(difficulty));
        let numbers: Vec<u64> = template.numbers.iter().map(|(low, high)| low + rng.below(high - low + 1)).collect();
        let answer = template.sum.value(&numbers)?;
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        Some(Self {
            text: tell(template, &numbers, rng),
            expression: template.sum.filled(&numbers),
            answer,
            key: hash(format!("{sorted:?}={answer}").as_bytes()),
        })
    }
}

/// Fills the gaps of a template.
fn tell(template: &Template, numbers: &[u64], rng: &mut Rng) -> String {
    let (name, pronoun) = *rng.pick(&NAMES);
    let container = *rng.pick(&CONTAINERS);
    let thing = *rng.pick(&THINGS);
    let others: Vec<&str> = THINGS.into_iter().filter(|other| *other != thing).collect();
    let other = *rng.pick(&others);
    let idle = rng.between(11, 99).to_string();
    let letters = ('a'..).zip(numbers).map(|(letter, number)| (letter, number.to_string()));
    let words = [('N', name), ('S', pronoun), ('o', container), ('t', thing), ('u', other), ('x', &idle)];
    let words = words.map(|(gap, word)| (gap, word.to_owned()));
    letters.chain(words).fold(template.text.to_owned(), |text, (gap, word)| text.replace(&format!("{{{gap}}}"), &word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn stories(split: Split, difficulty: u8, count: u64) -> Vec<Story> {
        (0..count).map(|index| Story::at(split, index, difficulty)).collect()
    }

    #[test]
    fn splits_share_neither_story_nor_sum() {
        for difficulty in 1..=4 {
            let train = stories(Split::Train, difficulty, 4000);
            let test = stories(Split::Test, difficulty, 2000);
            let told: HashSet<&str> = train.iter().map(|story| story.text.as_str()).collect();
            let sums: HashSet<&str> = train.iter().map(|story| story.expression.as_str()).collect();
            assert!(test.iter().all(|story| !told.contains(story.text.as_str())), "difficulty {difficulty}");
            assert!(test.iter().all(|story| !sums.contains(story.expression.as_str())), "difficulty {difficulty}");
        }
    }

    #[test]
    fn a_sum_turned_round_stays_in_its_split() {
        let key = |numbers: &[u64], answer: u64| hash(format!("{numbers:?}={answer}").as_bytes());
        for story in stories(Split::Test, 2, 500) {
            let mut numbers: Vec<u64> = story
                .expression
                .split(|symbol: char| !symbol.is_ascii_digit())
                .filter_map(|digits| digits.parse().ok())
                .collect();
            numbers.sort_unstable();
            assert_eq!(key(&numbers, story.answer) % HELD_OUT, 0, "{}", story.expression);
        }
    }

    #[test]
    fn places_hold_the_same_story_always_and_differ_from_each_other() {
        assert_eq!(stories(Split::Train, 2, 100), stories(Split::Train, 2, 100));
        let texts: HashSet<String> = stories(Split::Test, 2, 1000).into_iter().map(|story| story.text).collect();
        assert!(texts.len() > 990, "{} distinct stories of 1000", texts.len());
    }

    #[test]
    fn stories_are_short_plain_and_filled() {
        for difficulty in 1..=4 {
            let stories = stories(Split::Train, difficulty, 2000);
            for story in &stories {
                assert!(story.text.is_ascii() && !story.text.contains(['{', '}']), "{}", story.text);
            }
            let longest = stories.iter().map(|story| story.text.len()).max();
            let bound = [70, 95, 125, 170][usize::from(difficulty) - 1];
            assert!(longest.is_some_and(|longest| longest <= bound), "difficulty {difficulty}: {longest:?} bytes");
        }
    }

    #[test]
    fn difficulty_two_needs_a_calculator() {
        for story in stories(Split::Train, 2, 1000) {
            assert!(story.answer > 10 && story.expression.contains('*'), "{}", story.expression);
        }
    }

    /// Each answer was worked out by hand from the words, with 20, 12 and 5 in the gaps.
    #[test]
    fn sums_match_their_stories() {
        let answers = [235, 235, 235, 245, 245, 80, 160, 160, 40, 40, 1200, 1200];
        assert_eq!(templates(2).len(), answers.len());
        for (template, answer) in templates(2).iter().zip(answers) {
            let text = tell(template, &[20, 12, 5], &mut Rng::new(1));
            assert_eq!(template.sum.value(&[20, 12, 5]), Some(answer), "{text}");
            assert!(["20", "12", "5"].iter().all(|number| text.contains(number)), "{text}");
        }
    }
}
