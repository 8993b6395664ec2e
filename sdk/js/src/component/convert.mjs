// The contract's records from JavaScript's and back.

import { Call, Float, Json, partsOf, schemaOf } from "../content.mjs";
import { PluginError } from "../errors.mjs";
import { state } from "../live.mjs";
import { tagOf } from "../options.mjs";

const MEDIA = ["image", "audio", "video", "other"];

/** Exported functions whose `PluginError`s the host receives as the contract's errors. */
export function exported(functions) {
  const guarded = Object.entries(functions).map(([name, call]) => [
    name,
    (...given) => {
      state.live = true;
      try {
        return call(...given);
      } catch (error) {
        if (!(error instanceof PluginError)) throw error;
        // Whatever has a payload is an answer, not a trap.
        throw Object.assign(error, { payload: { tag: error.tag, val: error.message } });
      }
    },
  ]);
  return Object.fromEntries(guarded);
}

/** Content for the host. */
export function toParts(content) {
  return partsOf(content).map((part) => {
    if (part.text !== undefined) return { tag: "text", val: part.text };
    const tag = MEDIA.find((each) => part[each] !== undefined);
    if (!tag) throw new TypeError("a part is { text } or one of { image, audio, video, other } with its mime");
    return { tag, val: { mime: part.mime, bytes: part[tag] } };
  });
}

/** Content from the host. */
export function fromParts(parts) {
  return parts.map(({ tag, val }) => (tag === "text" ? { text: val } : { [tag]: val.bytes, mime: val.mime }));
}

/** A value for the host. */
export function toValue(value) {
  const tag = tagOf(value);
  if (tag === "integer") return { tag, val: BigInt(value) };
  if (value instanceof Float) return { tag, val: value.value };
  if (value instanceof Json) return { tag, val: value.text };
  return { tag, val: value };
}

/** A value from the host. A number with no fraction stays a `Float`, as an option's check needs the difference. */
export function fromValue({ tag, val }) {
  if (tag === "integer") return Number.isSafeInteger(Number(val)) ? Number(val) : val;
  if (tag === "number") return Number.isSafeInteger(val) ? new Float(val) : val;
  return tag === "other" ? new Json(val) : val;
}

/** Values with their names for the host. */
export function toNamed(values = {}) {
  return Object.entries(values).map(([name, value]) => ({ name, value: toValue(value) }));
}

/** Values with their names from the host, as they came: a name may stand twice. */
export function pairs(values) {
  return values.map(({ name, value }) => [name, fromValue(value)]);
}

/** Values with their names from the host, as an author reads them; the first of one name counts. */
export function fromNamed(values) {
  const plain = pairs(values).map(([name, value]) => [name, value instanceof Float ? value.value : value]);
  return Object.fromEntries(plain.reverse());
}

/** Functions for the host. */
export function toFunctions(functions) {
  return functions.map((each) => {
    const { name, description, cost = 0 } = each;
    return { name, description, parameters: schemaOf(each), cost };
  });
}

/** A call for the host. */
export function toCall(call) {
  return { id: call.id, name: call.name, arguments: call.arguments };
}

/** A call from the host. */
export function fromCall(call) {
  return new Call(call.name, call.arguments, call.id);
}

/** Declared options for the host. */
export function toOptions(options) {
  return options.map((option) => {
    const value = option.tag === "number" ? new Float(option.default) : option.default;
    return { name: option.name, description: option.told(), default: toValue(value) };
  });
}

/** A range for the host. */
export function toRange([low, high]) {
  return { low, high };
}

/** A task from the host. */
export function fromTask({ split, index }) {
  return { split, index: Number(index) };
}
