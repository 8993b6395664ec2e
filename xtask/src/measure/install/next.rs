//! What a user does after the demo: a project, a plugin in Python from its template to a registry, and a server for
//! agents. Each step fails if its program does.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::desk::{Desk, Installed};
use crate::step::{execute, output_of};

/// Name of a step and its time.
type Timed = (&'static str, Duration);

/// Locked requirements of the official client of MCP.
const MCP: &str = include_str!("../../../requirements/mcp.txt");

/// Client of a server that it starts itself, as editors do. Its argument is the program.
const CLIENT: &str = r#"
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["serve", "--stdio", "gymkhana/calculator"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        answer = await session.call_tool("calculate", {"expression": "6 * 7"})
        print(names, answer.content[0].text)

asyncio.run(main())
"#;

/// Takes all steps and returns their times.
pub fn all(desk: &Desk, installed: &Installed) -> anyhow::Result<Vec<Timed>> {
    let user = User { desk, host: &installed.host };
    let mut times = vec![];
    user.project(&mut times)?;
    user.plugin(&mut times)?;
    user.server(&mut times)?;
    Ok(times)
}

struct User<'a> {
    desk: &'a Desk,
    host: &'a Path,
}

impl User<'_> {
    fn host(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = self.desk.command(self.host);
        command.args(arguments).current_dir(self.desk.home.join(folder));
        command
    }

    /// Makes a project of installed plugins and checks its run file.
    fn project(&self, times: &mut Vec<Timed>) -> anyhow::Result<()> {
        let parts = ["--environment", "word-problems", "--tools", "calculator", "--rewards", "answer-match"];
        timed(times, "`host init`", || execute(self.host("", &["init", "stories"]).args(parts)))?;
        timed(times, "`host run --dry-run`", || execute(&mut self.host("stories", &["run", "run.toml", "--dry-run"])))
    }

    /// Writes a plugin from the template, tests it, publishes it to a registry of its own, and adds it to the project.
    fn plugin(&self, times: &mut Vec<Timed>) -> anyhow::Result<()> {
        let arguments = ["plugin", "new", "brief", "--kind", "reward", "--lang", "python", "--namespace", "acme"];
        timed(times, "`host plugin new`", || execute(self.host("", &arguments).env("GYMKHANA_SDK", &self.desk.dist)))?;
        let folder = self.desk.home.join("brief");
        timed(times, "packages of the plugin", || {
            execute(self.desk.command("python3").args(["-m", "venv", ".venv"]).current_dir(&folder))?;
            let mut pip = self.desk.command(folder.join(".venv/bin/pip"));
            execute(pip.args(["install", "--quiet", "-r", "requirements.txt"]).current_dir(&folder))
        })?;
        timed(times, "`host plugin test`, first", || execute(&mut self.host("brief", &["plugin", "test", "."])))?;
        replace(&folder.join("plugin.py"), "1.0 / (1.0 + too_long / 100)", "1.0 / (1.0 + too_long / 200)")?;
        replace(&folder.join("test_plugin.py"), "[1.0, 0.5, 0.0]", "[1.0, 2 / 3, 0.0]")?;
        timed(times, "`host plugin test` after an edit", || {
            execute(&mut self.host("brief", &["plugin", "test", "."]))
        })?;
        replace(&folder.join("pyproject.toml"), "\"Short correct answers\"", "\"Right answers, short ones first\"")?;
        self.registry()?;
        timed(times, "`host publish`", || {
            execute(&mut self.host("", &["publish", "brief", "--key", "acme.key", "--root", "root.key"]))
        })?;
        timed(times, "`host add`", || execute(&mut self.host("stories", &["add", "acme/brief"])))
    }

    /// Makes a signed registry in a folder, with a namespace for the user's key.
    fn registry(&self) -> anyhow::Result<()> {
        let printed = |arguments: &[&str]| {
            output_of(&mut self.host("", arguments)).with_context(|| format!("`host {}` failed", arguments.join(" ")))
        };
        let key = |file: &str| {
            printed(&["keygen", file])?;
            let shown = printed(&["keygen", file, "--show"])?;
            let key = shown.split_whitespace().find(|word| word.starts_with("ed25519:"));
            key.map(str::to_owned).with_context(|| format!("`host keygen --show` names no key: {shown}"))
        };
        let (root, acme) = (key("root.key")?, key("acme.key")?);
        printed(&["registry", "init", "shop", "--root", "root.key"])?;
        printed(&["registry", "grant", "shop", "acme", &acme, "--root", "root.key"])?;
        let config = self.desk.home.join(".config/gymkhana");
        fs::create_dir_all(&config)?;
        let shop = self.desk.home.join("shop");
        let text =
            format!("[registries.shop]\nfolder = {shop:?}\nroot = \"{root}\"\n\n[namespaces]\nacme = \"shop\"\n");
        fs::write(config.join("gymkhana-registries.toml"), text).context("cannot write the registries")?;
        Ok(())
    }

    /// Lets the official client of MCP call a tool.
    fn server(&self, times: &mut Vec<Timed>) -> anyhow::Result<()> {
        let client = self.desk.home.join("client");
        execute(self.desk.command("python3").args(["-m", "venv"]).arg(&client))?;
        fs::write(self.desk.home.join("mcp.txt"), MCP)?;
        let mut pip = self.desk.command(client.join("bin/pip"));
        execute(pip.args(["install", "--quiet", "--no-deps", "-r", "mcp.txt"]))?;
        timed(times, "`host serve --stdio` with a call by MCP", || {
            let mut python = self.desk.command(client.join("bin/python"));
            python.args(["-c", CLIENT]).arg(self.host).current_dir(self.desk.home.join("stories"));
            let answered = output_of(&mut python).context("the client of MCP failed")?;
            ensure!(answered.trim() == "['calculate'] 42", "the client of MCP got {answered}");
            Ok(())
        })
    }
}

/// Measures a step.
fn timed(times: &mut Vec<Timed>, name: &'static str, step: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let start = Instant::now();
    step().with_context(|| format!("{name} failed"))?;
    times.push((name, start.elapsed()));
    Ok(())
}

/// Edits a file of the template; fails if the template no longer has the text.
fn replace(file: &Path, from: &str, to: &str) -> anyhow::Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    ensure!(text.contains(from), "`{}` does not contain `{from}`", file.display());
    fs::write(file, text.replace(from, to)).with_context(|| format!("cannot write `{}`", file.display()))
}
