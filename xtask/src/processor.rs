//! Processor time of programs, from the system's accounts of processes.

use std::fs;
use std::time::Duration;

/// Ticks per second in `/proc/PID/stat`: a constant of Linux's interface for programs.
const TICKS_PER_SECOND: u32 = 100;

/// Processor time of a process that has ended or is about to, and of its children that ended before it. `None` if it is
/// gone.
pub fn of(process: u32) -> Option<Duration> {
    time(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?, &[OWN, CHILDREN])
}

/// Whether a process that this one started has ended and waits to be reaped.
pub fn has_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with(['Z', 'X']))
}

/// Processor time of all programs that this one started and that have ended, with their own children.
pub fn of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    time(&stat, &[CHILDREN]).unwrap_or_default()
}

/// Places of the times in user mode and in the kernel, counted from the state that follows the program's name.
const OWN: [usize; 2] = [11, 12];
const CHILDREN: [usize; 2] = [13, 14];

fn time(stat: &str, places: &[[usize; 2]]) -> Option<Duration> {
    // The name is in brackets, and may contain spaces and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: Option<u64> = places.as_flattened().iter().map(|place| fields.get(*place)?.parse::<u64>().ok()).sum();
    Some(Duration::from_secs(ticks?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn times_are_read_by_their_places() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 100 25 20 0 1";
        assert_eq!(time(stat, &[OWN]), Some(Duration::from_secs(3)));
        assert_eq!(time(stat, &[OWN, CHILDREN]), Some(Duration::from_millis(4250)));
        assert_eq!(time("7 (short) S 1", &[OWN]), None);
    }

    #[test]
    fn a_program_that_computes_takes_processor_time_and_one_that_waits_does_not() {
        let spent = |script: &str| {
            let (before, since) = (of_children(), Instant::now());
            assert!(Command::new("sh").args(["-c", script]).status().expect("a shell").success());
            (of_children() - before, since.elapsed())
        };
        let (computing, _) = spent("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
        let (waiting, wall) = spent("sleep 0.2");
        assert!(computing > Duration::from_millis(50), "{computing:?}");
        assert!(wall >= Duration::from_millis(200) && waiting < computing, "{waiting:?} of {wall:?}");
        assert!(of(std::process::id()).is_some() && of(0).is_none());
    }
}
