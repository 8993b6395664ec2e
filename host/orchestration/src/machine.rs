//! Memory of the machine and of the container.

/// Memory in bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct MachineMemory {
    /// Memory that new processes can use.
    pub available: u64,
    /// All memory.
    pub total: u64,
}

/// Reads the memory of the machine, and the limit of the control group; `None` if the system does not report it.
#[must_use]
pub fn memory() -> Option<MachineMemory> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let group = |name: &str| read(&format!("/sys/fs/cgroup/memory.{name}"));
    let number = |name: &str| group(name)?.trim().parse::<u64>().ok();
    let used = number("current").map(|current| current.saturating_sub(reclaimable(&group("stat").unwrap_or_default())));
    Some(within_group(of_machine(&read("/proc/meminfo")?)?, number("max"), used))
}

/// Memory in the text of `/proc/meminfo`.
fn of_machine(meminfo: &str) -> Option<MachineMemory> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(MachineMemory { available: bytes("MemAvailable")?, total: bytes("MemTotal")? })
}

/// Cached files of a control group that the system drops on demand, in the text of `memory.stat`.
fn reclaimable(stat: &str) -> u64 {
    let bytes = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok());
    bytes.unwrap_or(0)
}

/// Memory within the limit and the use of a control group, if it has a limit.
fn within_group(machine: MachineMemory, limit: Option<u64>, used: Option<u64>) -> MachineMemory {
    let Some(limit) = limit else { return machine };
    let free = limit.saturating_sub(used.unwrap_or(0));
    MachineMemory { available: machine.available.min(free), total: machine.total.min(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    4194304 kB\n";

    #[test]
    fn the_machines_memory_is_read() {
        assert_eq!(of_machine(MEMINFO), Some(MachineMemory { available: 4 << 30, total: 8 << 30 }));
        assert_eq!(of_machine("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn a_control_group_with_a_limit_counts() {
        let machine = || MachineMemory { available: 4 << 30, total: 8 << 30 };
        assert_eq!(within_group(machine(), None, Some(1 << 30)), machine());
        let group = within_group(machine(), Some(3 << 30), Some(1 << 30));
        assert_eq!(group, MachineMemory { available: 2 << 30, total: 3 << 30 });
        assert_eq!(within_group(machine(), Some(1 << 30), Some(2 << 30)).available, 0);
        assert_eq!(reclaimable("anon 7\ninactive_file 4096\nactive_file 1\n"), 4096);
        assert_eq!(reclaimable(""), 0);
    }
}
