// Contents, values, functions and calls.

import { Mistake } from "./errors.mjs";

/** Content as a list of parts: `{ text }`, or `{ image | audio | video | other: bytes, mime }`. */
export function partsOf(content) {
  const parts = Array.isArray(content) ? content : [content];
  return parts.map((part) => (typeof part === "string" ? { text: part } : part));
}

/** Concatenated text parts of a content; other parts are skipped. */
export function textOf(content) {
  return partsOf(content)
    .map((part) => part.text ?? "")
    .join("");
}

/** Number that is sent as a floating-point number even if it is whole. */
export class Float {
  constructor(value) {
    this.value = value;
  }
}

/** Value of any other type, as JSON text. */
export class Json {
  constructor(text) {
    this.text = text;
  }
}

/** Human-readable form of a value; bytes are shown by their count. */
export function shown(value) {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (value instanceof Float) return String(value.value);
  if (value instanceof Json) return value.text;
  return String(value);
}

/** Argument of a function: its type (`"string"`, `"integer"`, `"number"`, `"boolean"`) and description. */
export function parameter(type, description, { optional = false } = {}) {
  return { type, description, optional };
}

/** Function that a policy may call; `parameters` maps argument names to `parameter(…)`. */
export function fn(name, description, parameters = {}, { cost = 0, schema } = {}) {
  return { name, description, parameters, cost, schema };
}

/** JSON Schema of a function's arguments object, as JSON text. */
export function schemaOf({ parameters, schema }) {
  if (schema) return JSON.stringify(schema);
  const properties = Object.entries(parameters).map(([name, { type, description }]) => [name, { type, description }]);
  const required = Object.keys(parameters).filter((name) => !parameters[name].optional);
  return JSON.stringify({ type: "object", properties: Object.fromEntries(properties), required });
}

/**
 * Function call, as the policy wrote it. The argument accessors throw `Mistake` with a message that helps the agent.
 */
export class Call {
  constructor(name, args = "{}", id = "") {
    this.name = name;
    /** JSON object, as text. */
    this.arguments = args;
    /** Identifier, unique within the episode, assigned by the host. */
    this.id = id;
  }

  /** Call with these arguments, for use in `Environment.advise`. */
  static of(name, args = {}) {
    return new Call(name, JSON.stringify(args));
  }

  /** String argument `name`. */
  text(name) {
    return this.#argument(name, "a string", (value) => typeof value === "string");
  }

  /** Integer argument `name`. */
  integer(name) {
    return this.#argument(name, "a whole number", Number.isInteger);
  }

  /** Number argument `name`. */
  number(name) {
    return this.#argument(name, "a number", (value) => typeof value === "number");
  }

  /** Boolean argument `name`. */
  flag(name) {
    return this.#argument(name, "true or false", (value) => typeof value === "boolean");
  }

  /** Whether the call contains the argument `name`. */
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
