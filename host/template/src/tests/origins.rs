//! Origins and forms of the characters of renderings.

use serde_json::json;

use crate::{Form, Origin, RenderLimits, Rendering, Template, Value};

const START: Form = Form::Trimmed { start: true, end: false };
const BOTH: Form = Form::Trimmed { start: true, end: true };

/// Renders with `a` = ` x<Y `, `b` = `b'"`, `n` = `12` (sources 1 to 3), and `role` = `user` of the template.
fn render(template: &str) -> Rendering {
    let variables = [
        ("a", Value::outside(" x<Y ", 1)),
        ("b", Value::outside("b'\"", 2)),
        ("n", Value::outside("12", 3)),
        ("blank", Value::outside(" \n", 4)),
        ("empty", Value::outside("", 5)),
        ("role", Value::own("user")),
        ("d", Value::from_json_outside(&json!({"k": "v"}), |text| if text == "k" { 6 } else { 7 })),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
    Template::parse(template).unwrap().render(variables, &RenderLimits::default()).unwrap()
}

/// Pieces as text, number of the source (0 for the template) and form.
fn pieces(template: &str) -> Vec<(String, u32, Form)> {
    let rendering = render(template);
    let piece = |piece: crate::Piece<'_>| match piece.origin {
        Origin::Template => (piece.text.to_owned(), 0, piece.form),
        Origin::Source(source) => (piece.text.to_owned(), source, piece.form),
    };
    rendering.text.pieces().map(piece).collect()
}

#[track_caller]
fn check(template: &str, wanted: &[(&str, u32, Form)], inspected: &[u32]) {
    let wanted: Vec<_> = wanted.iter().map(|(text, source, form)| ((*text).to_owned(), *source, *form)).collect();
    assert_eq!(pieces(template), wanted, "{template}");
    let rendering = render(template);
    assert_eq!(rendering.inspected_sources.iter().copied().collect::<Vec<_>>(), inspected, "{template}");
    assert_eq!(rendering.inspected, !inspected.is_empty(), "{template}");
}

use Form::{Derived, Whole};

#[test]
fn concatenation_keeps_whole_texts() {
    check("<{{ a }}>", &[("<", 0, Whole), (" x<Y ", 1, Whole), (">", 0, Whole)], &[]);
    check("{{ '<' + a ~ b }}", &[("<", 0, Whole), (" x<Y ", 1, Whole), ("b'\"", 2, Whole)], &[]);
    check("{{ b }}{{ b }}", &[("b'\"", 2, Whole), ("b'\"", 2, Whole)], &[]);
    check("{{ b * 2 }}", &[("b'\"", 2, Whole), ("b'\"", 2, Whole)], &[]);
    check("{{ [b, role]|join('-') }}", &[("b'\"", 2, Whole), ("-user", 0, Whole)], &[]);
    check("{{ '%s: %s' % (role, n) }}", &[("user: ", 0, Whole), ("12", 3, Whole)], &[]);
    check("{{ '{}: {x}'.format(role, x=n) }}", &[("user: ", 0, Whole), ("12", 3, Whole)], &[]);
    check("{% set x %}<{{ n }}>{% endset %}{{ x }}", &[("<", 0, Whole), ("12", 3, Whole), (">", 0, Whole)], &[]);
    check("{% macro m(x) %}{{ x }}!{% endmacro %}{{ m(n) }}", &[("12", 3, Whole), ("!", 0, Whole)], &[]);
    check("{{ 'a'.join([n, n]) }}", &[("12", 3, Whole), ("a", 0, Whole), ("12", 3, Whole)], &[]);
}

#[test]
fn trimming_is_not_an_inspection() {
    check("{{ a|trim }}", &[("x<Y", 1, BOTH)], &[]);
    check("{{ a.strip() }}", &[("x<Y", 1, BOTH)], &[]);
    check("{{ a.lstrip() }}", &[("x<Y ", 1, START)], &[]);
    check("{{ a.lstrip().rstrip() }}", &[("x<Y", 1, BOTH)], &[]);
    check("{{ n|trim }}", &[("12", 3, BOTH)], &[]);
    check("{{ (' ' ~ a ~ '!')|trim }}", &[("x<Y ", 1, START), ("!", 0, Whole)], &[]);
    check("{{ (blank ~ a ~ empty ~ blank)|trim }}", &[("x<Y", 1, BOTH)], &[]);
    check("{{ blank|trim }}{{ empty }}", &[], &[]);
    check("{{ a.strip('x ') }}", &[("<Y", 1, Derived)], &[1]);
}

