//! User errors exit with code 2 and one message that names the object and the fix.
//!
//! Messages of one kind share a snapshot. An error before the start of a run leaves no folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{
    Desk, Outcome, SMALL_GAME, SMALL_RUN, TIC_TAC_TOE, WORD_PROBLEMS, files_below, finish, run_arguments,
};
use gymkhana_registry::contract;

/// Collects messages for a snapshot.
#[derive(Default)]
struct Messages(String);

impl Messages {
    /// Adds the message of an error, which must be the only output.
    fn add(&mut self, title: &str, outcome: &Outcome) {
        self.0.push_str(&outcome.mistake(title));
    }

    /// Adds the message of a run that must not have started.
    fn add_run(&mut self, title: &str, desk: &Desk, plugins: &str, more: &[&str]) {
        self.add(title, &desk.run(plugins, more));
        assert!(!desk.path("out").exists(), "{title}: a folder was left behind");
    }

    fn check(&self, name: &str) {
        insta::with_settings!({
            filters => vec![
                (r"digests [0-9a-f]{12}… and [0-9a-f]{12}…", "digests [DIGEST] and [DIGEST]"),
                (r"digest [0-9a-f]{12}…, this host has [0-9a-f]{12}…", "digest [DIGEST], this host has [DIGEST]"),
                (r"at byte \d+ of \d+", "at byte [PLACE] of [LENGTH]"),
                (r"at offset 0x[0-9a-f]+", "at offset [PLACE]"),
                (r"this machine holds \d+ ", "this machine holds [PLACES] "),
                (r"set 1 to \d+,", "set 1 to [PLACES],"),
                (r"started \d+ \w+ ago", "started [TIME] ago"),
                (r"(?m)^(measuring |sft: |rl: |model: |plugins: |stages: |folder: ).*\n", ""),
            ],
        }, {
            insta::assert_snapshot!(name, self.0);
        });
    }
}

/// The snapshots of all tests of this crate, so that an error without a hint is found wherever it is recorded.
#[test]
fn every_error_of_the_snapshots_has_a_hint() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut errors = 0;
    for (name, _) in files_below(&tests) {
        if !name.ends_with(".snap") {
            continue;
        }
        let snapshot = fs::read_to_string(tests.join(&name)).expect("a snapshot");
        for block in error_blocks(&snapshot) {
            errors += 1;
            assert!(block.contains("\nhint: "), "{name}: no hint in\n{block}");
        }
    }
    assert!(errors > 150, "only {errors} errors were found");
}

