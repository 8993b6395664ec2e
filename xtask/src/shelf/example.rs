//! The example of a plugin: a session or an episode that `host plugin play` or a run plays, and its shortened transcript.

use std::fmt::Write as _;

use anyhow::Context as _;

use super::host::{FIRST_DEMONSTRATION, Host};
use crate::first_party::{Example, FirstParty, Part, Texts};

/// Lines with which the oracle plays an episode to its end; those beyond it are ignored.
const FOLLOW: &str = "follow\n";
/// Most turns of an example.
const TURNS: usize = 60;
/// File of the set-up data in an example.
const SETUP: &str = "setup";

/// First and last lines of a longer transcript that are shown.
const EDGES: [usize; 2] = [14, 10];
/// Most characters of a line that are shown.
const WIDTH: usize = 160;

/// A played example.
pub struct Shown {
    /// The command, with `$P` for the folder of the components.
    pub command: String,
    /// Files that the command names, by name.
    pub files: Texts,
    /// The run file, which was run.
    pub run: Option<String>,
    /// Typed lines after `> `, and what was printed.
    pub transcript: String,
}

/// Plays the example of a plugin, if it has one.
pub fn show(host: &Host<'_>, plugin: &FirstParty, all: &[FirstParty]) -> anyhow::Result<Option<Shown>> {
    let Some(example) = &plugin.notes.example else { return Ok(None) };
    let mut files = example.assets.clone();
    files.extend(example.setup.iter().map(|text| (SETUP.to_owned(), text.clone())));
    files.iter().try_for_each(|(name, text)| host.write(name, text))?;
    let run = example.run.clone();
    let trained = run.as_ref().map(|text| host.run(text)).transpose()?;
    // `host plugin play` sets no options of wrappers.
    if let (Part::Wrapper, Some(printed)) = (plugin.part, trained) {
        let command = format!("host run run.toml --out out\n$ host show out --episode {FIRST_DEMONSTRATION}");
        return Ok(Some(Shown { command, files, run, transcript: shortened(&printed) }));
    }
    let played = Played::of(plugin, example, all)?;
    let arguments = played.arguments(|name| host.component(name), |file| host.in_repository(file));
    let transcript = match example.lines.as_slice() {
        [] => host.play(&arguments, &FOLLOW.repeat(TURNS))?,
        lines => typed(host, &arguments, lines)?,
    };
    let shown = played.arguments(|name| format!("$P/{name}.wasm"), ToOwned::to_owned);
    let command = format!("host plugin play {}", shown.join(" "));
    Ok(Some(Shown { command, files, run, transcript: shortened(&transcript) }))
}

/// Plugins of an example by their places in the command.
struct Played<'a> {
    /// The environment, or the tool.
    first: &'a FirstParty,
    example: &'a Example,
    wrapper: Option<&'a str>,
    with: Vec<&'a str>,
}

impl<'a> Played<'a> {
    fn of(plugin: &'a FirstParty, example: &'a Example, all: &'a [FirstParty]) -> anyhow::Result<Self> {
        let mut with: Vec<&str> = example.with.iter().map(String::as_str).collect();
        if matches!(plugin.part, Part::Environment | Part::Tool) {
            return Ok(Self { first: plugin, example, wrapper: None, with });
        }
        let name = example.environment.as_ref().or(plugin.notes.needs.environment.as_ref());
        let name = name.context("its example names no `environment`")?;
        let first = all.iter().find(|other| other.name == *name).with_context(|| format!("no plugin `{name}`"))?;
        let wrapper = (plugin.part == Part::Wrapper).then_some(plugin.name.as_str());
        if plugin.part == Part::Reward {
            with.push(&plugin.name);
        }
        Ok(Self { first, example, wrapper, with })
    }

    /// Arguments of `host plugin play`; `component` is the path of a component, `file` that of a file of the repository.
    fn arguments(&self, component: impl Fn(&str) -> String, file: impl Fn(&str) -> String) -> Vec<String> {
        let flag = |name: &str, value: String| [name.to_owned(), value];
        let mut arguments = vec![component(&self.first.name)];
        if !self.with.is_empty() {
            let with: Vec<String> = self.with.iter().map(|name| component(name)).collect();
            arguments.extend(flag("--with", with.join(",")));
        }
        arguments.extend(self.wrapper.iter().flat_map(|name| flag("--wrap", component(name))));
        let options = self.example.options.iter().map(|(key, value)| format!("{key}={value}"));
        arguments.extend(options.flat_map(|option| flag("--option", option)));
        let own = self.example.assets.iter().map(|(name, _)| format!("{name}={name}"));
        let is_replaced = |name: &String| self.example.assets.iter().any(|(own, _)| own == name);
        let needed = self.first.notes.needs.assets.iter().filter(|(name, _)| !is_replaced(name));
        let needed = needed.map(|(name, path)| format!("{name}={}", file(path)));
        arguments.extend(own.chain(needed).flat_map(|asset| flag("--asset", asset)));
        arguments.extend(self.example.setup.iter().flat_map(|_| flag("--setup", SETUP.to_owned())));
        arguments
    }
}

