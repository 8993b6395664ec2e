//! Publishing rules and version resolution.

use crate::common::{Made, add, by, key, name, registry, root};
use gymkhana_registry::{
    Capability, Check, CheckOutcome, ContractStamp, Digest, FolderError, IndexRow, LockEntry, ParseRequirementError,
    RegistryFolder, Report, Requirement, ResolveError, RuleViolation, SUITE, check_release, choose, without_consent,
};

fn refusal(registry: &RegistryFolder, made: &Made) -> RuleViolation {
    match add(registry, made).expect_err("a violated rule") {
        FolderError::Rule(refusal) => *refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn version_is_published_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("a first version");
    let again = refusal(&registry, &Made { padding: 9, ..Made::version("1.0.0") });
    assert!(matches!(again, RuleViolation::Exists { .. }), "{again}");
    // A requirement cannot distinguish build metadata.
    assert!(matches!(refusal(&registry, &Made::version("1.0.0+other")), RuleViolation::Exists { .. }));
    add(&registry, &Made::version("1.0.1")).expect("the next");
    registry.yank(&name("acme/adder"), &"1.0.1".parse().expect("a version"), true, by(&root())).expect("yanked");
    assert!(
        matches!(refusal(&registry, &Made::version("1.0.1")), RuleViolation::Exists { .. }),
        "a yanked version stays taken"
    );
}

#[test]
fn a_quick_build_is_not_published() {
    let mut release = Made::version("1.0.0").release();
    assert_eq!(check_release(&release, &[], [].iter()), Ok(()));
    release.manifest.quick = true;
    let refusal = check_release(&release, &[], [].iter()).expect_err("a quick build");
    assert_eq!(refusal, RuleViolation::Quick(name("acme/adder")));
}

#[test]
fn version_increments_follow_semver() {
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
        let RuleViolation::Bump(bump) = &refusal else { panic!("{refusal}") };
        assert_eq!(bump.proposed.to_string(), allowed, "{refusal}");
        add(&registry, &made(allowed)).expect(allowed);
    }
}

/// A pre-release between two releases does not relax the version rule.
#[test]
fn pre_release_does_not_relax_the_version_rule() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let wider = |version| Made { capabilities: &["http", "log"], ..Made::version(version) };
    add(&registry, &Made::version("1.0.0")).expect("a first version");
    add(&registry, &wider("1.0.1-rc.1")).expect_err("a pre-release of a patch");
    add(&registry, &Made::version("1.0.1-rc.1")).expect("a pre-release");
    let refused = refusal(&registry, &wider("1.0.1"));
    assert!(matches!(refused, RuleViolation::Bump(_)), "{refused}");
    add(&registry, &Made::version("1.0.1")).expect("the same as the pre-release");
    add(&registry, &wider("1.1.0-rc.1")).expect("a pre-release of a minor version");
    add(&registry, &wider("1.1.0")).expect("a minor version");
}

#[test]
fn confusable_names_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let (registry, root) = (registry(&folder.path().join("r")), root());
    add(&registry, &Made::of("acme/calculator", "1.0.0")).expect("added");
    let granted = |text: &str| registry.grant(&text.parse().expect("a namespace"), key(3).public(), by(&root));
    assert!(matches!(granted("acme"), Err(FolderError::Granted(_))));
    granted("others").expect("another name");
    assert!(matches!(granted("otters"), Err(FolderError::Confusable { .. })));
    let publish = |made: &Made| {
        let file = made.release().sign(Some(&key(3))).expect("JSON");
        crate::common::add_file(&registry, &file, &made.component(), by(&root))
    };
    let error = publish(&Made::of("others/calculater", "1.0.0")).expect_err("a confusable name");
    let FolderError::Rule(violation) = error else { panic!("{error}") };
    let is_confusable =
        matches!(&*violation, RuleViolation::Confusable { other, .. } if *other == name("acme/calculator"));
    assert!(is_confusable, "{violation}");
    publish(&Made::of("others/calculator", "1.0.0")).expect("the same name in another namespace");
    // Publishing requires a key of the namespace.
    let error = publish(&Made::of("acme/multiplier", "1.0.0")).expect_err("another's namespace");
    assert!(matches!(error, FolderError::NotAKey { .. }), "{error}");
}

fn refused(made: &Made, change: &dyn Fn(&mut Report)) -> RuleViolation {
    let mut release = made.release();
    change(release.report.as_mut().expect("a report"));
    check_release(&release, &[], [].iter()).expect_err("a bad report")
}