/// Each error of a snapshot, up to the next title or error.
fn error_blocks(snapshot: &str) -> Vec<String> {
    let mut blocks: Vec<String> = vec![];
    let mut is_open = false;
    for line in snapshot.lines() {
        if line.starts_with("error: ") {
            blocks.push(String::new());
            is_open = true;
        } else if line.starts_with("--- ") {
            is_open = false;
        }
        if let Some(block) = blocks.last_mut().filter(|_| is_open) {
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

#[test]
fn plugin_files() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let sound = fs::read(desk.path("plugins/calculator.wasm")).expect("a component");
    let patch = |from: &str, to: &str| replaced(&sound, from, to);
    desk.write("empty.wasm", "");
    desk.write("text.wasm", "#!/bin/sh\necho no WebAssembly\n");
    // The smallest core module and the smallest component: magic, version and layer, no section.
    desk.write("core-module.wasm", b"\0asm\x01\0\0\0");
    desk.write("no-manifest.wasm", b"\0asm\x0d\0\x01\0");
    desk.write("truncated.wasm", &sound[..sound.len() / 2]);
    desk.write("other-text.wasm", patch(&contract::digest().to_string(), &"0".repeat(64)));
    let version = |version: &str| format!("\"contract\":{{\"version\":\"{version}\"");
    desk.write("other-version.wasm", patch(&version("0.2.0"), &version("0.1.0")));
    desk.write("damaged-manifest.wasm", patch("GYMK", "GYMX"));
    let mut messages = Messages::default();
    for (title, file) in [
        ("missing", "nowhere.wasm"),
        ("a folder", "plugins"),
        ("empty", "empty.wasm"),
        ("not WebAssembly", "text.wasm"),
        ("a core module", "core-module.wasm"),
        ("without manifest", "no-manifest.wasm"),
        ("truncated", "truncated.wasm"),
        ("of another text of the contract", "other-text.wasm"),
        ("of another version of the contract", "other-version.wasm"),
        ("with a damaged manifest", "damaged-manifest.wasm"),
    ] {
        messages.add_run(title, &desk, &format!("plugins/word-problems.wasm,{file}"), &[]);
    }
    messages.add("inspected: not WebAssembly", &desk.host(&["plugin", "inspect", "text.wasm"]));
    messages.add("inspected: missing", &desk.host(&["plugin", "inspect", "nowhere.wasm", "--json"]));
    messages.check("plugin-files");
}

/// A truncated file is rejected before it is compiled, wherever it was cut.
#[test]
fn a_plugin_that_was_cut_anywhere_is_refused() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let sound = fs::read(desk.path("plugins/calculator.wasm")).expect("a component");
    for eighth in 1..8 {
        desk.write("cut.wasm", &sound[..sound.len() * eighth / 8]);
        let outcome = desk.run("plugins/word-problems.wasm,cut.wasm", &[]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.talk.contains("`cut.wasm`") && outcome.talk.contains("truncated"), "{}", outcome.talk);
    }
}

/// Replaces `from` by a text of equal length, which keeps all lengths inside the component valid.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = (0..bytes.len()).filter(|&place| bytes[place..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "the component does not hold `{from}`");
    for place in places {
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

#[test]
fn sets_of_plugins() {
    let desk = Desk::with_run_file(&SMALL_RUN.replace("answer-match", "guest-hostile-reward"));
    let calculator = fs::read(desk.path("plugins/calculator.wasm")).expect("a component");
    desk.write("another-calculator.wasm", replaced(&calculator, "Apache-2.0", "Apache-2.1"));
    desk.write("namesake.wasm", replaced(&calculator, "\"namespace\":\"gymkhana\"", "\"namespace\":\"neighbor\""));
    let mut messages = Messages::default();
    for (title, plugins) in [
        ("one file twice", "plugins/word-problems.wasm,plugins/word-problems.wasm"),
        ("two of one name", "plugins/word-problems.wasm,plugins/calculator.wasm,another-calculator.wasm"),
        ("two of one short name", "plugins/word-problems.wasm,plugins/calculator.wasm,namesake.wasm"),
        ("no environment", "plugins/calculator.wasm,plugins/guest-hostile-reward.wasm"),
        ("two environments", "plugins/word-problems.wasm,plugins/frozen-lake.wasm,plugins/guest-hostile-reward.wasm"),
    ] {
        messages.add_run(title, &desk, plugins, &[]);
    }
    let editing = "plugins/word-problems.wasm,plugins/guest-editing-tool.wasm,plugins/guest-hostile-reward.wasm";
    let strategy = ["--set", "context.strategy=edits", "--set", "plugins={}", "--set", "success=environment.success"];
    messages.add_run("a tool that offers what the host does", &desk, editing, &strategy);
    messages.check("sets-of-plugins");
}

#[test]
fn run_files() {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.write("no-toml", "seed = = 1");
    desk.write("misspelt.toml", SMALL_RUN.replace("reply_tokens", "replay_tokens"));
    desk.write("no-stage.toml", &SMALL_RUN[..SMALL_RUN.find("[[stages]]").expect("the small run has stages")]);
    desk.write("no-success.toml", SMALL_RUN.replace("success = \"answer-match.correct\"", ""));
    desk.write("algorithm.toml", SMALL_RUN.replace("kind = \"rl\"", "kind = \"grpo\""));
    desk.write("quotes.toml", SMALL_RUN.replacen("steps = 2", "steps = \"2\"", 1));
    let mut messages = Messages::default();
    for (title, file) in [
        ("missing", "nowhere.toml"),
        ("no TOML", "no-toml"),
        ("a misspelt key", "misspelt.toml"),
        ("no stage", "no-stage.toml"),
        ("no success", "no-success.toml"),
        ("an algorithm as kind of a stage", "algorithm.toml"),
        ("a number in quotes", "quotes.toml"),
    ] {
        messages.add(title, &desk.host(&["run", file, "--plugins", WORD_PROBLEMS, "--out", "out"]));
        assert!(!desk.path("out").exists(), "{title}");
    }
    for (title, set) in [
        ("an unknown key", "limits.colour=1"),
        ("a misspelt section", "limit.turns=3"),
        ("a value of another type", "limits.turns=many"),
        ("a value out of range", "limits.turns=0"),
        ("a size out of range", "policy.tiny.heads=3"),
        ("more context than the model takes", "limits.context_tokens=1000"),
        ("an unknown kind of stage", "stages.rl.kind=lr"),
        ("an unknown algorithm", "stages.rl.algorithm=gpro"),
        ("an unknown flag of the algorithm", "stages.rl.settings={ clip = 0.1 }"),
        ("a flag out of range", "stages.rl.settings={ surrogate = { low = 2.0 } }"),
        ("a flag that nothing uses", "stages.rl.settings={ constant_tokens = 9 }"),
        ("a setting that nothing uses", "stages.sft.optimizer={ total_steps = 9 }"),
        ("settings that contradict each other", "policy={ checkpoint = 'somewhere', tiny = { layers = 1 } }"),
        ("an unknown context strategy", "context={ strategy = \"windw\" }"),
        ("a setting of another context strategy", "context={ strategy = \"state\", most = 3 }"),
        ("a misspelt setting of a context strategy", "context={ strategy = \"window\", plaseholder = \"-\" }"),
        ("a window that keeps more than it holds", "context={ strategy = \"window\", most = 2, keep = 3 }"),
        ("a window that never moves", "context={ strategy = \"window\", tokens = 5000 }"),
        ("summaries that an oracle cannot write", "context={ strategy = \"summary\", tokens = 200 }"),
        ("an unknown kind of probe", "probe={ kind = \"anser\" }"),
        ("a setting of another kind of probe", "probe={ kind = \"answer\", mask = \"-\" }"),
        ("a probe of no finite weight", "probe={ kind = \"feedback\", weight = inf }"),
        ("--set without a value", "limits.turns"),
        ("--set of a stage that is not there", "stages.warm.steps=1"),
    ] {
        messages.add_run(title, &desk, WORD_PROBLEMS, &["--set", set]);
    }
    messages.check("run-files");
}

/// Errors that depend on the plugins are reported before the run starts.
#[test]
fn run_files_against_plugins() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let mut messages = Messages::default();
    for (title, set) in [
        ("a tool that is not there", "plugins.calculater.options={}"),
        ("a reward that is not there", "plugins.style.weight=2.0"),
        ("an option that the environment lacks", "environment.options={ dificulty = 1 }"),
        ("an option of the environment out of range", "environment.options={ difficulty = 9 }"),
        ("an option of the environment of another type", "environment.options={ difficulty = \"five\" }"),
        ("an option that the reward lacks", "plugins.answer-match.options={ price = 1.0 }"),
        ("an option of the reward out of range", "plugins.answer-match.options={ mode = \"numbr\" }"),
        ("more live plugins than the machine holds", "sandbox.instances=1000000"),
        ("groups that cannot live at once", "sandbox.instances=11"),
        ("an option that is not a number", "plugins.answer-match.options={ per-call-cost = nan }"),
        ("an unknown split to train on", "environment.train=trian"),
        ("an unknown split to measure on", "environment.eval=dev"),
        ("success by nothing", "success=correct"),
        ("success by an unknown reward", "success=answer-mach.correct"),
        ("success by an unknown component", "success=answer-match.right"),
        ("a gate that compares nothing", "plugins.answer-match.gate=answer-match.correct"),
        ("a gate on an unknown reward", "plugins.answer-match.gate=answer-mach.correct > 0"),
        ("a gate on an unknown component", "environment.gate=answer-match.corect >= 0.5"),
        ("a gate that waits for itself", "plugins.answer-match.gate=answer-match.correct >= 0.5"),
        ("a probe of what no view has", "probe={ kind = \"answer\", field = \"anser\" }"),
        ("a schedule of no steps", "environment.schedule={ shape = \"linear\", to = 0.0, over = 0 }"),
        ("stairs of no length", "plugins.answer-match.schedule={ shape = \"steps\", to = 0.0, over = 9 }"),
        ("a schedule of an unknown shape", "environment.schedule={ shape = \"cosin\", to = 0.0, over = 9 }"),
    ] {
        messages.add_run(title, &desk, WORD_PROBLEMS, &["--set", set]);
    }
    let no_checkpoint = Desk::with_run_file(&SMALL_RUN.replace("tiny = {", "checkpoint = \"nowhere\" # {"));
    messages.add_run("a checkpoint that is not there", &no_checkpoint, WORD_PROBLEMS, &[]);
    messages.check("run-files-against-plugins");
}

/// Policies of seats.
#[test]
fn seats() {
    let desk = Desk::with_run_file(SMALL_GAME);
    let mut messages = Messages::default();
    for (title, plugins, sets) in [
        ("a seat that is not there", TIC_TAC_TOE, &["seats.z.policy=oracle"][..]),
        (
            "a seat that is misspelt",
            "plugins/kuhn-poker.wasm",
            &["seats.frist.policy=oracle", "environment.options={}"],
        ),
        ("an unknown policy", TIC_TAC_TOE, &["seats.o.policy=seperate"]),
        ("an unknown key", TIC_TAC_TOE, &["seats.o.checkpiont=somewhere"]),
        ("frozen without anything to freeze", TIC_TAC_TOE, &["seats.o.policy=frozen"]),
        ("a checkpoint that is not there", TIC_TAC_TOE, &["seats.o={ policy = \"frozen\", checkpoint = \"nowhere\" }"]),
        ("a checkpoint for the oracle", TIC_TAC_TOE, &["seats.o={ policy = \"oracle\", checkpoint = \"somewhere\" }"]),
        ("a checkpoint for a shared seat", TIC_TAC_TOE, &["seats.o.checkpoint=somewhere"]),
        ("no seat for the policy", TIC_TAC_TOE, &["seats.o.policy=oracle", "seats.x.policy=separate"]),
        (
            "a plan of trees under deterministic",
            TIC_TAC_TOE,
            &["deterministic=true", "stages.rl.plan={ kind = \"branch\", roots = 2 }"],
        ),
        ("a key of another plan", TIC_TAC_TOE, &["stages.rl.plan={ kind = \"groups\", roots = 2 }"]),
        ("no oracle", "plugins/guest-two-seats.wasm", &["seats.left.policy=oracle", "environment.options={}"]),
    ] {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        messages.add_run(title, &desk, plugins, &sets);
    }
    // A model with another tokenizer.
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/qwen2-tied");
    let foreign = format!("seats.o={{ policy = \"frozen\", checkpoint = \"{golden}\" }}");
    messages.add_run("a model of another tokenizer", &desk, TIC_TAC_TOE, &["--set", &foreign]);
    messages.check("seats");
}

/// The oracle's episode before the run has the environment's facts, so that no folder is written.
#[test]
fn success_by_a_fact_that_the_environment_does_not_tell() {
    let small = SMALL_RUN.replace("answer-match.correct", "environment.FACT");
    let small = small.replace("[plugins.answer-match]\noptions = { per-call-cost = 0.5 }", "");
    let small = small.replace("turns = 3", "turns = 20").replace("context = 320", "context = 1024");
    let desk = Desk::with_run_file(&small.replace("reply_tokens = 32", "reply_tokens = 8"));
    let mut messages = Messages::default();
    for (title, fact) in [("misspelt", "succes"), ("a text", "map")] {
        let success = format!("success=environment.{fact}");
        messages.add_run(title, &desk, "plugins/frozen-lake.wasm", &["--set", &success]);
    }
    messages.check("success-by-fact");
    let brief = ["success=environment.success", "stages.sft.steps=1", "stages.rl.steps=1", "evaluation.tasks=1"];
    let brief: Vec<&str> = brief.iter().flat_map(|set| ["--set", *set]).collect();
    desk.run("plugins/frozen-lake.wasm", &brief).succeeded();
}

/// An oracle that cannot do without a tool is refused, and one that can is reported.
#[test]
fn an_oracle_without_its_tool() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let experts = ["plugins={}", "success=environment.success", "evaluation.tasks=0"];
    let experts: Vec<&str> = experts.iter().flat_map(|set| ["--set", *set]).collect();
    let mut messages = Messages::default();
    messages.add_run("no calculator", &desk, "plugins/guest-experts.wasm", &experts);
    assert_eq!(
        messages.0,
        "--- no calculator\nerror: the oracle of environment `guest-experts` calls `calculate`, which no plugin of the \
         run offers\nhint: add the tool `calculator` to --plugins\n"
    );
    let warning = "the oracle of environment `word-problems` would call `calculate`, which no plugin of the run offers";
    let alone = desk.run("plugins/word-problems.wasm,plugins/answer-match.wasm", &["--set", "evaluation.tasks=0"]);
    assert!(alone.talk.contains(warning), "{}", alone.talk);
    alone.succeeded();
    fs::remove_dir_all(desk.path("out")).expect("a folder can be removed");
    let complete = desk.run(WORD_PROBLEMS, &["--set", "evaluation.tasks=0"]);
    assert!(!complete.talk.contains("would call"), "{}", complete.talk);
    complete.succeeded();
}

