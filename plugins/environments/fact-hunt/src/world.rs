//! Small generated world of people, firms and towns: their relations and the pages that state them.

use gymkhana_sdk::Rng;

/// Kind of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Person,
    Firm,
    Town,
    Country,
    River,
}

/// Relation between entities. Every entity of the first kind has exactly one partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relation {
    pub from: Kind,
    pub to: Kind,
    /// Sentences of a page; `{a}` and `{b}` are the two entities.
    told: [&'static str; 2],
    /// Description of the second entity in a question; `{a}` is the first.
    pub asked: &'static str,
}

pub const RELATIONS: [Relation; 8] = [
    Relation {
        from: Kind::Person,
        to: Kind::Town,
        told: ["{a} was born in {b}.", "The birthplace of {a} is {b}."],
        asked: "the town where {a} was born",
    },
    Relation {
        from: Kind::Person,
        to: Kind::Firm,
        told: ["{a} works for {b}.", "{a} has been with {b} for years."],
        asked: "the firm that {a} works for",
    },
    Relation {
        from: Kind::Person,
        to: Kind::Person,
        told: ["{a} was taught by {b}.", "The teacher of {a} was {b}."],
        asked: "the teacher of {a}",
    },
    Relation {
        from: Kind::Firm,
        to: Kind::Town,
        told: ["{a} has its seat in {b}.", "The head office of {a} stands in {b}."],
        asked: "the town where {a} has its seat",
    },
    Relation {
        from: Kind::Firm,
        to: Kind::Person,
        told: ["{a} was founded by {b}.", "{b} founded {a}."],
        asked: "the founder of {a}",
    },
    Relation {
        from: Kind::Town,
        to: Kind::River,
        told: ["{a} lies on the {b}.", "The river of {a} is the {b}."],
        asked: "the river on which {a} lies",
    },
    Relation {
        from: Kind::Town,
        to: Kind::Country,
        told: ["{a} belongs to {b}.", "{a} is a town in {b}."],
        asked: "the country to which {a} belongs",
    },
    Relation {
        from: Kind::Town,
        to: Kind::Town,
        told: ["{a} is twinned with {b}.", "The twin town of {a} is {b}."],
        asked: "the twin town of {a}",
    },
];

/// Filler sentences that fit every entity.
const ASIDES: [&str; 6] = [
    "Little is known of the early years of {a}.",
    "Visitors often write about {a}.",
    "Opinions on {a} differ.",
    "There is a song about {a}.",
    "{a} is mentioned in several letters.",
    "A street is named after {a}.",
];

const SYLLABLES: [&str; 24] = [
    "ba", "dor", "el", "fin", "gar", "hol", "is", "ka", "lum", "mer", "no", "or", "pel", "quin", "ra", "sol", "ta",
    "ur", "va", "wen", "xa", "yor", "zan", "bri",
];

/// Entity with the index of its partner for each relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    pub kind: Kind,
    pub name: String,
    pub related: Vec<(usize, usize)>,
}

/// All entities; one page per entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    pub entities: Vec<Entity>,
    asides: Vec<Vec<usize>>,
    wordings: Vec<usize>,
}

impl World {
    /// World of approximately this many pages, at least 10.
    pub fn draw(rng: &mut Rng, pages: usize) -> Self {
        let shares = [(Kind::Person, 40), (Kind::Firm, 20), (Kind::Town, 25), (Kind::Country, 7), (Kind::River, 8)];
        let mut entities: Vec<Entity> = Vec::new();
        for (kind, share) in shares {
            for _ in 0..(pages * share / 100).max(2) {
                let name = fresh_name(rng, kind, &entities);
                entities.push(Entity { kind, name, related: vec![] });
            }
        }
        let of_kind =
            |kind: Kind| (0..entities.len()).filter(|index| entities[*index].kind == kind).collect::<Vec<usize>>();
        let kinds =
            [Kind::Person, Kind::Firm, Kind::Town, Kind::Country, Kind::River].map(|kind| (kind, of_kind(kind)));
        let all = |kind: Kind| kinds.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, found)| found);
        let mut related = vec![vec![]; entities.len()];
        for (number, relation) in RELATIONS.iter().enumerate() {
            for &first in all(relation.from) {
                let second = loop {
                    let second = *rng.pick(all(relation.to));
                    if second != first {
                        break second;
                    }
                };
                related[first].push((number, second));
            }
        }
        for (entity, related) in entities.iter_mut().zip(related) {
            entity.related = related;
        }
        let asides =
            entities.iter().map(|_| (0..2).map(|_| rng.below(ASIDES.len() as u64) as usize).collect()).collect();
        let wordings = entities.iter().map(|_| rng.below(2) as usize).collect();
        Self { entities, asides, wordings }
    }

    /// Page about an entity.
    pub fn page(&self, index: usize) -> String {
        let entity = &self.entities[index];
        let told = entity.related.iter().map(|(relation, other)| {
            RELATIONS[*relation].told[self.wordings[index]]
                .replace("{a}", &entity.name)
                .replace("{b}", &self.entities[*other].name)
        });
        let mut sentences: Vec<String> = told.collect();
        for (place, aside) in self.asides[index].iter().enumerate() {
            sentences.insert((place * 2).min(sentences.len()), ASIDES[*aside].replace("{a}", &entity.name));
        }
        sentences.join(" ")
    }

    /// Identifier of an entity's page.
    pub fn id(&self, index: usize) -> String {
        format!("page-{index}")
    }
}

fn fresh_name(rng: &mut Rng, kind: Kind, taken: &[Entity]) -> String {
    loop {
        let mut word = || {
            let word: String = (0..2 + rng.below(2)).map(|_| *rng.pick(&SYLLABLES)).collect();
            word[..1].to_uppercase() + &word[1..]
        };
        let name = match kind {
            Kind::Person => format!("{} {}", word(), word()),
            Kind::Firm => format!("{} Works", word()),
            Kind::Town | Kind::Country | Kind::River => word(),
        };
        if taken.iter().all(|entity| entity.name != name) {
            return name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_states_each_relation_once() {
        let world = World::draw(&mut Rng::new(5), 60);
        let mut names: Vec<&str> = world.entities.iter().map(|entity| entity.name.as_str()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name stands for one entity");
        for (index, entity) in world.entities.iter().enumerate() {
            let expected = RELATIONS.iter().filter(|relation| relation.from == entity.kind).count();
            assert_eq!(entity.related.len(), expected);
            let page = world.page(index);
            for (relation, other) in &entity.related {
                assert_eq!(world.entities[*other].kind, RELATIONS[*relation].to);
                assert!(*other != index && page.contains(&world.entities[*other].name), "{page}");
            }
        }
        assert_ne!(world, World::draw(&mut Rng::new(6), 60));
    }
}