fn outcome<'a>(report: &'a mut Report, name: &str) -> &'a mut CheckOutcome {
    let check = report.checks.iter_mut().find(|check| check.name == name);
    &mut check.unwrap_or_else(|| panic!("no check `{name}`")).outcome
}

#[test]
fn report_must_match_the_component() {
    let made = Made::version("1.0.0");
    assert_eq!(check_release(&made.release(), &[], [].iter()), Ok(()));
    let refused = |change: &dyn Fn(&mut Report)| refused(&made, change);
    let failed = refused(&|report| *outcome(report, "fuzz") = CheckOutcome::Failed("2 is above 1".to_owned()));
    assert_eq!(failed, RuleViolation::Failed(vec!["fuzz: 2 is above 1".to_owned()]));
    assert!(matches!(refused(&|report| report.digest = Digest::of(b"")), RuleViolation::InvalidReport(_)));
    assert!(matches!(refused(&|report| report.suite = SUITE - 1), RuleViolation::InvalidReport(_)));
    assert!(matches!(refused(&|report| report.schema = 9), RuleViolation::InvalidReport(_)));
    assert!(matches!(refused(&|report| report.contract.digest = Digest::of(b"")), RuleViolation::InvalidReport(_)));
    let mut without = made.release();
    without.report = None;
    assert!(matches!(check_release(&without, &[], [].iter()), Err(RuleViolation::NoReport { .. })));
    // A later suite may have more checks.
    let mut later = made.release();
    let report = later.report.as_mut().expect("a report");
    report.suite = SUITE + 1;
    let outcome = CheckOutcome::Passed("well".to_owned());
    report.checks.push(Check { name: "new".to_owned(), outcome, same_cause_as: None });
    assert_eq!(check_release(&later, &[], [].iter()), Ok(()));
}

#[test]
fn report_must_contain_every_check_once() {
    let made = Made::version("1.0.0");
    let checks: Vec<String> = made.report().checks.into_iter().map(|check| check.name).collect();
    assert_eq!(checks.len(), 19);
    for name in &checks {
        let lacking = refused(&made, &|report| report.checks.retain(|check| check.name != *name));
        assert_eq!(lacking, RuleViolation::InvalidReport(format!("lacks the check `{name}`")));
    }
    let twice = refused(&made, &|report| report.checks.push(report.checks[0].clone()));
    assert_eq!(twice, RuleViolation::InvalidReport("contains the check `capabilities` twice".to_owned()));
}

/// Checks may be skipped only if they do not apply to the plugin.
#[test]
fn required_check_cannot_be_skipped() {
    let tool = Made::version("1.0.0");
    let reward = Made { exports: &["reward"], ..tool.clone() };
    let world = Made { exports: &["environment"], ..tool.clone() };
    let saved = Made { exports: &["tool", "tool-snapshot"], ..tool.clone() };
    let expert = Made { exports: &["environment", "environment-oracle", "environment-state-key"], ..tool.clone() };
    let always = ["capabilities", "loads", "describes-itself", "options", "cost", "option-limits"];
    let interactive = ["same-seed-same-bytes", "invalid-actions", "isolation", "fuzz"];
    let scored = ["scores", "same-episodes-same-scores"];
    for (made, needed) in [
        (&tool, [&interactive[..], &["parameters"]].concat()),
        (&reward, scored.to_vec()),
        (&world, [&interactive[..], &["splits-and-tasks"]].concat()),
        (&saved, [&interactive[..], &["parameters", "snapshots", "bad-snapshots", "read-only"]].concat()),
        (&expert, [&interactive[..], &["splits-and-tasks", "oracle", "state-keys", "read-only"]].concat()),
    ] {
        for check in made.report().checks {
            let mut release = made.release();
            let skipped = outcome(release.report.as_mut().expect("a report"), &check.name);
            *skipped = CheckOutcome::Skipped("not applicable".to_owned());
            let refused = matches!(check_release(&release, &[], [].iter()), Err(RuleViolation::Skipped { .. }));
            let name = check.name.as_str();
            assert_eq!(refused, always.contains(&name) || needed.contains(&name), "{:?}: {name}", made.exports);
        }
    }
}

