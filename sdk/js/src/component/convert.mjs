// Conversion between the contract's records and the SDK's types.

import { Call, Float, Json, partsOf, schemaOf } from "../content.mjs";
import { PluginError } from "../errors.mjs";
import { host } from "../host.mjs";
import { state } from "../live.mjs";
import { tagOf } from "../options.mjs";
import { uncaught } from "./uncaught.mjs";

const MEDIA = ["image", "audio", "video", "other"];

/** Wraps exported functions: each `PluginError` becomes an error of the contract, and any other error is logged. */
export function exported(functions) {
  const guarded = Object.entries(functions).map(([name, call]) => [
    name,
    (...given) => {
      state.live = true;
      try {
        return call(...given);
      } catch (error) {
        if (!(error instanceof PluginError)) {
          host.log?.write("error", uncaught(error));
          throw error;
        }
        // An error with a payload becomes an error result; any other error traps.
        throw Object.assign(error, { payload: { tag: error.tag, val: error.message } });
      }
    },
  ]);
  return Object.fromEntries(guarded);
}

/** Converts content for the host. */
export function toParts(content) {
  return partsOf(content).map((part) => {
    if (part.text !== undefined) return { tag: "text", val: part.text };
    const tag = MEDIA.find((each) => part[each] !== undefined);
    if (!tag) throw new TypeError("a part must be { text } or one of { image, audio, video, other } with `mime`");
    return { tag, val: { mime: part.mime, bytes: part[tag] } };
  });
}

/** Converts content from the host. */
export function fromParts(parts) {
  return parts.map(({ tag, val }) => (tag === "text" ? { text: val } : { [tag]: val.bytes, mime: val.mime }));
}

/** Converts a value for the host. */
export function toValue(value) {
  const tag = tagOf(value);
  if (tag === "integer") return { tag, val: BigInt(value) };
  if (value instanceof Float) return { tag, val: value.value };
  if (value instanceof Json) return { tag, val: value.text };
  return { tag, val: value };
}

/**
 * Converts a value from the host. A whole floating-point number stays a `Float`, which the check of an option requires.
 */
export function fromValue({ tag, val }) {
  if (tag === "integer") return Number.isSafeInteger(Number(val)) ? Number(val) : val;
  if (tag === "number") return Number.isSafeInteger(val) ? new Float(val) : val;
  return tag === "other" ? new Json(val) : val;
}

/** Converts named values for the host. */
export function toNamed(values = {}) {
  return Object.entries(values).map(([name, value]) => ({ name, value: toValue(value) }));
}

/** Converts named values from the host and keeps repeated names. */
export function pairs(values) {
  return values.map(({ name, value }) => [name, fromValue(value)]);
}

/** Converts named values from the host for authors; the first value of a repeated name wins. */
export function fromNamed(values) {
  const plain = pairs(values).map(([name, value]) => [name, value instanceof Float ? value.value : value]);
  return Object.fromEntries(plain.reverse());
}

/** Converts functions for the host. */
export function toFunctions(functions) {
  return functions.map((each) => {
    const { name, description, cost = 0 } = each;
    return { name, description, parameters: schemaOf(each), cost };
  });
}

/** Converts a call for the host. */
export function toCall(call) {
  return { id: call.id, name: call.name, arguments: call.arguments };
}

/** Converts a call from the host. */
export function fromCall(call) {
  return new Call(call.name, call.arguments, call.id);
}

/** Converts declared options for the host. */
export function toOptions(options) {
  return options.map((option) => {
    const value = option.tag === "number" ? new Float(option.default) : option.default;
    return { name: option.name, description: option.told(), default: toValue(value) };
  });
}

/** Converts a range for the host. */
export function toRange([low, high]) {
  return { low, high };
}

/** Converts a task from the host. */
export function fromTask({ split, index }) {
  return { split, index: Number(index) };
}
