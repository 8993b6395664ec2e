//! The tutorials of the documentation and the page for coding agents, executed command by command as a reader would type
//! them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// A page's files and commands, in their order.
enum Step {
    /// A block under a line that begins with ``File `PATH`:``.
    File { path: String, text: String },
    /// A line that begins with `$ ` in a console block.
    Command(String),
}

/// Reads a page's steps.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut file, mut lines) = (vec![], None, page.lines());
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("File `") {
            file = rest.split_once('`').map(|(path, _)| path.to_owned());
        } else if line.starts_with("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if let Some(path) = file.take() {
                steps.push(Step::File { path, text: block.join("\n") + "\n" });
            } else if line == "```console" {
                let commands = block.iter().filter_map(|line| line.strip_prefix("$ "));
                steps.extend(commands.map(|command| Step::Command(command.to_owned())));
            }
        }
    }
    steps
}

/// Goes through a page in a folder that shows the repository and has an empty `out/`. Training is shortened: each of these
/// texts, which must be in one of the page's files, is replaced by the one beside it. The success that a page mentions is
/// not tested here.
fn follow(page: &str, shorter: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(gymkhana_tests::root()).expect("the repository") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_owned();
        if name != "out" {
            symlink(&path, folder.path().join(name)).expect("a link");
        }
    }
    let text = fs::read_to_string(gymkhana_tests::root().join("docs/tutorial").join(page)).expect("the page");
    let mut steps = steps(&text);
    for (long, short) in shorter {
        let mut files = steps.iter_mut().filter_map(|step| match step {
            Step::File { text, .. } if text.contains(long) => Some(text),
            _ => None,
        });
        let text = files.next().unwrap_or_else(|| panic!("no file of {page} has `{long}`"));
        *text = text.replacen(long, short, 1);
    }
    assert!(steps.iter().filter(|step| matches!(step, Step::Command(_))).count() > 3, "{page} has commands");
    // One shell for all commands, as variables live on from one to the next.
    let mut script = String::from("set -e\n");
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Command(command) => script += &format!("echo '+ command {number}' >&2\n{command}\n"),
            Step::File { path, text } => {
                let source = folder.path().join(format!("file-{number}"));
                fs::write(&source, text).expect("a file");
                script += &format!("cp {} {path}\n", source.display());
            }
        }
    }
    let done = run(&script, folder.path());
    assert!(done.status.success(), "{page}\n{script}\n{}", String::from_utf8_lossy(&done.stderr));
}

fn run(script: &str, folder: &Path) -> std::process::Output {
    const BUILT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/authors");
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(folder).env("CARGO_TARGET_DIR", BUILT);
    command.env_remove("RUSTFLAGS").output().expect("bash")
}

#[test]
fn the_first_run_does_what_the_page_says() {
    let warm_up = ("steps = 300\nbatch = 24", "steps = 20\nbatch = 8");
    follow("first-run.md", &[warm_up, ("groups = 8", "groups = 2"), ("reply_tokens = 96", "reply_tokens = 24")]);
}

#[test]
fn the_first_plugin_does_what_the_page_says() {
    follow("first-plugin.md", &[("steps = 100\nbatch = 32", "steps = 20\nbatch = 8")]);
}

#[test]
fn training_on_own_data_does_what_the_page_says() {
    follow("your-own-data.md", &[]);
}

#[test]
fn the_page_for_coding_agents_does_what_it_says() {
    follow("../../AGENTS.md", &[]);
}

#[test]
#[ignore = "downloads and trains a pretrained model: cargo xtask test --reference pretrained"]
fn the_first_training_does_what_the_page_says() {
    let shorter =
        [("steps = 16\nbatch = 8", "steps = 4\nbatch = 4"), ("groups = 4", "groups = 1"), ("= 32   ", "= 4    ")];
    follow("first-training.md", &shorter);
}
