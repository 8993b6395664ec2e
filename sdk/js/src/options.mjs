// Declaration, validation and look-up of options.

import { Invalid } from "./errors.mjs";
import { Float, Json, shown } from "./content.mjs";

const KINDS = { flag: "true or false", integer: "a whole number", number: "a number", text: "text", bytes: "bytes", other: "JSON" };

/** Known to the named constructors only. */
const NAMED = Symbol("named constructor");

/** Option that a run file may set. The named constructors throw `TypeError` for a default that it would refuse. */
export class Option {
  constructor(made, tag, name, description, fallback, { within, oneOf = [] } = {}) {
    if (made !== NAMED) {
      throw new TypeError(
        `\`new Option(…)\` is not supported: write \`Option.number("${String(made)}", …)\`, or flag, integer, text or bytes`,
      );
    }
    Object.assign(this, { tag, name, description, default: fallback, within, oneOf });
    try {
      this.check(fallback);
    } catch (error) {
      throw new TypeError(error instanceof Invalid ? `the default of ${error.message}` : error.message);
    }
  }

  /** Boolean option. */
  static flag(name, description, fallback) {
    return new Option(NAMED, "flag", name, description, fallback);
  }

  /** Integer option; `within` holds its inclusive bounds. */
  static integer(name, description, fallback, limits) {
    return new Option(NAMED, "integer", name, description, fallback, limits);
  }

  /** Number option; `within` holds its inclusive bounds. An infinite bound is open. */
  static number(name, description, fallback, limits) {
    return new Option(NAMED, "number", name, description, fallback, limits);
  }

  /** Text option; `oneOf` lists the allowed texts. */
  static text(name, description, fallback, limits) {
    return new Option(NAMED, "text", name, description, fallback, limits);
  }

  /** Bytes option. */
  static bytes(name, description, fallback) {
    return new Option(NAMED, "bytes", name, description, fallback);
  }

  /** Description with the range or the choices, as reported to the host. */
  told() {
    const limits = this.#limits();
    return limits ? `${this.description} (${limits})` : this.description;
  }

  /**
   * Validates a value and converts it to this option's type. Throws `Invalid` for a wrong type or an out-of-range
   * value.
   */
  check(value) {
    const tag = tagOf(value);
    // A run file may write 1 instead of 1.0.
    const fits = tag === this.tag || (this.tag === "number" && tag === "integer");
    if (!fits) throw this.#refusal(KINDS[this.tag], value);
    const plain = value instanceof Float ? value.value : value;
    if (this.tag === "integer" || this.tag === "number") {
      const [low, high] = this.within ?? [-Infinity, Infinity];
      const inside = low <= plain && plain <= high && (this.within || Number.isFinite(Number(plain)));
      if (!inside) throw this.#refusal(this.#limits() || "finite", value);
    }
    if (this.tag === "text" && this.oneOf.length > 0 && !this.oneOf.includes(plain)) {
      throw this.#refusal(this.#limits(), value);
    }
    return this.tag === "number" ? Number(plain) : plain;
  }

  #limits() {
    if (this.oneOf.length > 0) return `one of ${this.oneOf.join(", ")}`;
    const [low, high] = this.within ?? [-Infinity, Infinity];
    if (Number.isFinite(low)) return Number.isFinite(high) ? `${low} to ${high}` : `at least ${low}`;
    return Number.isFinite(high) ? `at most ${high}` : "";
  }

  #refusal(wanted, value) {
    return new Invalid(`option \`${this.name}\` must be ${wanted}, not ${shown(value)}`);
  }
}

/** The contract's name for a value's type. Whole numbers are integers; `Float` overrides this. */
export function tagOf(value) {
  if (value instanceof Float) return "number";
  if (value instanceof Json) return "other";
  if (value instanceof Uint8Array) return "bytes";
  const tags = { boolean: "flag", bigint: "integer", string: "text" };
  if (typeof value === "number") return Number.isSafeInteger(value) ? "integer" : "number";
  const tag = tags[typeof value];
  if (!tag) throw new TypeError(`${value} is not a valid value: use boolean, number, bigint, string, Uint8Array, Float or Json`);
  return tag;
}

/** Plain object of validated options: the defaults, overlaid with `given`, pairs of name and value. */
export function readOptions(declared, given = []) {
  const chosen = {};
  for (const [name, value] of given) {
    const option = declared.find((each) => each.name === name);
    if (!option) throw new Invalid(unknown(name, declared.map((each) => each.name)));
    if (Object.hasOwn(chosen, name)) throw new Invalid(`option \`${name}\` is given twice: remove one`);
    chosen[name] = option.check(value);
  }
  const values = Object.fromEntries(declared.map((each) => [each.name, each.default]));
  return new Proxy(Object.freeze({ ...values, ...chosen }), {
    get(target, name) {
      if (typeof name === "string" && !Object.hasOwn(target, name)) {
        throw new Error(`option \`${name}\` is not declared: add it to \`options\``);
      }
      return target[name];
    },
  });
}

function unknown(name, known) {
  if (known.length === 0) return `unknown option \`${name}\`; this plugin has no options`;
  return `unknown option \`${name}\`; the nearest known one is \`${nearest(name, known)}\``;
}

/** Known word with the smallest edit distance. */
export function nearest(word, known) {
  return known.reduce((best, each) => (edits(word, each) < edits(word, best) ? each : best));
}

function edits(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, place) => place);
  for (let i = 0; i < a.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j += 1) {
      next.push(Math.min(row[j + 1] + 1, next[j] + 1, row[j] + (a[i] === b[j] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length];
}
