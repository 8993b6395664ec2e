//! Output of installed programs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gymkhana_waits::{ChildWait, Counterpart, output};

/// Longest time of a program that says its version.
const LONGEST: Duration = Duration::from_secs(20);

/// First line that a program prints; `None` if it is not installed, fails or does not end.
pub fn first_line(program: &Path, arguments: &[&str]) -> Option<String> {
    first_line_within(LONGEST, program, arguments)
}

fn first_line_within(bound: Duration, program: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stderr(Stdio::null());
    let (named, say) = (format!("`{}`", program.display()), |_: &str| {});
    let wait = ChildWait { counterpart: Counterpart::BuildTool, named, bound, first_report: bound, say: &say };
    let output = output(&mut command, &wait).ok()?.inspect_err(|silent| tracing::warn!("{silent}")).ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Major and minor number of a version, such as (3, 11) of `Python 3.11.2`.
pub fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split_whitespace().next_back()?.trim_start_matches('v').split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_successful_program_is_read() {
        let shell = |script| first_line(Path::new("/bin/sh"), &["-c", script]);
        assert_eq!(shell("echo ' one '; echo two"), Some("one".to_owned()));
        assert_eq!(shell("echo one; exit 3"), None);
        assert_eq!(first_line(Path::new("/nowhere/program"), &[]), None);
    }

    #[test]
    fn a_stopped_program_is_left_after_the_bound() {
        let stopped = ["-c", "kill -s STOP $$; echo 1.0"];
        assert_eq!(first_line_within(Duration::from_secs(1), Path::new("/bin/sh"), &stopped), None);
    }

    #[test]
    fn versions_are_read_with_and_without_a_name() {
        assert_eq!(
            ["Python 3.11.2", "v20.19.1", "10.8"].map(major_minor),
            [Some((3, 11)), Some((20, 19)), Some((10, 8))]
        );
        assert_eq!(["", "Python", "3"].map(major_minor), [None; 3]);
    }
}
