//! Cycles between the modules of a crate, found by the paths in their source.
//!
//! A module uses another if a path that begins with `crate`, `self` or `super` leads into it, also through re-exports.
//! Left out are paths between a module and those inside of it, code of tests, and calls of methods, which name no module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{report, source};
use crate::step::step;
use crate::workspace::Workspace;

/// A cycle that stays: folder of the crate, modules, reason.
type Deliberate = (&'static str, &'static [&'static str], &'static str);

/// Cycles that stay. The decision on them is docs/explanation/decisions/084-modules-without-cycles.md.
const DELIBERATE: [Deliberate; 1] = [(
    "plugins/rewards/math-verify",
    &["lexer", "words"],
    "two halves of one table: the lexer owns the tokens and looks names up, the other file maps names to tokens",
)];

/// A module by the names that lead to it from the root of its crate.
type Module = Vec<String>;

/// Modules and those that each one uses.
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Fails on a cycle that is not deliberate, and on a deliberate one that has gone.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("module cycles", || {
        let mut found = Vec::new();
        for package in &workspace.packages {
            let folder = workspace.root.join(&package.folder).join("src");
            for root in roots(&folder)? {
                found.extend(cycles(&graph(&root)?).into_iter().map(|cycle| (package.folder.clone(), cycle)));
            }
        }
        let hint = "move what both sides use into a module below both, or name the cycle in xtask with its reason";
        report(&findings(&found, &DELIBERATE), "module cycles", hint)
    })
}

/// Folders of a package's crates: its sources, and those of programs with several files.
fn roots(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut roots: Vec<PathBuf> = [folder.to_owned()].into_iter().filter(|folder| folder.is_dir()).collect();
    roots.extend(entries(&folder.join("bin"))?.into_iter().filter(|path| path.is_dir()));
    Ok(roots)
}

/// Entries of a folder, sorted; none if the folder does not exist.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let cannot = || format!("cannot read `{}`", folder.display());
    let read = fs::read_dir(folder).with_context(cannot)?;
    let mut entries: Vec<PathBuf> =
        read.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().with_context(cannot)?;
    entries.sort();
    Ok(entries)
}

/// The graph of a crate's modules.
fn graph(root: &Path) -> anyhow::Result<Graph> {
    let mut texts = BTreeMap::new();
    collect(root, &[], &mut texts)?;
    let names = Names::of(&texts);
    Ok(texts.iter().map(|(module, text)| (module.clone(), names.used(module, text))).collect())
}

/// Adds the modules below a folder, without those of tests.
fn collect(folder: &Path, at: &[String], texts: &mut BTreeMap<Module, String>) -> anyhow::Result<()> {
    for path in entries(folder)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let inner = || [at, std::slice::from_ref(&name)].concat();
        if path.is_dir() {
            if !(at.is_empty() && name == "bin") && name != "tests" {
                collect(&path, &inner(), texts)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
            let module = if matches!(&*name, "mod" | "lib" | "main") { at.to_vec() } else { inner() };
            texts.entry(module).or_default().push_str(&source::without_tests(&source::code(&text)));
        }
    }
    Ok(())
}

/// Modules of a crate, each with the paths that it re-exports, by their last names.
struct Names(BTreeMap<Module, BTreeMap<String, source::CodePath>>);

/// Re-exports of re-exports that are followed.
const MAX_REEXPORTS: u32 = 8;

impl Names {
    fn of(texts: &BTreeMap<Module, String>) -> Self {
        let reexports = |text: &String| {
            let paths = source::reexports(text).into_iter();
            paths.filter_map(|path| path.last().cloned().map(|name| (name, path))).collect()
        };
        Self(texts.iter().map(|(module, text)| (module.clone(), reexports(text))).collect())
    }