#[test]
fn classes_decide_conditions_without_inspection() {
    check("{% if a and not empty and blank %}{{ 'y' if n|trim }}{% endif %}", &[("y", 0, Whole)], &[]);
    check("{{ a is string and a is defined and a is not none and a is not mapping }}", &[("True", 0, Whole)], &[]);
    check("{{ empty|default('-', true) }}{{ (blank|trim) or '+' }}", &[("-+", 0, Whole)], &[]);
    check("{{ a == none }}{{ a == 1 }}{{ role == 'user' }}", &[("FalseFalseTrue", 0, Whole)], &[]);
}

#[test]
fn contents_are_inspected() {
    check("{{ n == '12' }}", &[("True", 0, Whole)], &[3]);
    check("{{ 'x' in a }}", &[("True", 0, Whole)], &[1]);
    check("{{ n|length }}", &[("2", 0, Whole)], &[3]);
    check("{{ n|int + 1 }}", &[("13", 0, Whole)], &[3]);
    check("{{ n.startswith('1') }}", &[("True", 0, Whole)], &[3]);
    check("{{ [n]|length }}{{ [n, a]|last is string }}", &[("1True", 0, Whole)], &[]);
    check("{{ {'12': 'y'}[n] }}", &[("y", 0, Whole)], &[3]);
    check(
        "{% for c in n %}{{ c }},{% endfor %}",
        &[("1", 3, Derived), (",", 0, Whole), ("2", 3, Derived), (",", 0, Whole)],
        &[3],
    );
}

#[test]
fn transformations_keep_the_origin_of_each_character() {
    check("{{ a|upper }}", &[(" X<Y ", 1, Derived)], &[1]);
    check("{{ (role ~ a)|upper }}", &[("USER", 0, Whole), (" X<Y ", 1, Derived)], &[1]);
    check("{{ a[1:2] ~ n[::-1] }}", &[("x", 1, Derived), ("21", 3, Derived)], &[1, 3]);
    check("{{ a.split('<')[1] }}", &[("Y ", 1, Derived)], &[1]);
    check("{{ 'a12'|replace(n, b) }}", &[("a", 0, Whole), ("b'\"", 2, Whole)], &[3]);
    check("{{ a|replace('x', '-') }}", &[(" ", 1, Derived), ("-", 0, Whole), ("<Y ", 1, Derived)], &[1]);
    check("{{ b|tojson }}", &[("\"", 0, Whole), ("b'\\\"", 2, Derived), ("\"", 0, Whole)], &[2]);
    check("{{ [role, n] }}", &[("['user', '", 0, Whole), ("12", 3, Derived), ("']", 0, Whole)], &[3]);
    check("{{ a|e }}", &[(" x&lt;Y ", 1, Derived)], &[1]);
    check("{{ ('q\n' ~ n)|indent(2) }}", &[("q\n  ", 0, Whole), ("12", 3, Derived)], &[3]);
    check("{{ '%5s' % n }}", &[("   ", 0, Whole), ("12", 3, Whole)], &[3]);
    check("{{ n.center(4, b[0]) }}", &[("b", 2, Derived), ("12", 3, Derived), ("b", 2, Derived)], &[2, 3]);
    check(
        "{{ '{:b>3}'.format('1') }}{{ ('{:b>' ~ n[0] ~ '}').format('') }}",
        &[("bb1", 0, Whole), ("b", 3, Derived)],
        &[3],
    );
}

#[test]
fn keys_keep_their_origin() {
    check("{% for k in d %}{{ k }}{% endfor %}", &[("k", 6, Whole)], &[]);
    check(
        "{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}",
        &[("k", 6, Whole), ("=", 0, Whole), ("v", 7, Whole)],
        &[],
    );
    check("{% for k in dict(**d) %}{{ k }}{% endfor %}", &[("k", 6, Whole)], &[6]);
    check("{% macro m() %}{{ kwargs|list|first }}{% endmacro %}{{ m(**d) }}", &[("k", 6, Whole)], &[6]);
    check("{{ d.k }}", &[("v", 7, Whole)], &[6]);
    let json = [("{\"", 0, Whole), ("k", 6, Derived), ("\": \"", 0, Whole), ("v", 7, Derived), ("\"}", 0, Whole)];
    check("{{ d|tojson }}", &json, &[6, 7]);
}

#[test]
fn texts_that_are_made_at_once_come_from_outside() {
    check(
        "{{ ('user role ' ~ n)|wordwrap(5) }}",
        &[("user", 3, Derived), ("\n", 0, Whole), ("role", 3, Derived), ("\n", 0, Whole), ("12", 3, Derived)],
        &[3],
    );
    check("{{ (role ~ a)|striptags }}", &[("user x<Y", 1, Derived)], &[1]);
}
