//! Limits on the structure of components: attacks by expansion and by counts, each with a twin that is accepted.

use gymkhana_registry::{ComponentError, Quantity, Structure, structure};

fn read(text: &str) -> Result<Structure, ComponentError> {
    structure(&wat::parse_str(text).expect("sound text"))
}

/// The quantity above its limit, and its value.
fn refused(result: Result<Structure, ComponentError>) -> (Quantity, u64) {
    match result {
        Err(ComponentError::TooComplex { quantity, value, limit }) => {
            assert_eq!(limit, quantity.limit());
            (quantity, value)
        }
        other => panic!("{other:?}"),
    }
}

/// Components that instantiate the one inside of them `width` times, over `levels` levels around `innermost`.
fn nested(levels: u32, width: usize, innermost: &str) -> String {
    (0..levels).fold(format!("(component {innermost})"), |inner, _| {
        let inner = inner.replacen("(component", "(component $inner", 1);
        format!("(component {inner} {})", "(instance (instantiate $inner))".repeat(width))
    })
}

/// `width + width^2 + … + width^levels`, in all of which `more` further instances are.
fn expanded(levels: u32, width: u64, more: u64) -> u64 {
    (1..=levels).map(|level| width.pow(level)).sum::<u64>() + width.pow(levels) * more
}

#[test]
fn nested_instantiations_are_counted_without_expanding_them() {
    let bomb = nested(5, 100, "");
    assert_eq!(refused(read(&bomb)), (Quantity::Instances, expanded(5, 100, 0)));
    // The count exceeds 64 bits.
    assert_eq!(refused(read(&nested(9, 200, ""))), (Quantity::Instances, u64::MAX));
    let small = read(&nested(3, 9, "")).expect("9 + 81 + 729 instances");
    assert_eq!(small.value(Quantity::Instances), 819);
    assert_eq!(read(&nested(1, 1_000, "")).expect("at the limit").value(Quantity::Instances), 1_000);
    assert_eq!(refused(read(&nested(1, 1_001, ""))), (Quantity::Instances, 1_001));
}

#[test]
fn core_instances_are_counted_where_their_component_is_instantiated() {
    let module = "(core module $m (memory 2) (table 3 funcref)) (core instance (instantiate $m))";
    assert_eq!(refused(read(&nested(4, 100, module))), (Quantity::Instances, expanded(4, 100, 1)));
    let small = read(&nested(2, 10, module)).expect("10 + 100 component instances with 100 core instances");
    assert_eq!(small.value(Quantity::Instances), 210);
    assert_eq!(small.value(Quantity::TableElements), 300);
    assert_eq!(small.initial_memory, 100 * 2 * 65_536);
    assert_eq!(small.value(Quantity::Tables), 1, "one is written");
}

#[test]
fn definitions_are_expanded_as_well() {
    let aliases = "(import \"f\" (func $f)) (export \"g\" (func $f))".to_owned();
    let inner = format!("(component $c {aliases})");
    let with = |width: usize| {
        format!(
            "(component (import \"h\" (func $h)) {inner} {})",
            "(instance (instantiate $c (with \"f\" (func $h))))".repeat(width)
        )
    };
    let one = read(&with(1)).expect("small").value(Quantity::Definitions);
    let two = read(&with(2)).expect("small").value(Quantity::Definitions);
    // A type, an import, an export, the instance and its argument, for each instance.
    assert_eq!(two - one, 5);
}

#[test]
fn aliases_do_not_take_memory_before_they_are_counted() {
    let aliases = |count: usize| {
        read(&format!("(component $o (component $c) {})", "(alias outer $o $c (component))".repeat(count)))
    };
    assert_eq!(refused(aliases(40_000)).0, Quantity::Definitions);
    aliases(39_999).expect("below the limit");
}

#[test]
fn nesting_is_bounded() {
    let deep = |levels| nested(levels, 0, "");
    read(&deep(9)).expect("10 components, one in the other");
    assert_eq!(refused(read(&deep(10))), (Quantity::Nesting, 11));
    let (quantity, _) = refused(read(&deep(60)));
    assert_eq!(quantity, Quantity::Nesting);
}

