// Seeded random numbers, the same on every platform and in every version.

const MASK = (1n << 64n) - 1n;

function finalise(bits) {
  bits = ((bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  bits = ((bits ^ (bits >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return bits ^ (bits >> 31n);
}

/** 64-bit hash of bytes or text (finalised FNV-1a), the same in all SDKs. For splits and seeds, not for security. */
export function hash64(content) {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  let bits = 0xcbf29ce484222325n;
  for (const byte of bytes) bits = ((bits ^ BigInt(byte)) * 0x100000001b3n) & MASK;
  return finalise(bits);
}

/** SplitMix64 generator: small and portable; its state is one bigint, which a snapshot can hold. */
export class Rng {
  /** Stream of a 64-bit seed; `new Rng(rng.state)` continues the stream of `rng`. */
  constructor(seed) {
    this.state = BigInt(seed) & MASK;
  }

  /** Next 64 bits, as a bigint. */
  bits() {
    this.state = (this.state + 0x9e3779b97f4a7c15n) & MASK;
    return finalise(this.state);
  }

  /** Uniform integer in `0..bound`, excluding `bound`. Throws `RangeError` if `bound` is not positive. */
  below(bound) {
    if (!(bound > 0)) throw new RangeError(`empty range: \`bound\` must be positive, not ${bound}`);
    const wide = BigInt(bound);
    // Lemire's method: a low half below the threshold would bias the result and is rejected.
    const threshold = (1n << 64n) % wide;
    for (;;) {
      const product = this.bits() * wide;
      if ((product & MASK) >= threshold) return Number(product >> 64n);
    }
  }

  /** Uniform integer from `low` to `high`, both inclusive. Throws `RangeError` if `low > high`. */
  between(low, high) {
    if (low > high) throw new RangeError(`empty range: ${low} to ${high}`);
    return low + this.below(high - low + 1);
  }

  /** Uniform number in [0, 1), a multiple of 2^-53. */
  unit() {
    return Number(this.bits() >> 11n) / 2 ** 53;
  }

  /** Uniformly chosen element of `items`. */
  pick(items) {
    return items[this.below(items.length)];
  }

  /** Shuffles an array in place. */
  shuffle(items) {
    for (let last = items.length - 1; last > 0; last -= 1) {
      const other = this.below(last + 1);
      [items[last], items[other]] = [items[other], items[last]];
    }
  }
}
