//! Calls of `host` in a folder for the files of examples.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;
use toml_edit::DocumentMut;

use super::runs;
use crate::first_party::{FirstParty, Part};
use crate::workspace::Workspace;

/// Id of the first demonstration of a run's first stage.
pub const FIRST_DEMONSTRATION: &str = "0.demo.0.0.0.0";

/// The built program, with an empty working folder.
pub struct Host<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
}

impl<'a> Host<'a> {
    /// Empties the working folder, in cargo's output.
    pub fn new(workspace: &'a Workspace) -> anyhow::Result<Self> {
        let folder = workspace.target.join("shelf");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        Ok(Self { workspace, folder })
    }

    /// Answers of a plugin about itself; of an environment under the options and beside the tools of its example, of a
    /// wrapper without an environment.
    pub fn inspect(&self, plugin: &FirstParty, all: &[FirstParty]) -> anyhow::Result<Value> {
        let mut arguments =
            vec!["plugin".to_owned(), "inspect".to_owned(), self.component(&plugin.name), "--json".to_owned()];
        arguments.extend(self.needed(plugin));
        let is_tool = |name: &&String| all.iter().any(|other| other.name == **name && other.part == Part::Tool);
        if let (Part::Environment, Some(example)) = (plugin.part, &plugin.notes.example) {
            let options = example.options.iter().map(|(key, value)| format!("{key}={value}"));
            arguments.extend(options.flat_map(|option| ["--option".to_owned(), option]));
            let with = example.with.iter().filter(is_tool);
            arguments.extend(with.flat_map(|name| ["--with".to_owned(), self.component(name)]));
        }
        let text = self.call(&arguments, "")?;
        let inspected: Value = serde_json::from_str(&text).context("`host plugin inspect` printed no JSON")?;
        if let Some(error) = inspected["description_error"].as_str() {
            bail!("it does not describe itself: {error}");
        }
        Ok(inspected)
    }

    /// Standard output of `host plugin play` while these lines are typed.
    pub fn play(&self, arguments: &[String], typed: &str) -> anyhow::Result<String> {
        let command = ["plugin", "play"].map(ToOwned::to_owned);
        self.call(&[&command[..], arguments].concat(), typed)
    }

    /// Runs a run file with the built components of the plugins that it names; returns its first demonstration as
    /// `host show` prints it.
    pub fn run(&self, text: &str) -> anyhow::Result<String> {
        let file: DocumentMut = text.parse().context("the example's run file is not TOML")?;
        let plugins: Vec<String> = runs::plugins(&file).iter().map(|name| self.component(name)).collect();
        self.write("run.toml", text)?;
        let out = self.folder.join("out");
        if out.exists() {
            fs::remove_dir_all(&out).with_context(|| format!("cannot remove `{}`", out.display()))?;
        }
        let words = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
        self.call(&words(&["run", "run.toml", "--plugins", &plugins.join(","), "--out", "out", "--quiet"]), "")?;
        self.call(&words(&["show", "out", "--episode", FIRST_DEMONSTRATION]), "")
    }

    /// Writes a file that an example names.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.folder.join(name), text).with_context(|| format!("cannot write the example's file `{name}`"))
    }

    /// Path of a component.
    pub fn component(&self, name: &str) -> String {
        self.workspace.component(name).display().to_string()
    }

    /// Absolute path of a file of the repository.
    pub fn in_repository(&self, file: &str) -> String {
        self.workspace.root.join(file).display().to_string()
    }

    /// Flags of the options and assets that a plugin needs.
    pub fn needed(&self, plugin: &FirstParty) -> Vec<String> {
        let needs = &plugin.notes.needs;
        let options = needs.options.iter().flat_map(|(key, value)| ["--option".to_owned(), format!("{key}={value}")]);
        let assets = needs
            .assets
            .iter()
            .flat_map(|(name, file)| ["--asset".to_owned(), format!("{name}={}", self.in_repository(file))]);
        options.chain(assets).collect()
    }

    fn call(&self, arguments: &[String], typed: &str) -> anyhow::Result<String> {
        let program = self.workspace.target.join("release").join("host");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("`host` does not start; `cargo xtask setup` builds it")?;
        // A program that ends early reads the rest no more, which its exit code explains better.
        let _closed = child.stdin.take().context("standard input is piped")?.write_all(typed.as_bytes());
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let words = arguments.join(" ");
            bail!("`host {words}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).context("`host` printed something other than UTF-8")
    }
}