    /// Modules that a module uses.
    fn used(&self, module: &Module, text: &str) -> BTreeSet<Module> {
        let targets = source::paths(text).into_iter().map(|path| self.target(module, &path, MAX_REEXPORTS));
        targets.filter(|target| !target.starts_with(module) && !module.starts_with(target)).collect()
    }

    /// The module that defines what a path in a module leads to; the last module on its way if that is unknown.
    fn target(&self, module: &Module, path: &[String], reexports: u32) -> Module {
        let mut names = path.iter().peekable();
        let mut at = Module::new();
        if names.next_if(|name| *name == "crate").is_none() {
            at.clone_from(module);
            let _ = names.next_if(|name| *name == "self");
            while names.next_if(|name| *name == "super").is_some() {
                at.pop();
            }
        }
        while let Some(name) = names.next() {
            at.push(name.clone());
            if self.0.contains_key(&at) {
                continue;
            }
            at.pop();
            let reexported = self.0.get(&at).and_then(|reexported| reexported.get(name));
            if let Some(next) = reexported.filter(|_| reexports > 0) {
                let next = [next.as_slice(), &names.cloned().collect::<Vec<_>>()].concat();
                return self.target(&at, &next, reexports - 1);
            }
            break;
        }
        at
    }
}

/// Modules that use each other.
#[derive(Debug, PartialEq, Eq)]
struct Cycle {
    /// Names, sorted.
    modules: Vec<String>,
    /// Uses between them, as `one -> other`.
    uses: Vec<String>,
}

impl Cycle {
    fn of(graph: &Graph, modules: &[&Module]) -> Self {
        let name = |module: &Module| module.join("/");
        let uses = modules.iter().flat_map(|module| {
            let used = graph.get(*module).into_iter().flatten().filter(|used| modules.contains(used));
            used.map(|used| format!("{} -> {}", name(module), name(used)))
        });
        Self { uses: uses.collect(), modules: modules.iter().map(|module| name(module)).collect() }
    }
}

/// Strongly connected components of more than one module.
fn cycles(graph: &Graph) -> Vec<Cycle> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reachable(graph, module))).collect();
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    let mut cycles = Vec::new();
    for (module, others) in &reached {
        let is_mutual = |other: &&&Module| reached.get(**other).is_some_and(|back| back.contains(*module));
        let cycle: Vec<&Module> = others.iter().filter(is_mutual).copied().collect();
        if !cycle.is_empty() && seen.insert(*module) {
            seen.extend(&cycle);
            cycles.push(Cycle::of(graph, &cycle));
        }
    }
    cycles
}

/// Modules that a module uses, directly or not; itself if it is on a cycle.
fn reachable<'a>(graph: &'a Graph, module: &Module) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Module> = graph.get(module).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(graph.get(next).into_iter().flatten());
        }
    }
    found
}

