//! Templates that try to exhaust memory, time or the stack.

use serde_json::{Value as Json, json};

use crate::{RenderLimits, Template, TemplateError, Value};

fn render(source: &str) -> Result<String, TemplateError> {
    let limits = RenderLimits { steps: 3_000_000, held_bytes: 64 << 20, ..RenderLimits::default() };
    let variables = vec![("s".to_owned(), Value::outside("some text", 1))];
    Ok(Template::parse(source)?.render(variables, &limits)?.text.as_str().to_owned())
}

#[track_caller]
fn exceeds(source: &str) {
    let result = render(source);
    let shown: String = source.chars().take(80).collect();
    assert!(matches!(result, Err(TemplateError::Limit { .. })), "{shown}: {result:?}");
}

#[track_caller]
fn fails(source: &str) {
    let result = render(source);
    assert!(matches!(result, Err(TemplateError::Eval { .. } | TemplateError::Limit { .. })), "{source}: {result:?}");
}

#[test]
fn nested_sources_are_refused() {
    let repeat = |text: &str| text.repeat(100_000);
    for (open, inner, close) in [
        ("(", "1", ")"),
        ("[", "", "]"),
        ("{1:", "1", "}"),
        ("not ", "1", ""),
        ("-", "1", ""),
        ("1 + (", "1", ")"),
        ("s[", "0", "]"),
        ("range(", "1", ")"),
        ("1 if 1 else ", "1", ""),
        ("s|d(", "1", ")"),
        ("s is eq(", "1", ")"),
    ] {
        exceeds(&format!("{{{{ {}{inner}{} }}}}", repeat(open), repeat(close)));
    }
    for link in [" + 1", ".a", "[0]", "|trim", " and 1", "()", " is odd", " if 1", " ** 1"] {
        let result = render(&format!("{{{{ s{} }}}}", repeat(link)));
        assert!(
            matches!(result, Err(TemplateError::Limit { .. } | TemplateError::Syntax { .. })),
            "{link}: {result:?}"
        );
    }
    for (open, close) in
        [("{% if 1 %}", "{% endif %}"), ("{% for x in [1] %}", "{% endfor %}"), ("{% set x %}", "{% endset %}")]
    {
        exceeds(&format!("{}{}", open.repeat(10_000), close.repeat(10_000)));
    }
    exceeds(&format!("{{% for {}x{} in [] %}}{{% endfor %}}", repeat("("), repeat(")")));
    exceeds(&" ".repeat((1 << 20) + 1));
    assert_eq!(render(&format!("{{{{ '{}' ~ s }}}}", "~".repeat(1000))).unwrap().len(), 1009);
    render(&format!("{{{{ s{} }}}}", " ~ s".repeat(10_000))).unwrap();
    render(&format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(10_000))).unwrap();
}

#[test]
fn nesting_up_to_the_limits_is_evaluated() {
    let parentheses = format!("{{{{ {}s{} }}}}", "(1, ".repeat(55), ")".repeat(55));
    render(&parentheses).unwrap();
    render(&format!("{{{{ 1{} }}}}", " + 1".repeat(190))).unwrap();
    render(&format!("{}{}", "{% if 1 %}".repeat(55), "{% endif %}".repeat(55))).unwrap();
    let recursion = "{% macro m(n) %}{% if n > 0 %}{% for x in [1] %}{{ [m(n - 1)]|join }}{% endfor %}{% endif %}{% endmacro %}{{ m(40) }}";
    assert_eq!(render(recursion).unwrap(), "");
}