/// A batch may lack demonstrations by chance; a stage without any reports how episodes ended.
#[test]
fn nothing_to_imitate() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let mut messages = Messages::default();
    for (title, set) in [
        ("too small a context", "policy.tiny.context=78"),
        ("too few turns", "limits.turns=1"),
        ("an oracle that reaches something else", "success=answer-match.cost"),
    ] {
        let free = "plugins.answer-match.options={ per-call-cost = 0.0 }";
        let sets = ["--set", "evaluation.tasks=0", "--set", set, "--set", free, "--set", "stages.sft.batch=64"];
        messages.add(title, &desk.run(WORD_PROBLEMS, &sets));
        fs::remove_dir_all(desk.path("out")).expect("a folder can be removed");
    }
    messages.check("nothing-to-imitate");
    // Mental arithmetic ends in one turn; the oracle uses it every other time, and a batch is one story.
    let half = ["environment.options={ oracle-calls = 50 }", "limits.turns=1"];
    let small = [&half[..], &["stages.sft.batch=1", "stages.sft.steps=8", "evaluation.tasks=0"]].concat();
    let sets: Vec<&str> = small.into_iter().flat_map(|set| ["--set", set]).collect();
    desk.run(WORD_PROBLEMS, &sets).succeeded();
    let metrics = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let without = metrics.lines().filter(|line| line.contains("\"demonstrations\":0.0")).count();
    assert!((1..8).contains(&without), "{metrics}");
}

