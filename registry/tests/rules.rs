//! What may be published and which version is meant.

mod common;

use common::{Made, add, by, key, name, registry, root};
use gymkhana_registry::{
    Capability, Check, ContractStamp, Digest, FolderError, LockEntry, Outcome, Refusal, RegistryFolder, Report, Row,
    SUITE, Unresolved, Wanted, check_release, choose, without_consent,
};

fn refusal(registry: &RegistryFolder, made: &Made) -> Refusal {
    match add(registry, made).expect_err("a rule is broken") {
        FolderError::Refused(refusal) => *refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn a_version_is_published_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("a first version");
    let again = refusal(&registry, &Made { padding: 9, ..Made::version("1.0.0") });
    assert!(matches!(again, Refusal::Exists { .. }), "{again}");
    // Nobody could ask for the one and not the other.
    assert!(matches!(refusal(&registry, &Made::version("1.0.0+other")), Refusal::Exists { .. }));
    add(&registry, &Made::version("1.0.1")).expect("the next");
    registry.yank(&name("acme/adder"), &"1.0.1".parse().expect("a version"), true, by(&root())).expect("yanked");
    assert!(matches!(refusal(&registry, &Made::version("1.0.1")), Refusal::Exists { .. }), "a yank frees no number");
}

#[test]
fn a_number_promises_what_semver_says() {
    let other_contract = Digest::of(b"another text").to_string();
    let wider = |version| Made { capabilities: &["http", "log"], ..Made::version(version) };
    let more = |version| Made { exports: &["tool", "tool-snapshot"], ..Made::version(version) };
    let less = |version| Made { exports: &["reward"], ..Made::version(version) };
    let moved = |version| Made { contract: other_contract.clone(), ..Made::version(version) };
    for (before, made, refused, allowed) in [
        ("1.2.0", &wider as &dyn Fn(&'static str) -> Made, "1.2.1", "1.3.0"),
        ("1.2.0", &more, "1.2.1", "1.3.0"),
        ("1.2.0", &moved, "1.2.1", "1.3.0"),
        ("1.2.0", &less, "1.3.0", "2.0.0"),
        ("0.2.0", &wider, "0.2.1", "0.3.0"),
        ("0.2.0", &less, "0.2.1", "0.3.0"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = registry(&folder.path().join("r"));
        add(&registry, &Made::version(before)).expect("a first version");
        let refusal = refusal(&registry, &made(refused));
        assert!(matches!(refusal, Refusal::Step(_)), "{refusal}");
        assert!(refusal.to_string().contains(&format!("make it {allowed}")), "{refusal}");
        add(&registry, &made(allowed)).expect(allowed);
    }
}

/// What comes after a candidate comes after the last release, too: a candidate in between frees nobody.
#[test]
fn a_candidate_widens_no_patch() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let wider = |version| Made { capabilities: &["http", "log"], ..Made::version(version) };
    add(&registry, &Made::version("1.0.0")).expect("a first version");
    add(&registry, &wider("1.0.1-rc.1")).expect_err("a candidate of a patch is a patch");
    add(&registry, &Made::version("1.0.1-rc.1")).expect("a candidate");
    let refused = refusal(&registry, &wider("1.0.1"));
    assert!(matches!(refused, Refusal::Step(_)), "{refused}");
    add(&registry, &Made::version("1.0.1")).expect("what the candidate was");
    add(&registry, &wider("1.1.0-rc.1")).expect("a candidate of more");
    add(&registry, &wider("1.1.0")).expect("more");
}

#[test]
fn a_name_is_nobody_elses_or_far_from_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (registry, root) = (registry(&folder.path().join("r")), root());
    add(&registry, &Made::of("acme/calculator", "1.0.0")).expect("added");
    let granted = |text: &str| registry.grant(&text.parse().expect("a namespace"), key(3).public(), by(&root));
    assert!(matches!(granted("acme"), Err(FolderError::Granted(_))));
    granted("others").expect("another name");
    assert!(matches!(granted("otters"), Err(FolderError::Close { .. })));
    let publish = |made: &Made| {
        let file = made.release().sign(Some(&key(3))).expect("JSON");
        common::add_file(&registry, &file, &made.component(), by(&root))
    };
    let error = publish(&Made::of("others/calculater", "1.0.0")).expect_err("too close");
    assert!(error.to_string().contains("too like `acme/calculator`"), "{error}");
    publish(&Made::of("others/calculator", "1.0.0")).expect("the same name in another namespace");
    // Only its own keys publish in a namespace.
    let error = publish(&Made::of("acme/multiplier", "1.0.0")).expect_err("another's namespace");
    assert!(matches!(error, FolderError::NotAKey { .. }), "{error}");
}

fn refused(made: &Made, change: &dyn Fn(&mut Report)) -> Refusal {
    let mut release = made.release();
    change(release.report.as_mut().expect("a report"));
    check_release(&release, &[], [].iter()).expect_err("a bad report")
}

fn outcome<'a>(report: &'a mut Report, name: &str) -> &'a mut Outcome {
    let check = report.checks.iter_mut().find(|check| check.name == name);
    &mut check.unwrap_or_else(|| panic!("no check `{name}`")).outcome
}

