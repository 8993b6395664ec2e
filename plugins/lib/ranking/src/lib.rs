//! Okapi BM25 ranking of texts, with stemming and without stop words.

use bm25::{DefaultTokenizer, Embedder, EmbedderBuilder, Language, Scorer};

/// Texts, indexed by their words.
pub struct Ranking {
    embedder: Embedder<u32, DefaultTokenizer>,
    scorer: Scorer<usize, u32>,
}

impl Ranking {
    /// Indexes all texts.
    #[must_use]
    pub fn new(texts: &[&str]) -> Self {
        let embedder: Embedder<u32, DefaultTokenizer> =
            EmbedderBuilder::with_fit_to_corpus(Language::English, texts).build();
        let mut scorer = Scorer::new();
        for (place, text) in texts.iter().enumerate() {
            scorer.upsert(&place, embedder.embed(text));
        }
        Self { embedder, scorer }
    }

    /// Positions of the texts that share a word with the query, in descending order of score. Ties follow the order of
    /// the texts, so results do not depend on the iteration order of the index.
    #[must_use]
    pub fn search(&self, query: &str) -> Vec<usize> {
        let mut found = self.scorer.matches(&self.embedder.embed(query));
        found.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.id.cmp(&other.id)));
        found.into_iter().map(|scored| scored.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_follow_okapi() {
        // k1 = 1.2, b = 0.75, mean length 8 / 3. Scores of `apple`: 1.328 ln 1.6, 1.114 ln 1.6 and 0.
        let texts = ["apple apple pear", "apple plum", "plum plum plum"];
        assert_eq!(Ranking::new(&texts).search("apple"), [0, 1]);
        // `plum`: 1.114 ln 1.6 in the second text, 3 * 2.2 / (3 + 1.3125) ln 1.6 = 1.530 ln 1.6 in the third.
        assert_eq!(Ranking::new(&texts).search("plums"), [2, 1]);
        // `pear` is rarer: 0.951 ln (1 + 2.5 / 1.5) = 0.933, before 1.530 ln 1.6 = 0.719 and 1.114 ln 1.6 = 0.524.
        assert_eq!(Ranking::new(&texts).search("plum pear"), [0, 2, 1]);
    }

    #[test]
    fn shorter_texts_lead_and_ties_keep_their_order() {
        let texts = ["apple kiwi lemon melon peach", "apple", "apple"];
        assert_eq!(Ranking::new(&texts).search("apple"), [1, 2, 0]);
        assert_eq!(Ranking::new(&texts).search("the"), Vec::<usize>::new());
        assert_eq!(Ranking::new(&texts).search(""), Vec::<usize>::new());
        assert_eq!(Ranking::new(&[]).search("apple"), Vec::<usize>::new());
    }
}
