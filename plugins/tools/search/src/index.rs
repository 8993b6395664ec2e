//! Documents, ranked by their titles and texts.

use gymkhana_ranking::Ranking;

use crate::corpus::Document;

/// Documents with their index.
pub struct Index {
    documents: Vec<Document>,
    ranking: Ranking,
}

impl Index {
    /// Indexes all documents.
    pub fn new(documents: Vec<Document>) -> Self {
        let texts: Vec<String> =
            documents.iter().map(|document| format!("{}\n{}", document.title, document.text)).collect();
        let ranking = Ranking::new(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        Self { documents, ranking }
    }

    /// Best documents for a query, in descending order of score.
    pub fn search(&self, query: &str, most: usize) -> Vec<&Document> {
        self.ranking.search(query).into_iter().take(most).filter_map(|place| self.documents.get(place)).collect()
    }

    /// Document with this identifier.
    pub fn get(&self, id: &str) -> Option<&Document> {
        self.documents.iter().find(|document| document.id == id)
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.documents.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let texts = [
            ("rivers", "Long rivers", "The Ebra runs through Varno. Boats run on the river."),
            ("towns", "Towns", "Varno is a town. Its bakers are known."),
            ("bread", "Bread", "Bakers bake bread early. Bread is eaten fresh."),
            ("more-bread", "Bread", "Bakers bake bread early. Bread is eaten fresh."),
        ];
        Index::new(
            texts
                .map(|(id, title, text)| Document { id: id.into(), title: title.into(), text: text.into() })
                .into_iter()
                .collect(),
        )
    }

    fn found(query: &str) -> Vec<String> {
        index().search(query, 10).into_iter().map(|document| document.id.clone()).collect()
    }

    #[test]
    fn rare_words_lead_and_ties_keep_their_order() {
        assert_eq!(found("Which river is in Varno?")[0], "rivers");
        assert_eq!(found("baker of Varno")[0], "towns");
        assert_eq!(found("baking bread")[..2], ["bread", "more-bread"]);
        assert_eq!(found("zebra"), Vec::<String>::new());
        assert_eq!(found(""), Vec::<String>::new());
    }
}
