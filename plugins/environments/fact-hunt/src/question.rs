//! Question: a walk from entity to entity that names only the first one.

use gymkhana_sdk::{Rng, hash};

use crate::world::{RELATIONS, World};

/// Share of questions in the test split, as 1 of this many.
const HELD_OUT: u64 = 8;

/// Question with its world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub world: World,
    /// Entities of the walk, from the named one to the answer.
    pub walk: Vec<usize>,
    /// Text for the agent.
    pub text: String,
}

impl Question {
    /// Question at an index of a split; equal indices give equal questions.
    pub fn at(test: bool, index: u64, hops: usize, pages: usize) -> Self {
        let split = if test { "test" } else { "train" };
        let mut rng = Rng::new(hash(format!("{split}/{index}/{hops}/{pages}").as_bytes()));
        loop {
            let question = Self::draw(&mut rng, hops, pages);
            if question.is_held_out() == test {
                return question;
            }
        }
    }

    /// The text determines the split, so the splits share no question.
    pub fn is_held_out(&self) -> bool {
        hash(self.text.as_bytes()).is_multiple_of(HELD_OUT)
    }

    fn draw(rng: &mut Rng, hops: usize, pages: usize) -> Self {
        let world = World::draw(rng, pages);
        loop {
            let mut walk = vec![rng.below(world.entities.len() as u64) as usize];
            let mut asked = world.entities[walk[0]].name.clone();
            while walk.len() <= hops {
                let last = &world.entities[walk[walk.len() - 1]];
                let ways: Vec<&(usize, usize)> =
                    last.related.iter().filter(|(_, other)| !walk.contains(other)).collect();
                if ways.is_empty() {
                    break;
                }
                let (relation, other) = **rng.pick(&ways);
                asked = RELATIONS[relation].asked.replace("{a}", &asked);
                walk.push(other);
            }
            if walk.len() == hops + 1 {
                let text = format!("What is the name of {asked}? Answer with the name alone.");
                return Self { world, walk, text };
            }
        }
    }

    /// Name of the answer.
    pub fn answer(&self) -> &str {
        &self.world.entities[self.walk[self.walk.len() - 1]].name
    }

    /// All pages as lines of JSON, the set-up format of the search tool.
    pub fn corpus(&self) -> Vec<u8> {
        let line = |index: usize| {
            let (id, title) = (self.world.id(index), &self.world.entities[index].name);
            format!("{}\n", serde_json::json!({ "id": id, "title": title, "text": self.world.page(index) }))
        };
        (0..self.world.entities.len()).map(line).collect::<String>().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_leads_to_the_answer_page_by_page() {
        for index in 0..40 {
            let hops = 1 + index as usize % 4;
            let question = Question::at(index % 2 == 0, index, hops, 40);
            assert_eq!(question.walk.len(), hops + 1);
            for step in question.walk.windows(2) {
                let page = question.world.page(step[0]);
                assert!(page.contains(&question.world.entities[step[1]].name), "{page}");
            }
            assert!(question.text.contains(&question.world.entities[question.walk[0]].name));
            assert!(!question.text.contains(question.answer()), "{}", question.text);
            assert_eq!(question.is_held_out(), index % 2 == 0);
            assert_eq!(question, Question::at(index % 2 == 0, index, hops, 40));
        }
    }
}
