//! Stable hash, for splits and seeds.

/// 64-bit hash of `content` (FNV-1a with SplitMix64's finaliser), the same on every platform and in every version. For
/// splits and seeds, not for security.
#[must_use]
pub fn hash(content: &[u8]) -> u64 {
    let fnv = content
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    finalise(fnv)
}

/// SplitMix64's finaliser: a bijection in which every input bit affects every output bit.
pub(crate) fn finalise(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_before_the_finaliser() {
        // FNV-1a 64 of the empty input and "foobar", from the authors' test suite (draft-eastlake-fnv).
        assert_eq!(hash(b""), finalise(0xcbf2_9ce4_8422_2325));
        assert_eq!(hash(b"foobar"), finalise(0x8594_4171_f739_67e8));
    }

    #[test]
    fn low_bits_are_even() {
        let mut counts = [0_u32; 8];
        for number in 0..80_000_u32 {
            counts[(hash(&number.to_le_bytes()) % 8) as usize] += 1;
        }
        // 10,000 expected per bucket; six standard deviations are 561.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 561), "{counts:?}");
    }
}
