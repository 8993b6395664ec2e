// Random numbers that follow from a seed, on every platform and in every version.

const MASK = (1n << 64n) - 1n;

function finalise(bits) {
  bits = ((bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  bits = ((bits ^ (bits >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return bits ^ (bits >> 31n);
}

/** A 64-bit hash of bytes or text, the same in all SDKs: FNV-1a, finalised. For splits and seeds, not for security. */
export function hash64(content) {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  let bits = 0xcbf29ce484222325n;
  for (const byte of bytes) bits = ((bits ^ BigInt(byte)) * 0x100000001b3n) & MASK;
  return finalise(bits);
}

/** SplitMix64: small, portable, and its whole state is one bigint, which a snapshot can hold. */
export class Rng {
  /** The stream of a 64-bit seed; `new Rng(rng.state)` goes on where `rng` is. */
  constructor(seed) {
    this.state = BigInt(seed) & MASK;
  }

  /** The next 64 bits, as a bigint. */
  bits() {
    this.state = (this.state + 0x9e3779b97f4a7c15n) & MASK;
    return finalise(this.state);
  }

  /** A number below `bound`, each with the same probability. */
  below(bound) {
    if (!(bound > 0)) throw new RangeError("no number is below 0");
    const wide = BigInt(bound);
    // Lemire's rejection: the low half of the product says whether this draw would favour some numbers.
    const threshold = (1n << 64n) % wide;
    for (;;) {
      const product = this.bits() * wide;
      if ((product & MASK) >= threshold) return Number(product >> 64n);
    }
  }

  /** A whole number from `low` to `high`, both included. */
  between(low, high) {
    if (low > high) throw new RangeError(`no number is between ${low} and ${high}`);
    return low + this.below(high - low + 1);
  }

  /** A number in 0..1, a multiple of 2^-53, 1 excluded. */
  unit() {
    return Number(this.bits() >> 11n) / 2 ** 53;
  }

  /** One of `items`. */
  pick(items) {
    return items[this.below(items.length)];
  }

  /** Puts an array into a random order. */
  shuffle(items) {
    for (let last = items.length - 1; last > 0; last -= 1) {
      const other = this.below(last + 1);
      [items[last], items[other]] = [items[other], items[last]];
    }
  }
}
