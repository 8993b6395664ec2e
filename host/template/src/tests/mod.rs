//! Tests of the crate.

mod classes;
mod hostile;
mod language;
mod origins;
mod speed;

#[test]
fn templates_are_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<crate::Template>();
    check::<crate::TemplateError>();
    check::<crate::Rendering>();
}

#[test]
fn literals_and_names_of_a_template_are_listed() {
    let template = crate::Template::parse("a{# c #}{% if x == 'y' %}b{{ z.w }}{% endif %}").unwrap();
    assert_eq!(template.literals().collect::<Vec<_>>(), ["a", "y", "b"]);
    assert_eq!(template.names().collect::<Vec<_>>(), ["x", "z"]);
}
