//! Generated templates: texts that a rendering does not inspect can be replaced by others of their classes, and no
//! character from outside counts as the template's own.

use proptest::prelude::*;

use crate::{Class, Form, Origin, RenderLimits, Rendering, Template, Value};

/// Letters of texts from outside. No template has them.
const LETTERS: &str = "жЖщЩßÉé\u{301}🙂";

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just(String::new()),
        1 => "[ \n\t\u{1c}\u{2003}]{1,3}",
        2 => prop::sample::select(vec!["q", "ж", "7", "role", " q"]).prop_map(str::to_owned),
        4 => "[ \n]{0,2}[жЖщßÉ🙂]{1,3}[ \n'жЩé]{0,3}",
    ]
}

/// Another text of the same class.
fn like(text: &str, other: &str) -> String {
    match Class::of(text) {
        Class::Empty => String::new(),
        Class::Blank => " \n".repeat(1 + other.len() % 2),
        Class::Solid if other.starts_with('ж') => if text == "q" { "ж" } else { "q" }.to_owned(),
        Class::Solid => format!("{}ж{}", other, if other.len().is_multiple_of(2) { " \t" } else { "" }),
    }
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "m.x", "m['y']", "items[0]", "items|last", "x"]),
        2 => prop::sample::select(vec!["'q'", "' '", "''", "role", "undefined_name", "none", "7"]),
    ];
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let unary = prop::sample::select(vec![
            "({}|trim)",
            "({}.strip())",
            "({}.lstrip())",
            "({}.rstrip())",
            "({}|upper)",
            "({}|title)",
            "({}[1:])",
            "({}[::-1])",
            "({}|tojson)",
            "({}|default('z', true))",
            "({} is string)",
            "({}|length)",
            "({}|string)",
            "({} * 2)",
            "({}|e)",
            "({}|safe)",
            "([{}])",
            "({}|indent)",
            "({}|list|join)",
            "({}.split()|first)",
            "({}|capitalize)",
            "({}|center(9))",
            "({}|wordwrap(3))",
            "({}|truncate(5))",
            "(not {})",
            "({}|reverse|string)",
            "({}.partition(' ')[2])",
            "({}|string|trim)",
            "(dict(**{{{}: 1}})|list|join)",
            "('%(q)s' % {{'q': {}}})",
            "(namespace(q={}).q)",
            "({}|map('upper')|join)",
            "({}.swapcase())",
            "({}.splitlines()|join('|'))",
            "({}|striptags)",
            "({}|string|lower)",
        ]);
        let binary = prop::sample::select(vec![
            "({} ~ {})",
            "({} + {})",
            "({} if {} else 'n')",
            "([{}, {}]|join(' '))",
            "('%s-%s' % ({}, {}))",
            "({} == {})",
            "({} in {})",
            "({} ~ ('q' == {}))",
            "({} ~ ({{'q': 1, {}: 2}}|length))",
            "({} ~ {{'q': 1}}[{}])",
            "({}|replace('q', {}))",
            "({}|string|replace({}, 'w'))",
            "([{}, {}]|sort|join)",
            "({} or {})",
            "({} and {})",
            "('{}-{}'.format(1, 2) ~ {} ~ {})",
            "({}.join([{}, 'k']))",
            "([{}, {}]|unique|join('+'))",
            "({{{}: {}}})",
            "({} < {})",
            "({}.ljust(7) ~ {})",
            "({}|default({}))",
            "('%5s|%-4s' % ({}, {}))",
            "('{{:>5}}{{!r}}'.format({}, {}))",
            "([{}, {}]|map('trim')|join)",
            "([{}, {}]|select|list|length)",
        ]);
        prop_oneof![
            (unary, inner.clone())
                .prop_map(|(shape, part)| shape.replacen("{}", &part, 1).replace("{{", "{").replace("}}", "}")),
            (binary, inner.clone(), inner).prop_map(|(shape, left, right)| {
                let (shape, marked) = (shape.replace("'{}-{}'", "'A-A'"), "\u{0}");
                let shape = shape.replacen("{}", marked, 1).replacen("{}", &right, 1).replacen(marked, &left, 1);
                shape.replace("{{", "{").replace("}}", "}").replace("'A-A'", "'{}-{}'")
            }),
        ]
    })
}

