//! File handles: a listener uses a share of them and leaves the others to what runs in the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Share of the process's file handles that a listener may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleShare {
    /// Half: the process exists to serve.
    Half,
    /// A quarter: agents of a run use the listener.
    Quarter,
    /// An eighth: the listener shows a run.
    Eighth,
}

impl HandleShare {
    fn divisor(self) -> u64 {
        match self {
            Self::Half => 2,
            Self::Quarter => 4,
            Self::Eighth => 8,
        }
    }
}

/// Number of connections, at most `wanted` and at least 1, that fit into a share of the process's file handles, if each
/// needs `each` handles. Raises the soft limit of the process as far as needed and allowed.
pub(super) fn handles_for(wanted: usize, each: usize, share: HandleShare) -> usize {
    let needed = (wanted as u64).saturating_mul(each as u64).saturating_mul(share.divisor());
    connections(wanted, each, share, raised(needed))
}

fn connections(wanted: usize, each: usize, share: HandleShare, handles: u64) -> usize {
    let fit = handles / share.divisor() / each.max(1) as u64;
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, wanted.max(1))
}

/// The process's limit of file handles, raised to `needed` if it is lower and may be raised.
fn raised(needed: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    let wanted = needed.min(limit.maximum.unwrap_or(u64::MAX));
    let higher = Rlimit { current: Some(wanted), maximum: limit.maximum };
    if soft < wanted && setrlimit(Resource::Nofile, higher).is_ok() { wanted } else { soft }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_leaves_handles_to_others() {
        assert_eq!(connections(4096, 1, HandleShare::Half, 1024), 512);
        assert_eq!(connections(4096, 2, HandleShare::Half, 1024), 256);
        assert_eq!(connections(128, 1, HandleShare::Eighth, 1024), 128);
        assert_eq!(connections(128, 1, HandleShare::Eighth, 256), 32);
        assert_eq!(connections(4096, 1, HandleShare::Half, 1 << 20), 4096, "at most what is asked for");
        assert_eq!(connections(16, 1, HandleShare::Eighth, 3), 1, "at least one");
    }
}
