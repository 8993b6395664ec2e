// Options: declared once, checked in one place, looked up without ceremony.

import { Invalid } from "./errors.mjs";
import { Float, Json, shown } from "./content.mjs";

const KINDS = { flag: "true or false", integer: "a whole number", number: "a number", text: "text", bytes: "bytes", other: "JSON" };

/** An option that a run file may set. */
export class Option {
  constructor(tag, name, description, fallback, { within, oneOf = [] } = {}) {
    Object.assign(this, { tag, name, description, default: fallback, within, oneOf });
  }

  /** An option that is true or false. */
  static flag(name, description, fallback) {
    return new Option("flag", name, description, fallback);
  }

  /** A whole number; `within` holds its ends, both included. */
  static integer(name, description, fallback, limits) {
    return new Option("integer", name, description, fallback, limits);
  }

  /** A number; `within` holds its ends, both included, an infinite one being open. */
  static number(name, description, fallback, limits) {
    return new Option("number", name, description, fallback, limits);
  }

  /** Text; `oneOf` lists what it may be. */
  static text(name, description, fallback, limits) {
    return new Option("text", name, description, fallback, limits);
  }

  /** Bytes. */
  static bytes(name, description, fallback) {
    return new Option("bytes", name, description, fallback);
  }

  /** The description with the range or the choices, as the host reads it. */
  told() {
    const limits = this.#limits();
    return limits ? `${this.description} (${limits})` : this.description;
  }

  /** A value as this option's type. Throws `Invalid` for another type or one that is out of range. */
  check(value) {
    const tag = tagOf(value);
    // A run file may write 1 for 1.0.
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

/** The contract's name for a value's type. A whole number is one; `Float` says otherwise. */
export function tagOf(value) {
  if (value instanceof Float) return "number";
  if (value instanceof Json) return "other";
  if (value instanceof Uint8Array) return "bytes";
  const tags = { boolean: "flag", bigint: "integer", string: "text" };
  if (typeof value === "number") return Number.isSafeInteger(value) ? "integer" : "number";
  const tag = tags[typeof value];
  if (!tag) throw new TypeError(`${value} is no value: give a boolean, number, bigint, string, Uint8Array, Float or Json`);
  return tag;
}

/** The declared options with `given`, pairs of a name and a value, over them: a plain object of checked values. */
export function readOptions(declared, given = []) {
  const chosen = {};
  for (const [name, value] of given) {
    const option = declared.find((each) => each.name === name);
    if (!option) throw new Invalid(unknown(name, declared.map((each) => each.name)));
    if (Object.hasOwn(chosen, name)) throw new Invalid(`option \`${name}\` is given twice: leave one out`);
    chosen[name] = option.check(value);
  }
  const values = Object.fromEntries(declared.map((each) => [each.name, each.default]));
  return new Proxy(Object.freeze({ ...values, ...chosen }), {
    get(target, name) {
      if (typeof name === "string" && !Object.hasOwn(target, name)) {
        throw new Error(`the plugin looks up option \`${name}\` and never declared it: add it to \`options\``);
      }
      return target[name];
    },
  });
}

function unknown(name, known) {
  if (known.length === 0) return `unknown option \`${name}\`; there are no options to set`;
  return `unknown option \`${name}\`; the nearest known one is \`${nearest(name, known)}\``;
}

/** The word with the fewest single-letter edits. */
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