#[test]
fn report_settings_are_bounded() {
    let made = Made::version("1.0.0");
    for (change, words) in [
        (
            &(|report: &mut Report| report.steps = 0) as &dyn Fn(&mut Report),
            "records 0 calls, but at least 1000 are required",
        ),
        (&|report| report.steps = 999, "records 999 calls, but at least 1000 are required"),
        (&|report| report.actions = 999, "was made with 999 actions, but 1000 are required"),
        (&|report| report.most_fuel = 0, "allows 0 instructions per call"),
        (&|report| report.most_fuel = u64::MAX, "allows 18446744073709551615 instructions per call"),
        (&|report| report.most_memory = u64::MAX, "allows 18446744073709551615 bytes of memory"),
    ] {
        let refused = refused(&made, change);
        assert!(refused.to_string().contains(words), "{refused}");
    }
    // Scoring a reward needs fewer calls than driving an environment.
    let mut reward = Made { exports: &["reward"], ..made.clone() }.release();
    reward.report.as_mut().expect("a report").steps = 12;
    assert_eq!(check_release(&reward, &[], [].iter()), Ok(()));
    let mut patient = made.release();
    let report = patient.report.as_mut().expect("a report");
    (report.most_fuel, report.most_memory) = (30_000_000_000, 2 << 30);
    assert_eq!(check_release(&patient, &[], [].iter()), Ok(()));
}

fn row(version: &'static str) -> IndexRow {
    let made = Made::version(version);
    IndexRow::new(&made.release(), made.signed(), None)
}

fn chosen(rows: &[IndexRow], wanted: &str, locked: Option<&LockEntry>) -> Result<String, ResolveError> {
    let wanted = wanted.parse().expect("a requirement");
    Ok(choose(rows, &wanted, locked, &ContractStamp::of_this_host())?.version.to_string())
}

#[test]
fn newest_match_is_chosen_unless_another_is_locked() {
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
    assert_eq!(chosen(&rows, "^2", Some(&locked)).expect("the lock does not match"), "2.0.0");
    let changed = LockEntry { digest: Digest::of(b""), ..locked };
    assert!(matches!(chosen(&rows, "^1", Some(&changed)), Err(ResolveError::Changed { .. })));
    let error = chosen(&rows, "^3", None).expect_err("none");
    let ResolveError::NoVersion { known, .. } = &error else { panic!("{error}") };
    assert_eq!(
        known.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["2.0.0", "2.0.0-rc.1", "1.10.0", "1.2.0", "1.0.0"]
    );
}

#[test]
fn yanked_version_is_used_only_if_locked() {
    let mut rows = ["1.0.0", "1.1.0"].map(row);
    rows[1].yanked = true;
    assert_eq!(chosen(&rows, "^1", None).expect("one is left"), "1.0.0");
    assert_eq!(chosen(&rows, "^1", Some(&rows[1].pin())).expect("locked"), "1.1.0");
    rows[0].yanked = true;
    assert!(matches!(chosen(&rows, "^1", None), Err(ResolveError::Yanked { .. })));
}

#[test]
fn incompatible_versions_are_skipped() {
    let mut rows = ["1.0.0", "1.1.0"].map(row);
    rows[1].contract.digest = Digest::of(b"another text");
    assert_eq!(chosen(&rows, "^1", None).expect("an older one"), "1.0.0");
    let error = chosen(&rows, "^1.1", None).expect_err("none for this host");
    assert!(matches!(error, ResolveError::OtherContract { .. }), "{error}");
    // A lock entry for another contract is ignored.
    assert_eq!(chosen(&rows, "^1", Some(&rows[1].pin())).expect("an older one"), "1.0.0");
}

#[test]
fn requirements_are_parsed() {
    for (text, shown) in [("acme/adder@^1", "acme/adder@^1"), ("adder@1.2", "adder@^1.2"), ("adder", "adder@*")] {
        assert_eq!(text.parse::<Requirement>().expect(text).to_string(), shown);
    }
    for text in ["", "@^1", "acme/../adder", "Acme/adder", "a/b/c@1"] {
        assert!(matches!(text.parse::<Requirement>(), Err(ParseRequirementError::Name(_))), "{text}");
    }
    for text in ["acme/adder@", "acme/adder@new"] {
        assert!(matches!(text.parse::<Requirement>(), Err(ParseRequirementError::Versions { .. })), "{text}");
    }
}

#[test]
fn free_capabilities_need_no_consent() {
    let asked = [Capability::Log, Capability::Clock, Capability::Http, Capability::Model];
    assert_eq!(without_consent(&asked, &[]), [Capability::Http, Capability::Model]);
    assert_eq!(without_consent(&asked, &[Capability::Http]), [Capability::Model]);
    assert_eq!(without_consent(&asked[..2], &[]), []);
}
