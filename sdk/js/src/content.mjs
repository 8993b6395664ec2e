// Contents, values, functions and calls, as JavaScript says them.

import { Mistake } from "./errors.mjs";

/** Content as a list of parts: `{ text }`, or `{ image | audio | video | other: bytes, mime }`. */
export function partsOf(content) {
  const parts = Array.isArray(content) ? content : [content];
  return parts.map((part) => (typeof part === "string" ? { text: part } : part));
}

/** The text parts of a content, one after the other; other media count for nothing. */
export function textOf(content) {
  return partsOf(content)
    .map((part) => part.text ?? "")
    .join("");
}

/** A number that stays a number where `3` would be sent as a whole number. */
export class Float {
  constructor(value) {
    this.value = value;
  }
}

/** A value of no other type, as JSON text. */
export class Json {
  constructor(text) {
    this.text = text;
  }
}

/** A value as a person would write it; bytes only by their number. */
export function shown(value) {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (value instanceof Float) return String(value.value);
  if (value instanceof Json) return value.text;
  return String(value);
}

/** One argument of a function: its type (`"string"`, `"integer"`, `"number"`, `"boolean"`) and what it means. */
export function parameter(type, description, { optional = false } = {}) {
  return { type, description, optional };
}

/** A function that a policy may call; `parameters` maps names to `parameter(…)`. */
export function fn(name, description, parameters = {}, { cost = 0, schema } = {}) {
  return { name, description, parameters, cost, schema };
}

/** The JSON Schema of a function's arguments object, as JSON text. */
export function schemaOf({ parameters, schema }) {
  if (schema) return JSON.stringify(schema);
  const properties = Object.entries(parameters).map(([name, { type, description }]) => [name, { type, description }]);
  const required = Object.keys(parameters).filter((name) => !parameters[name].optional);
  return JSON.stringify({ type: "object", properties: Object.fromEntries(properties), required });
}

/** A call of a function, as the policy wrote it. The look-ups throw `Mistake` in words that help the agent. */
export class Call {
  constructor(name, args = "{}", id = "") {
    this.name = name;
    /** JSON text of an object. */
    this.arguments = args;
    /** Unique within the episode; the host chooses it. */
    this.id = id;
  }

  /** A call with these arguments, as an expert advises it. */
  static of(name, args = {}) {
    return new Call(name, JSON.stringify(args));
  }

  /** The text argument `name`. */
  text(name) {
    return this.#argument(name, "a string", (value) => typeof value === "string");
  }

  /** The whole-number argument `name`. */
  integer(name) {
    return this.#argument(name, "a whole number", Number.isInteger);
  }

  /** The number argument `name`. */
  number(name) {
    return this.#argument(name, "a number", (value) => typeof value === "number");
  }

  /** The true-or-false argument `name`. */
  flag(name) {
    return this.#argument(name, "true or false", (value) => typeof value === "boolean");
  }

  /** Whether the argument `name` is given. */
  has(name) {
    return Object.hasOwn(this.#object(name), name);
  }

  #object(name) {
    let given;
    try {
      given = JSON.parse(this.arguments);
    } catch (error) {
      throw new Mistake(`the arguments are not JSON (${error.message}); write {"${name}": …}`);
    }
    if (given === null || typeof given !== "object" || Array.isArray(given)) {
      throw new Mistake(`the arguments must be an object; write {"${name}": …}`);
    }
    return given;
  }

  #argument(name, wanted, fits) {
    const given = this.#object(name);
    if (!Object.hasOwn(given, name)) {
      throw new Mistake(`argument \`${name}\` is missing; given: ${Object.keys(given).join(", ") || "none"}`);
    }
    if (!fits(given[name])) {
      throw new Mistake(`argument \`${name}\` must be ${wanted}, not ${JSON.stringify(given[name])}`);
    }
    return given[name];
  }
}