#[test]
fn output_folders() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let mut messages = Messages::default();
    messages.add("resume where nothing is", &desk.run(WORD_PROBLEMS, &["--resume"]));
    assert!(!desk.path("out").exists());
    desk.write("out", "a file");
    messages.add("a file", &desk.run(WORD_PROBLEMS, &[]));
    assert_eq!(fs::read(desk.path("out")).expect("the file is still there"), b"a file");
    fs::remove_file(desk.path("out")).expect("a file can be removed");
    fs::create_dir(desk.path("out")).expect("a folder can be made");
    desk.write("out/thesis.txt", "ten years of work");
    messages.add("a folder with other things", &desk.run(WORD_PROBLEMS, &[]));
    messages.add("resume a folder with other things", &desk.run(WORD_PROBLEMS, &["--resume"]));
    assert_eq!(files_below(&desk.path("out")), [("thesis.txt".to_owned(), 17)]);
    fs::remove_dir_all(desk.path("out")).expect("a folder can be removed");
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    messages.add("a folder that holds a run", &desk.run(WORD_PROBLEMS, &[]));
    let other = desk.run(WORD_PROBLEMS, &["--resume", "--set", "seed=2"]);
    messages.add("resume with another run file", &other);
    let fewer = "plugins/word-problems.wasm,plugins/answer-match.wasm";
    messages.add("resume with other plugins", &desk.run(fewer, &["--resume"]));
    messages.add("replay of an unknown episode", &desk.host(&["replay", "out", "--episode", "7.train.0.0.0.0"]));
    messages.add("show of an unknown episode", &desk.host(&["show", "out", "--episode", "7.train.0.0.0.0"]));
    messages.add("show where no run is", &desk.host(&["show", "plugins"]));
    messages.add("show where only a run file is", &desk.host(&["show", "."]));
    let overwrite = ["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", ".", "--overwrite"];
    messages.add("run --overwrite where only a run file is", &desk.host(&overwrite));
    messages.add("replay where no run is", &desk.host(&["replay", "nowhere"]));
    messages.check("output-folders");
    let not_an_id = desk.host(&["show", "out", "--episode", "the-first"]);
    assert_eq!(not_an_id.code, Some(2));
    assert!(not_an_id.talk.contains("`the-first` is not an episode id; an example is"), "{}", not_an_id.talk);
}