/// Plays lines one after the other, each after those before it, so that each is shown with its answer.
fn typed(host: &Host<'_>, arguments: &[String], lines: &[String]) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut before: Option<String> = None;
    for count in 0..=lines.len() {
        let input: String = lines[..count].iter().map(|line| format!("{line}\n")).collect();
        let printed = host.play(arguments, &input)?;
        if let Some(before) = &before {
            let kept = common(before, &printed);
            let _ = write!(text, "> {}\n{}", lines[count - 1], &printed[kept..]);
        }
        before = Some(printed);
    }
    Ok(text)
}

/// Length of the lines with which both texts begin. Behind them, a shorter session prints its end.
fn common(before: &str, printed: &str) -> usize {
    let equal =
        before.split_inclusive('\n').zip(printed.split_inclusive('\n')).take_while(|(left, right)| left == right);
    equal.map(|(line, _)| line.len()).sum()
}

/// A transcript without the middle of its lines, and of each line.
fn shortened(transcript: &str) -> String {
    let lines: Vec<&str> = transcript.lines().collect();
    let [first, last] = EDGES;
    let cut = |line: &&str| match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…\n", &line[..end]),
        None => format!("{}\n", line.trim_end()),
    };
    if lines.len() <= first + last + 1 {
        return lines.iter().map(cut).collect();
    }
    let left_out = format!("… {} lines\n", lines.len() - first - last);
    let (head, tail) = (&lines[..first], &lines[lines.len() - last..]);
    head.iter().map(cut).chain([left_out]).chain(tail.iter().map(cut)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::first_party::{Needs, Notes};

    fn plugin(part: Part, name: &str, notes: Notes) -> FirstParty {
        FirstParty { part, name: name.to_owned(), folder: name.into(), is_foreign: false, notes }
    }

    fn command(plugin: &FirstParty, all: &[FirstParty]) -> anyhow::Result<String> {
        let example = plugin.notes.example.as_ref().expect("an example");
        let played = Played::of(plugin, example, all)?;
        Ok(played.arguments(str::to_uppercase, |file| format!("/{file}")).join(" "))
    }

    #[test]
    fn each_part_has_its_place_in_the_command() {
        let example = |environment: Option<&str>| {
            Some(Example {
                environment: environment.map(ToOwned::to_owned),
                with: vec!["calc".to_owned()],
                ..Example::default()
            })
        };
        let assets = vec![("rows".to_owned(), "data/rows".to_owned())];
        let notes = Notes { needs: Needs { assets, ..Needs::default() }, example: example(None), ..Notes::default() };
        let rows = plugin(Part::Environment, "rows", notes.clone());
        let all = [rows.clone()];
        assert_eq!(command(&rows, &all).expect("a command"), "ROWS --with CALC --asset rows=/data/rows");
        let own = Notes { example: example(Some("rows")), ..Notes::default() };
        let reward = plugin(Part::Reward, "match", own.clone());
        assert_eq!(command(&reward, &all).expect("a command"), "ROWS --with CALC,MATCH --asset rows=/data/rows");
        let wrapper = plugin(Part::Wrapper, "twice", own);
        assert_eq!(
            command(&wrapper, &all).expect("a command"),
            "ROWS --with CALC --wrap TWICE --asset rows=/data/rows"
        );
        let lost = plugin(Part::Reward, "match", Notes { example: example(None), ..Notes::default() });
        assert_eq!(command(&lost, &all).expect_err("no environment").to_string(), "its example names no `environment`");
        let own = Example {
            assets: vec![("rows".to_owned(), "{}".to_owned())],
            setup: Some("text".to_owned()),
            options: vec![("most".to_owned(), "2".to_owned())],
            ..Example::default()
        };
        let rows = plugin(Part::Environment, "rows", Notes { example: Some(own), ..notes });
        assert_eq!(command(&rows, &all).expect("a command"), "ROWS --option most=2 --asset rows=rows --setup setup");
    }

    #[test]
    fn long_transcripts_lose_their_middle() {
        let [first, last] = EDGES;
        let lines = |count: usize| (0..count).map(|line| format!("{line}\n")).collect::<String>();
        assert_eq!(shortened(&lines(first + last + 1)), lines(first + last + 1));
        let text = shortened(&lines(100));
        assert_eq!(text.lines().count(), first + last + 1);
        assert!(text.contains(&format!("{}\n… {} lines\n{}\n", first - 1, 100 - first - last, 100 - last)), "{text}");
        assert_eq!(shortened(&"ü".repeat(WIDTH + 1)), format!("{}…\n", "ü".repeat(WIDTH)));
        assert_eq!(shortened("a  \n"), "a\n");
    }

    #[test]
    fn answers_follow_the_lines_that_two_sessions_share() {
        assert_eq!(common("a\nb\nend 1\n", "a\nb\nc\nend 2\n"), "a\nb\n".len());
        assert_eq!(common("", "a\n"), 0);
    }
}