#[test]
fn the_suite_must_have_passed_on_this_very_component() {
    let made = Made::version("1.0.0");
    assert_eq!(check_release(&made.release(), &[], [].iter()), Ok(()));
    let refused = |change: &dyn Fn(&mut Report)| refused(&made, change);
    let failed = refused(&|report| *outcome(report, "fuzz") = Outcome::Failed("2 is above 1".to_owned()));
    assert!(failed.to_string().contains("fuzz: 2 is above 1"), "{failed}");
    assert!(matches!(refused(&|report| report.digest = Digest::of(b"")), Refusal::OtherReport(_)));
    assert!(matches!(refused(&|report| report.suite = SUITE - 1), Refusal::OtherReport(_)));
    assert!(matches!(refused(&|report| report.schema = 9), Refusal::OtherReport(_)));
    assert!(matches!(refused(&|report| report.contract.digest = Digest::of(b"")), Refusal::OtherReport(_)));
    let mut without = made.release();
    without.report = None;
    assert!(matches!(check_release(&without, &[], [].iter()), Err(Refusal::NoReport { .. })));
    // A later suite may know more.
    let mut later = made.release();
    let report = later.report.as_mut().expect("a report");
    report.suite = SUITE + 1;
    report.checks.push(Check { name: "new".to_owned(), outcome: Outcome::Passed("well".to_owned()) });
    assert_eq!(check_release(&later, &[], [].iter()), Ok(()));
}

#[test]
fn a_report_lacks_no_check_of_the_suite() {
    let made = Made::version("1.0.0");
    let checks: Vec<String> = made.report().checks.into_iter().map(|check| check.name).collect();
    assert_eq!(checks.len(), 18);
    for name in &checks {
        let lacking = refused(&made, &|report| report.checks.retain(|check| check.name != *name));
        assert!(lacking.to_string().contains(&format!("lacks the check `{name}`")), "{lacking}");
    }
    let twice = refused(&made, &|report| report.checks.push(report.checks[0].clone()));
    assert!(twice.to_string().contains("has the check `capabilities` twice"), "{twice}");
}

/// What a plugin does not have need not be looked at, and what it has must be.
#[test]
fn a_needed_check_is_not_skipped() {
    let tool = Made::version("1.0.0");
    let reward = Made { exports: &["reward"], ..tool.clone() };
    let world = Made { exports: &["environment"], ..tool.clone() };
    let saved = Made { exports: &["tool", "tool-snapshot"], ..tool.clone() };
    let expert = Made { exports: &["environment", "environment-oracle", "environment-state-key"], ..tool.clone() };
    let always = ["capabilities", "loads", "describes-itself", "options", "cost"];
    let played = ["same-seed-same-bytes", "invalid-actions", "apart", "fuzz"];
    let scored = ["scores", "same-episodes-same-scores"];
    for (made, needed) in [
        (&tool, [&played[..], &["parameters"]].concat()),
        (&reward, scored.to_vec()),
        (&world, [&played[..], &["splits-and-tasks"]].concat()),
        (&saved, [&played[..], &["parameters", "snapshots", "bad-snapshots", "looking"]].concat()),
        (&expert, [&played[..], &["splits-and-tasks", "oracle", "state-keys", "looking"]].concat()),
    ] {
        for check in made.report().checks {
            let mut release = made.release();
            let skipped = outcome(release.report.as_mut().expect("a report"), &check.name);
            *skipped = Outcome::Skipped("nothing to play".to_owned());
            let refused = matches!(check_release(&release, &[], [].iter()), Err(Refusal::Skipped { .. }));
            let name = check.name.as_str();
            assert_eq!(refused, always.contains(&name) || needed.contains(&name), "{:?}: {name}", made.exports);
        }
    }
}