fn assert_tells_of_a_full_disk(full: &Outcome) {
    assert_eq!(full.code, Some(2), "{full:?}");
    assert!(full.talk.contains("`out/"), "no file is named: {}", full.talk);
    assert!(full.talk.contains("free space"), "no fix is named: {}", full.talk);
}

/// A file above the size limit cannot be written: a plugin, or the optimiser's state. With space again, the run
/// resumes, as the hint says.
#[test]
fn a_full_disk_ends_a_run_that_can_be_resumed() {
    for (kibibytes, file) in [(200, "`out/plugins/"), (600, "/trainer/state.safetensors`")] {
        let desk = Desk::with_run_file(SMALL_RUN);
        // Wide enough that the weights fit into the larger limit, but not the moments, which are twice as large.
        let wide = ["--set", "policy.tiny.width=128"];
        let full = finish(&mut desk.command_with_file_limit(kibibytes, &run_arguments(WORD_PROBLEMS, &wide)));
        assert_tells_of_a_full_disk(&full);
        assert!(full.talk.contains(file), "{file}: {}", full.talk);
        desk.run(WORD_PROBLEMS, &[&wide[..], &["--resume"]].concat()).succeeded();
        assert!(desk.host(&["replay", "out"]).succeeded().contains("every byte equal"));
    }
}