/// Differences between the cycles found, each with its crate's folder, and the deliberate ones.
fn findings(found: &[(PathBuf, Cycle)], deliberate: &[Deliberate]) -> Vec<String> {
    let is_same = |(folder, cycle): &(PathBuf, Cycle), (known, modules, _): &Deliberate| {
        folder == Path::new(known) && cycle.modules.iter().eq(modules.iter())
    };
    let new = found.iter().filter(|cycle| !deliberate.iter().any(|known| is_same(cycle, known)));
    let gone = deliberate.iter().filter(|known| !found.iter().any(|cycle| is_same(cycle, known)));
    let mut findings: Vec<String> = new
        .map(|(folder, cycle)| format!("{}: modules use each other: {}", folder.display(), cycle.uses.join(", ")))
        .collect();
    findings.extend(gone.map(|(folder, modules, _)| {
        format!("{folder}: xtask names a cycle that does not exist: {}", modules.join(", "))
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate's folder with these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("written");
        }
        folder
    }

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        of(tree(files).path())
    }

    fn of(root: &Path) -> Vec<Vec<String>> {
        cycles(&graph(root).expect("readable")).into_iter().map(|cycle| cycle.modules).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_found() {
        let cycle = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::{b::{inner::Deep, One}, Root};\n"),
            ("b/mod.rs", "pub mod inner;\npub use inner::Deep;\n"),
            ("b/inner.rs", "fn deep() -> super::super::c::Third { todo!() }\n"),
            ("c.rs", "pub struct Third(pub crate::a::First);\n"),
        ];
        assert_eq!(found(&cycle), [["a", "b/inner", "c"]]);
        let two = [("main.rs", ""), ("x.rs", "use super::y;"), ("y.rs", "use super::x::X;"), ("z.rs", "use super::x;")];
        assert_eq!(found(&two), [["x", "y"]]);
    }

    #[test]
    fn a_cycle_through_reexports_is_found() {
        let cycle = [
            ("lib.rs", "mod a;\nmod b;\npub use a::one::First;\n"),
            ("a/mod.rs", "pub mod one;\npub mod two;\npub(crate) use one::First;\n"),
            ("a/one.rs", "use crate::b::Second;\n"),
            ("a/two.rs", "use super::First;\n"),
            ("b.rs", "pub struct Second(crate::First);\n"),
        ];
        assert_eq!(found(&cycle), [["a/one", "b"]]);
        let [lib, folder, one, two, _] = cycle;
        assert_eq!(found(&[lib, folder, one, two, ("b.rs", "use crate::a::two::third;\n")]), [["a/one", "a/two", "b"]]);
        assert_eq!(found(&[lib, folder, one, two, ("b.rs", "use std::fmt;\n")]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn trees_without_a_cycle_pass() {
        let tree = [
            // A module and those inside of it may use each other.
            ("lib.rs", "mod a;\nmod b;\npub use a::First;\n"),
            ("a/mod.rs", "mod inner;\nuse self::inner::Deep;\npub struct First(Deep);\n"),
            ("a/inner.rs", "use super::First;\nuse crate::b::Second;\n"),
            // Comments, texts and tests do not count, and a name of the root is no module.
            (
                "b.rs",
                "// use crate::a::First;\nconst A: &str = \"crate::a::First\";\nuse crate::First;\n\
              #[cfg(test)]\nmod tests {\n    use crate::a::First;\n}\n",
            ),
            ("b/tests.rs", "use crate::a::First;\n"),
        ];
        assert_eq!(found(&tree), Vec::<Vec<String>>::new());
    }

    #[test]
    fn programs_are_crates_of_their_own() {
        let folder = tree(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", ""),
            ("bin/one.rs", "use crate::a::A;"),
            ("bin/two/main.rs", "mod a;\nmod b;\n"),
            ("bin/two/a.rs", "use crate::b::B;"),
            ("bin/two/b.rs", "use crate::a::A;"),
        ]);
        let roots = roots(folder.path()).expect("readable");
        assert_eq!(roots, [folder.path().to_owned(), folder.path().join("bin/two")]);
        assert_eq!(of(&roots[0]), Vec::<Vec<String>>::new());
        assert_eq!(of(&roots[1]), [["a", "b"]]);
    }

    #[test]
    fn new_cycles_and_cycles_that_have_gone_are_named() {
        let cycle = |folder: &str, [one, other]: [&str; 2]| {
            let uses = vec![format!("{one} -> {other}"), format!("{other} -> {one}")];
            (PathBuf::from(folder), Cycle { modules: vec![one.to_owned(), other.to_owned()], uses })
        };
        let known: [Deliberate; 1] = [("plugins/a", &["x", "y"], "a reason")];
        assert_eq!(findings(&[cycle("plugins/a", ["x", "y"])], &known), Vec::<String>::new());
        assert_eq!(
            findings(&[cycle("host/b", ["x", "y"])], &known),
            [
                "host/b: modules use each other: x -> y, y -> x",
                "plugins/a: xtask names a cycle that does not exist: x, y",
            ]
        );
    }
}