#[test]
fn a_report_is_made_with_enough_and_lets_no_more_pass_than_a_run_allows() {
    let made = Made::version("1.0.0");
    for (change, words) in [
        (&(|report: &mut Report| report.steps = 0) as &dyn Fn(&mut Report), "tells of 0 calls"),
        (&|report| report.steps = 999, "tells of 999 calls"),
        (&|report| report.actions = 999, "was made with 999 actions, and 1000 are wanted"),
        (&|report| report.most_fuel = 0, "lets 0 instructions"),
        (&|report| report.most_fuel = u64::MAX, "instructions of a call pass"),
        (&|report| report.most_memory = u64::MAX, "bytes of memory pass"),
    ] {
        let refused = refused(&made, change);
        assert!(refused.to_string().contains(words), "{refused}");
    }
    // A reward is scored, which takes fewer calls than playing.
    let mut reward = Made { exports: &["reward"], ..made.clone() }.release();
    reward.report.as_mut().expect("a report").steps = 12;
    assert_eq!(check_release(&reward, &[], [].iter()), Ok(()));
    let mut patient = made.release();
    let report = patient.report.as_mut().expect("a report");
    (report.most_fuel, report.most_memory) = (30_000_000_000, 2 << 30);
    assert_eq!(check_release(&patient, &[], [].iter()), Ok(()));
}

fn row(version: &'static str) -> Row {
    let made = Made::version(version);
    Row::new(&made.release(), &made.signed(), None)
}

fn chosen(rows: &[Row], wanted: &str, locked: Option<&LockEntry>) -> Result<String, Unresolved> {
    let wanted = wanted.parse().expect("a requirement");
    Ok(choose(rows, &wanted, locked, &ContractStamp::of_this_host())?.version.to_string())
}

#[test]
fn the_newest_that_fits_is_chosen_unless_another_is_locked() {
    let rows = ["0.9.0", "1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1", "2.0.0"].map(row);
    for (wanted, version) in [
        ("*", "2.0.0"),
        ("^1", "1.10.0"),
        ("~1.2", "1.2.0"),
        ("=1.0.0", "1.0.0"),
        ("<1", "0.9.0"),
        ("=2.0.0-rc.1", "2.0.0-rc.1"),
    ] {
        assert_eq!(chosen(&rows, wanted, None).expect(wanted), version);
    }
    let locked = rows[2].pin();
    assert_eq!(chosen(&rows, "^1", Some(&locked)).expect("locked"), "1.2.0");
    assert_eq!(chosen(&rows, "^2", Some(&locked)).expect("the lock does not fit"), "2.0.0");
    let changed = LockEntry { digest: Digest::of(b""), ..locked };
    assert!(matches!(chosen(&rows, "^1", Some(&changed)), Err(Unresolved::Changed { .. })));
    let error = chosen(&rows, "^3", None).expect_err("none");
    assert!(error.to_string().contains("there are 2.0.0, 2.0.0-rc.1, 1.10.0"), "{error}");
}

#[test]
fn what_was_yanked_is_used_by_its_lock_alone() {
    let mut rows = ["1.0.0", "1.1.0"].map(row);
    rows[1].yanked = true;
    assert_eq!(chosen(&rows, "^1", None).expect("one is left"), "1.0.0");
    assert_eq!(chosen(&rows, "^1", Some(&rows[1].pin())).expect("locked"), "1.1.0");
    rows[0].yanked = true;
    assert!(matches!(chosen(&rows, "^1", None), Err(Unresolved::Yanked { .. })));
}

#[test]
fn what_this_host_cannot_run_is_passed_over() {
    let mut rows = ["1.0.0", "1.1.0"].map(row);
    rows[1].contract.digest = Digest::of(b"another text");
    assert_eq!(chosen(&rows, "^1", None).expect("an older one"), "1.0.0");
    let error = chosen(&rows, "^1.1", None).expect_err("none for this host");
    assert!(matches!(error, Unresolved::OtherContract { .. }), "{error}");
    // A lock of another host's does not bind this one to what it cannot run.
    assert_eq!(chosen(&rows, "^1", Some(&rows[1].pin())).expect("an older one"), "1.0.0");
}

#[test]
fn plugins_are_asked_for_by_name_and_versions() {
    for (text, shown) in [("acme/adder@^1", "acme/adder@^1"), ("adder@1.2", "adder@^1.2"), ("adder", "adder@*")] {
        assert_eq!(text.parse::<Wanted>().expect(text).to_string(), shown);
    }
    for text in ["", "@^1", "acme/adder@", "acme/adder@new", "acme/../adder", "Acme/adder", "a/b/c@1"] {
        assert!(text.parse::<Wanted>().is_err(), "{text}");
    }
}

#[test]
fn what_is_free_needs_no_consent() {
    let asked = [Capability::Log, Capability::Clock, Capability::Http, Capability::Model];
    assert_eq!(without_consent(&asked, &[]), [Capability::Http, Capability::Model]);
    assert_eq!(without_consent(&asked, &[Capability::Http]), [Capability::Model]);
    assert_eq!(without_consent(&asked[..2], &[]), []);
}