/// The journal exceeds the limit while 64 sequences are generated: the engine's thread must end before the process
/// does.
#[test]
fn a_disk_that_fills_up_in_the_midst_of_generation_ends_the_run_in_words() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let busy =
        ["evaluation.tasks=400", "policy.max_concurrent_sequences=64", "policy.tiny.width=128", "policy.tiny.layers=4"];
    let more: Vec<&str> = busy.iter().flat_map(|setting| ["--set", setting]).collect();
    let plugins = "plugins/word-problems.wasm,plugins/answer-match.wasm";
    let full = finish(&mut desk.command_with_file_limit(420, &run_arguments(plugins, &more)));
    assert_tells_of_a_full_disk(&full);
    assert!(full.talk.contains("journal"), "{}", full.talk);
    assert_eq!(full.talk.matches("error: ").count(), 1, "{}", full.talk);
    assert!(!full.talk.contains("panicked"), "{}", full.talk);
}

/// The same on a full file system, if this user may mount one: the run file does not fit, or the plugins fit and later
/// files do not.
#[test]
fn a_full_file_system_ends_a_run() {
    let desk = Desk::with_run_file(SMALL_RUN);
    for size in ["size=4k", "size=500k", "size=1m"] {
        fs::create_dir(desk.path("out")).expect("a folder can be made");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(desk.path("out")).output();
        if !mount.is_ok_and(|output| output.status.success()) {
            #[allow(clippy::print_stderr, reason = "a test that is left out says why")]
            {
                eprintln!("left out: this user may not mount a small file system");
            }
            return;
        }
        let full = desk.run(WORD_PROBLEMS, &[]);
        let unmounted = Command::new("umount").arg(desk.path("out")).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the small file system stays mounted");
        fs::remove_dir(desk.path("out")).expect("an empty folder can be removed");
        assert_tells_of_a_full_disk(&full);
    }
}