#[test]
fn what_is_defined_outside_is_not_instantiated() {
    let instantiated = "(instance (instantiate $c))";
    for defined_elsewhere in [
        format!("(import \"c\" (component $c)) {instantiated}"),
        format!(
            "(import \"i\" (instance $i (export \"c\" (component)))) (alias export $i \"c\" (component $c)) {instantiated}"
        ),
        "(import \"m\" (core module $m)) (core instance (instantiate $m))".to_owned(),
    ] {
        let result = read(&format!("(component {defined_elsewhere})"));
        assert!(matches!(result, Err(ComponentError::OutsideDefinition)), "{defined_elsewhere}: {result:?}");
    }
    read("(component (import \"c\" (component)))").expect("an import that is not instantiated");
    // A definition of an enclosing component is known, and so is one under a second name.
    let outer = "(component $o (component $c (component $e) (instance (instantiate $e)))
        (component $d (alias outer $o $c (component $again)) (instance (instantiate $again)))
        (instance (instantiate $d)) (export $x \"c\" (component $c)) (instance (instantiate $x)))";
    assert_eq!(read(outer).expect("all parts are inside").value(Quantity::Instances), 3 + 2);
}

/// An unsigned number as WebAssembly encodes it.
fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = vec![];
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

/// A component with one module of functions that have only locals.
fn with_locals(functions: usize, locals: usize) -> Vec<u8> {
    let body = [&[1][..], &leb(locals), &[0x7f, 0x0b]].concat();
    let body = [leb(body.len()), body].concat();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 0, 0]),
        section(3, &[leb(functions), vec![0; functions]].concat()),
        section(10, &[leb(functions), body.repeat(functions)].concat()),
    ];
    [b"\0asm\x0d\0\x01\0".to_vec(), section(1, &module.concat())].concat()
}

#[test]
fn locals_are_bounded_for_each_function_and_for_all() {
    let attack = with_locals(5_000, 50_000);
    assert!(attack.len() < 50_000, "{} bytes", attack.len());
    assert_eq!(refused(structure(&attack)), (Quantity::FunctionLocals, 50_000));
    assert_eq!(refused(structure(&with_locals(5_000, 5_000))), (Quantity::Locals, 25_000_000));
    let accepted = structure(&with_locals(120, 5_000)).expect("at both limits");
    assert_eq!(accepted.value(Quantity::Locals), 600_000);
    assert_eq!(refused(structure(&with_locals(121, 5_000))), (Quantity::Locals, 605_000));
}

#[test]
fn functions_are_bounded() {
    structure(&with_locals(150_000, 1)).expect("at the limit");
    assert_eq!(refused(structure(&with_locals(150_001, 1))), (Quantity::Functions, 150_001));
}

#[test]
fn tables_are_bounded_over_all_instances() {
    let with = |elements, instances| {
        let module = format!("(core module $m (table {elements} funcref))");
        read(&format!("(component {module} {})", "(core instance (instantiate $m))".repeat(instances)))
    };
    with(1_000, 80).expect("at the limit");
    assert_eq!(refused(with(1_000, 81)), (Quantity::TableElements, 81_000));
    assert_eq!(refused(with(4_000_000_000_u32, 1)), (Quantity::TableElements, 4_000_000_000));
    let tables = |count| read(&format!("(component (core module {}))", "(table 0 funcref)".repeat(count)));
    tables(20).expect("at the limit");
    assert_eq!(refused(tables(21)), (Quantity::Tables, 21));
}

#[test]
fn segments_types_and_module_items_are_bounded() {
    let module = |items: &str, count| read(&format!("(component (core module {}))", items.repeat(count)));
    for (items, quantity, limit) in [
        ("(elem func)", Quantity::ElementSegments, 100),
        ("(data \"\")", Quantity::DataSegments, 100_000),
        ("(global i32 (i32.const 0))", Quantity::ModuleItems, 100_000),
        ("(type (func))", Quantity::Types, 15_000),
    ] {
        let at_limit = module(items, limit).expect("at the limit").value(quantity);
        assert_eq!(at_limit, limit as u64, "{quantity}");
        assert_eq!(refused(module(items, limit + 1)), (quantity, limit as u64 + 1));
    }
}

#[test]
fn a_refusal_names_the_limit_and_the_value() {
    let error = read(&nested(5, 100, "")).expect_err("a bomb").to_string();
    assert!(error.contains("instances: 10101010100 of at most 1000"), "{error}");
    assert!(error.lines().count() == 2 && error.contains("\nhint: "), "{error}");
}

/// A number with a comma between thousands.
fn with_commas(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).expect("digits")).collect();
    groups.join(",")
}

#[test]
fn the_documented_limits_are_those_of_the_code() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/contract.md");
    let page = std::fs::read_to_string(page).expect("the page of the contract");
    for quantity in Quantity::ALL {
        let row = page.lines().find(|line| {
            let rest = line.strip_prefix(&format!("| {quantity}"));
            rest.is_some_and(|rest| rest.starts_with(" |") || rest.starts_with(',') || rest.starts_with(" ("))
        });
        let row = row.unwrap_or_else(|| panic!("{quantity} is missing"));
        let limit = row.split('|').nth(2).map(str::trim);
        assert_eq!(limit, Some(with_commas(quantity.limit()).as_str()), "{quantity}");
    }
}
