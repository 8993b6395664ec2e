//! From a text to typed sections: `--set` laid over it, defaults written out, values checked, mistakes in words.
//!
//! The top level of a file has the keys of [`EpisodeRules`] beside keys of its own. Both parts are read apart from each
//! other, so that each refuses unknown keys itself and errors keep their lines.

pub(crate) mod defaults;
pub(crate) mod file;
pub(crate) mod hint;
pub(crate) mod mismatch;
pub(crate) mod overlay;
pub(crate) mod refusal;
pub(crate) mod wording;

use std::fmt;

use serde::de::value::Error as FieldError;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, forward_to_deserialize_any};
use toml::de::{DeTable, Error};
use toml::{Spanned, Table, Value};

use crate::episode_rules::EpisodeRules;
use crate::error::RunFileError;
use crate::parse::mismatch::Mismatch;
use crate::parse::refusal::RunFileRefusal;

/// Parses the text of a file; `origin` names it in messages. `T` is a struct with the keys beside those of the rules, and
/// `defaults` has values of keys that the text lacks.
///
/// # Errors
/// If the text is malformed, or a key is unknown or of another type.
pub fn parse_with_rules<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    defaults: &Table,
) -> Result<(EpisodeRules, T), RunFileError> {
    let read = || {
        let mut table = toml::from_str(text).map_err(|error: Error| hint::explain(&error.to_string()))?;
        lay_below(&mut table, defaults);
        let is_of_rules = |key: &str| field_names::<EpisodeRules>().contains(&key);
        let rules = table.clone().into_iter().filter(|(key, _)| is_of_rules(key)).collect();
        if let Some(mismatch) = Mismatch::in_run_file(&rules) {
            return Err(RunFileRefusal::Value(Box::new(mismatch)).in_file(text, &table));
        }
        // An error from the text, not from the table, shows the line.
        let parsed = from_table::<T>(table).map_err(|error| from_text::<T>(text).err().unwrap_or(error));
        parsed.map_err(|error| hint::explain(&error.to_string()))
    };
    read().map_err(|message| RunFileError::Malformed { origin: origin.to_owned(), message })
}

/// The table of a file with these rules and this rest.
///
/// # Errors
/// Never for parts of a parsed file: every section is representable in TOML.
pub fn table_with_rules<T: Serialize>(rules: &EpisodeRules, rest: &T) -> Result<Table, toml::ser::Error> {
    let mut table = Table::try_from(rules)?;
    table.extend(Table::try_from(rest)?);
    Ok(table)
}

/// Adds the values of keys that a table lacks.
fn lay_below(table: &mut Table, defaults: &Table) {
    for (key, default) in defaults {
        match (table.get_mut(key), default) {
            (Some(Value::Table(own)), Value::Table(default)) => lay_below(own, default),
            (Some(_), _) => {}
            (None, default) => drop(table.insert(key.clone(), default.clone())),
        }
    }
}

/// The rules and the rest of a table.
pub(crate) fn from_table<T: DeserializeOwned>(mut table: Table) -> Result<(EpisodeRules, T), Error> {
    KnownKeys::of::<T>().deserialize(Value::Table(table.clone()))?;
    let rules = field_names::<EpisodeRules>().iter().filter_map(|key| table.remove_entry(*key)).collect::<Table>();
    Ok((rules.try_into()?, table.try_into()?))
}

/// The rules and the rest of a text. Errors show the line.
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<(EpisodeRules, T), Error> {
    let read = || {
        let document = DeTable::parse(text)?;
        KnownKeys::of::<T>().deserialize(toml::Deserializer::from(document.clone()))?;
        let span = document.span();
        let mut table = document.into_inner();
        let rules = field_names::<EpisodeRules>().iter().filter_map(|key| table.remove_entry(*key));
        let rules = Spanned::new(span.clone(), rules.collect::<DeTable<'_>>());
        let rules = EpisodeRules::deserialize(toml::Deserializer::from(rules))?;
        Ok((rules, T::deserialize(toml::Deserializer::from(Spanned::new(span, table)))?))
    };
    read().map_err(|mut error: Error| {
        error.set_input(Some(text));
        error
    })
}

/// Reader of a table that refuses keys which neither part has.
struct KnownKeys(Vec<&'static str>);

impl KnownKeys {
    fn of<T: DeserializeOwned>() -> Self {
        Self([field_names::<EpisodeRules>(), field_names::<T>()].concat())
    }
}

impl<'de> DeserializeSeed<'de> for KnownKeys {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for KnownKeys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(KnownKey(&self.0))?.is_some() {
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Reader of one key.
struct KnownKey<'a>(&'a [&'static str]);

impl<'de> DeserializeSeed<'de> for KnownKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let key = String::deserialize(deserializer)?;
        if self.0.contains(&key.as_str()) {
            return Ok(());
        }
        let known = self.0.join("`, `");
        Err(D::Error::custom(format!("unknown field `{key}`, expected one of `{known}`")))
    }
}

/// Names of the fields of a struct that derives `Deserialize`.
fn field_names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The reader of names returns an error instead of a value.
    let _ = T::deserialize(FieldNames(&mut names));
    names
}

/// A deserializer that keeps the names which a struct asks for.
struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, FieldError> {
        Err(FieldError::custom("no struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    #[serde(deny_unknown_fields)]
    struct Own {
        port: u16,
    }

    #[test]
    fn a_written_table_is_read_again() {
        let (mut rules, own) = (EpisodeRules::default(), Own { port: 8 });
        rules.limits.seconds = 2.5;
        let table = table_with_rules(&rules, &own).unwrap();
        assert_eq!(parse(&toml::to_string(&table).unwrap()), Ok((rules, own)));
    }

    fn parse(text: &str) -> Result<(EpisodeRules, Own), String> {
        let defaults = "limits = { turns = 90, calls = 70 }".parse().unwrap();
        parse_with_rules(text, "x.toml", &defaults).map_err(|error| error.to_string())
    }

    #[test]
    fn both_parts_are_read_from_one_table() {
        let (rules, own) = parse("port = 7\nsuccess = 'a.b'\n[limits]\nturns = 3").unwrap();
        assert_eq!((rules.success.as_str(), own), ("a.b", Own { port: 7 }));
        assert_eq!((rules.limits.turns, rules.limits.calls, rules.limits.reply_tokens), (3, 70, 256));
        let table = "port = 7\n[environment]\ntrain = 'all'".parse().unwrap();
        let (rules, own): (EpisodeRules, Own) = from_table(table).unwrap();
        assert_eq!((rules.environment.train.as_str(), own.port), ("all", 7));
    }

    #[test]
    fn errors_of_both_parts_show_the_line() {
        let wrong = |text: &str| parse(text).unwrap_err();
        let unknown = wrong("port = 7\nsucess = 'a'\n");
        assert!(unknown.starts_with("x.toml: TOML parse error at line 2, column 1"), "{unknown}");
        assert!(unknown.ends_with("hint: did you mean `success`?"), "{unknown}");
        assert!(unknown.contains("`environment`") && unknown.contains("`port`"), "{unknown}");
        let of_rules = wrong("port = 7\n[limits]\nturn = 3\n");
        assert!(of_rules.contains("at line 3") && of_rules.contains("did you mean `turns`?"), "{of_rules}");
        assert!(wrong("success = 'a'\nport = 'x'\n").contains("at line 2"));
        assert!(wrong("success = 'a'\n").contains("missing field `port`"));
    }
}
