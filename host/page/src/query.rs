//! A query string as pairs, for reading options and for links that change one of them.

use crate::words::visible;
use url::form_urlencoded::{self, Serializer};

/// Pairs of a query string, in order. Pairs with an empty value are left out, because a form sends its empty fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// An option has a value that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}={value}` is wrong: expected {expected}")]
pub(crate) struct WrongOption {
    pub key: &'static str,
    pub value: String,
    pub expected: &'static str,
}

impl Query {
    /// Parses a query string without its question mark. Characters that mislead are written as escapes, since the page
    /// shows the query in its fields.
    pub fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes()).filter(|(_, value)| !value.is_empty());
        Self(pairs.map(|(key, value)| (visible(&key), visible(&value))).collect())
    }

    /// First value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// All values of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// All pairs.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Value of a key, parsed; `None` if it is absent.
    pub fn parsed<T: std::str::FromStr>(
        &self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, WrongOption> {
        let parse = |value: &str| value.parse().map_err(|_| WrongOption { key, value: value.to_owned(), expected });
        self.get(key).map(parse).transpose()
    }

    /// One of some words, mapped to its value; `None` if the key is absent.
    pub fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
        expected: &'static str,
    ) -> Result<Option<T>, WrongOption> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let found = choices.iter().find(|(word, _)| *word == value).map(|(_, choice)| *choice);
        found.map(Some).ok_or_else(|| WrongOption { key, value: value.to_owned(), expected })
    }

    /// Removes all pairs of a key.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(known, _)| known != key);
    }

    /// The query with one value for a key.
    pub fn with(&self, key: &str, value: impl Into<String>) -> Self {
        let mut query = self.clone();
        query.remove(key);
        query.0.push((key.to_owned(), value.into()));
        query
    }

    /// The query without a key.
    pub fn without(&self, key: &str) -> Self {
        let mut query = self.clone();
        query.remove(key);
        query
    }

    /// A path on this server with the query.
    pub fn link(&self, path: &str) -> String {
        // A path of several slashes would be read as the address of another server.
        let path = format!("/{}", path.trim_start_matches(['/', '\\']));
        if self.0.is_empty() {
            return path;
        }
        let query = Serializer::new(String::new()).extend_pairs(self.pairs()).finish();
        format!("{path}?{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_keep_the_other_options() {
        let query = Query::parse("a=1&text=x%20%26%3C&empty=&a=2");
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("text"), Some("x &<"));
        assert_eq!(query.with("a", "3").link("/runs/0"), "/runs/0?text=x+%26%3C&a=3");
        assert_eq!(Query::default().link("/"), "/");
    }

    #[test]
    fn links_stay_on_this_server() {
        for path in ["//example.org", "/\\example.org", "///example.org/"] {
            let link = Query::default().link(path);
            assert!(!link.starts_with("//") && !link.starts_with("/\\"), "{link}");
        }
    }

    #[test]
    fn wrong_values_are_named() {
        let query = Query::parse("stage=x&success=maybe");
        let error = query.parsed::<u32>("stage", "a number").unwrap_err().to_string();
        assert_eq!(error, "`stage=x` is wrong: expected a number");
        assert!(query.choice("success", &[("yes", true)], "yes or no").is_err());
        assert_eq!(query.parsed::<u32>("step", "a number"), Ok(None));
    }
}