#[test]
fn endless_recursion_ends() {
    exceeds("{% set ns = namespace(x='') %}{% for i in range(20000) %}{% set ns.x = joiner(ns.x) %}{% endfor %}");
    exceeds("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    exceeds("{% macro m(x) %}{{ ((((((((((((x ~ m(x))))))))))))) }}{% endmacro %}{{ m(1) }}");
    exceeds("{% macro m() %}{{ caller }}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}");
    exceeds("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
    exceeds(
        "{% macro m() %}{% if 1 %}{% for x in [1] %}{% set y %}{% filter trim %}{{ m() }}{% endfilter %}{% endset %}{% endfor %}{% endif %}{% endmacro %}{{ m() }}",
    );
    exceeds("{% set ns = namespace(x=0) %}{% for i in range(10000) %}{% set ns.x = [ns.x] %}{% endfor %}");
    exceeds("{% set ns = namespace(x={}) %}{% for i in range(10000) %}{% set ns.x = {1: ns.x} %}{% endfor %}");
    exceeds(
        "{% set ns = namespace(x=[1]) %}{% for i in range(10000) %}{% set ns.x = ns.x|reverse|batch(1) %}{% endfor %}",
    );
    exceeds(
        "{% set ns = namespace(x='') %}{% for i in range(10000) %}{% for y in [ns.x] %}{% set ns.x = loop %}{% endfor %}{% endfor %}",
    );
    exceeds("{% set ns = namespace(x='') %}{% for i in range(10000) %}{% set ns.x = cycler(ns.x) %}{% endfor %}");
}

#[test]
fn values_that_refer_to_themselves_are_freed() {
    let source = "{% set ns = namespace(l=0) %}{% for i in range(20000) %}{% for y in [1] %}\
        {% set _ = loop.changed(ns.l) %}{% set ns.l = loop %}{% endfor %}{% endfor %}ok";
    assert_eq!(render(source).unwrap(), "ok");
    let source = "{% set ns = namespace(l=0) %}{% for i in range(20000) %}{% set x = ns.l %}\
        {% for y in [1] recursive %}{% set ns.l = loop %}{% endfor %}{% endfor %}ok";
    assert_eq!(render(source).unwrap(), "ok");
    let source = "{% set ns = namespace() %}{% set ns.ns = ns %}{% for i in range(20000) %}{% set ns.x = namespace(x=ns.x) %}{% endfor %}ok";
    assert_eq!(render(source).unwrap(), "ok");
    let source = "{% set ns = namespace(f=1) %}{% for i in range(20000) %}{% set g = ns.f %}{% macro f() %}{{ g }}{% endmacro %}{% set ns.f = f %}{% endfor %}ok";
    assert_eq!(render(source).unwrap(), "ok");
    assert_eq!(
        render("{% for i in [1] recursive %}{{ loop.changed(loop) }}{% set x = loop %}{% endfor %}").unwrap(),
        "True"
    );
}

#[test]
fn large_values_are_refused() {
    for expression in [
        "'x' * 10**9",
        "'x' * 10**30",
        "[1] * 10**9",
        "(1,) * 10**12",
        "s * (2**62)",
        "'x'.center(10**9)",
        "'x'.ljust(10**12)",
        "'x'.zfill(10**30)",
        "'\\t'.expandtabs(10**9)",
        "s|indent(10**9)",
        "s|center(10**9)",
        "[1]|tojson(indent=10**9)",
        "'%1000000000d' % 1",
        "'%.1000000000f' % 1.5",
        "'%*d' % (10**9, 1)",
        "'{:1000000000}'.format(1)",
        "'{:.1000000000f}'.format(1.5)",
        "range(10**12)",
        "range(-10**30, 10**30)",
        "[1]|batch(10**9, 'x')|list",
        "[1]|slice(10**9)|list",
        "('x' * 10000)|replace('', 'x' * 100000)",
        "('x' * 100000).join(['y'] * 100000)",
        "2 ** 1000",
        "2 ** 10 ** 20",
        "10 ** 38 * 10 ** 38",
        "-(-2 ** 126 - 2 ** 126) + 2 ** 126 + 2**126",
        "1e308 ** 2",
        "170141183460469231731687303715884105728",
        "'{:{}}'.format(1, 10**9)",
        "(['x'] * 100000)|join('y' * 100000)",
        "('a' * 1000000)|list|length",
        "(range(100000)|list * 1000)|length",
        "('a ' * 4000000)|wordwrap(1)|length",
    ] {
        let result = render(&format!("{{{{ {expression} }}}}"));
        let is_refused = matches!(
            result,
            Err(TemplateError::Eval { .. } | TemplateError::Limit { .. } | TemplateError::Syntax { .. })
        );
        assert!(is_refused, "{expression}: {result:?}");
    }
    exceeds("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}");
    exceeds("{% set ns = namespace(x='x') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}");
    exceeds(
        "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    );
    exceeds("{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}");
    exceeds("{% macro m() %}{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}{% endmacro %}{{ m() }}");
}

#[test]
fn odd_arguments_are_errors_or_results() {
    for expression in [
        "'{'.format()",
        "'}'.format()",
        "'{0'.format()",
        "'{0[}'.format(1)",
        "'{:'.format(1)",
        "'{!}'.format(1)",
        "'{:{:{}}}'.format(1, 2, 3)",
        "'%' % 1",
        "'%(' % {}",
        "'%(a' % {}",
        "'%-' % 1",
        "'%.' % 1",
        "'%q' % 1",
        "'a'|int(0, 99)",
        "'a'|int(0, -1)",
        "strftime_now('%')",
        "strftime_now('%Q')",
        "strftime_now('%-')",
        "[1]|slice(0)|list",
        "s|wordwrap(0)",
        "s|wordwrap(-5)",
        "s|truncate(-5)",
        "s[::0]",
        "loop.cycle()",
        "cycler()",
        "s.split('')",
        "1 % 0",
        "1 // 0.0",
        "(-2**127) // -1",
        "0 ** -1",
        "s|center(5, 6)",
        "1|round(0, 'x')",
        "dict([1])",
        "namespace(1)",
        "raise_exception()",
    ] {
        fails(&format!("{{{{ {expression} }}}}"));
    }
    for expression in [
        "s[-10**30:10**30:10**30]",
        "s[10**30]",
        "[1][-10**30]",
        "'a'.center(-10**30)",
        "1234.5|round(-400)",
        "1.5|round(400)",
        "(-2**126)|round(-37)",
        "s|truncate(10**30)",
        "'abc'.find('c', 10**30, -10**30)",
        "[]|batch(10**30)|list",
        "(-2**126 - 2**126)|abs",
        "-7 % -(2**126)",
        "'é'[0:1] ~ '🙂é'[::-1]",
        "'é🙂'.center(9, '🙂')",
        "1e400",
        "nan",
        "'nan'|float",
        "['nan'|float, 1, 'nan'|float]|sort",
        "'inf'|float|int",
        "range(2**62, -2**62, -2**62)|list",
        "range(-2**70, 2**70, 2**69)|length",
        "{'nan'|float: 1}",
    ] {
        let _ = render(&format!("{{{{ {expression} }}}}"));
    }
}

#[test]
fn nested_variables_are_refused() {
    let nested = (0..500).fold(json!(1), |inner, _| Json::Array(vec![inner]));
    let variables = vec![("x".to_owned(), Value::from_json(&nested))];
    let result = Template::parse("{{ x }}").unwrap().render(variables, &RenderLimits::default());
    assert!(matches!(result, Err(TemplateError::Limit { .. })), "{result:?}");
}

#[test]
fn errors_name_the_line_and_the_reason() {
    let message = |source: &str| render(source).unwrap_err().to_string();
    assert_eq!(message("a\n{{ b.c.d }}"), "the chat template failed: line 2: `b` is undefined");
    assert_eq!(message("\n\n{% if %}"), "the chat template is malformed: line 3: expected an expression, found `%}`");
    assert_eq!(message("{{ raise_exception('no ' ~ s) }}"), "the chat template refuses the conversation: no some text");
    assert_eq!(
        message("{% for x in range(9999) %}{% for y in range(9999) %}{% endfor %}{% endfor %}"),
        "the chat template exceeds a limit: it takes more than 3000000 steps"
    );
    assert_eq!(
        message("{{ 1 }}\n{{ 'a' + 1 }}"),
        "the chat template failed: line 2: `+` does not apply to values of types `str` and `int`"
    );
}