fn template() -> impl Strategy<Value = String> {
    let statement = prop_oneof![
        4 => expression().prop_map(|expr| format!("<{{{{ {expr} }}}}>\n")),
        1 => (expression(), expression()).prop_map(|(set, expr)| format!("{{% set x = {set} %}}{{{{ {expr} }}}}")),
        1 => (expression(), expression()).prop_map(|(test, expr)| format!("{{% if {test} %}}{{{{ {expr} }}}}{{% else %}}-{{% endif %}}")),
        1 => expression().prop_map(|expr| format!("{{% for x in items %}}{{{{ {expr} }}}}{{{{ loop.changed(x) }}}},{{% endfor %}}")),
        1 => (expression(), expression()).prop_map(|(set, expr)| {
            format!("{{% set x %}}{{{{ {set} }}}} {{% endset %}}{{{{ {expr} }}}}{{{{ x|trim }}}}")
        }),
        1 => expression().prop_map(|expr| format!("{{% macro f(x) %}}({{{{ {expr} }}}}){{% endmacro %}}{{{{ f(a)|trim }}}}")),
        1 => expression().prop_map(|expr| format!("{{% filter trim %}} {{{{ {expr} }}}} {{% endfilter %}}")),
    ];
    prop::collection::vec(statement, 1..4).prop_map(|statements| statements.concat())
}

fn render(template: &Template, texts: &[String]) -> Option<Rendering> {
    let outside = |source: u32| Value::outside(texts.get(source as usize).map_or("", String::as_str), source);
    let message = Value::dict_of([(Value::own("x"), outside(3)), (Value::own("y"), outside(4))]);
    let variables = [
        ("a", outside(0)),
        ("b", outside(1)),
        ("c", outside(2)),
        ("m", message),
        ("items", Value::list([outside(5), Value::own("own"), outside(0)])),
        ("role", Value::own("role")),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
    template.render(variables, &RenderLimits::default()).ok()
}

/// The rendering with other texts of the sources that it does not inspect.
fn replaced(rendering: &Rendering, texts: &[String]) -> String {
    let mut text = String::new();
    for piece in rendering.text.pieces() {
        let Origin::Source(source) = piece.origin else {
            text.push_str(piece.text);
            continue;
        };
        if rendering.inspected_sources.contains(&source) {
            text.push_str(piece.text);
            continue;
        }
        match piece.form {
            Form::Whole => text.push_str(&texts[source as usize]),
            Form::Trimmed { start, end } => text.push_str(Class::trim(&texts[source as usize], start, end)),
            Form::Derived => panic!("derived from source {source}, which was not inspected"),
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn texts_of_the_same_class_give_the_same_rendering(
        source in template(),
        texts in prop::collection::vec(text(), 6),
        others in prop::collection::vec("[жЩ]{0,3}", 6),
    ) {
        let template = Template::parse(&source).unwrap();
        let Some(rendering) = render(&template, &texts) else { return Ok(()) };
        prop_assert_eq!(rendering.inspected, !rendering.inspected_sources.is_empty());
        for piece in rendering.text.pieces() {
            prop_assert!(
                piece.origin != Origin::Template || !piece.text.contains(|letter| LETTERS.contains(letter)),
                "{:?} of {} in {:?}", piece, source, rendering.text.as_str()
            );
        }
        let others: Vec<String> = texts.iter().zip(&others).zip(0..).map(|((text, other), source)| {
            if rendering.inspected_sources.contains(&source) { text.clone() } else { like(text, other) }
        }).collect();
        let Some(again) = render(&template, &others) else {
            return Err(TestCaseError::fail(format!("fails with other texts: {source}")));
        };
        prop_assert_eq!(again.text.as_str(), replaced(&rendering, &others), "{}", source);
        prop_assert_eq!(again.inspected_sources, rendering.inspected_sources);
    }

    #[test]
    fn no_source_makes_the_parser_panic(
        parts in prop::collection::vec(prop::sample::select(vec![
            "{{", "}}", "{%", "%}", "{#", "#}", "-", "+", "{%-", "-%}", "if", "for", "x", "in", "set", "=", "(", ")", "[", "]",
            "{", "}", "|", "trim", "is", "not", "'", "\"", "\\", "1", ".", "e", "\n", " ", "else", "endif", "endfor", "macro",
            "raw", "endraw", "call", "filter", ",", ":", "é", "🙂", "**", "*", "~", "0x", "_", "loop", "%", "recursive", "m",
        ]), 0..24),
        spaced in any::<bool>(),
    ) {
        let source = parts.join(if spaced { " " } else { "" });
        if let Ok(template) = Template::parse(&source) {
            let _ = render(&template, &vec!["ж".to_owned(); 6]);
        }
    }
}
