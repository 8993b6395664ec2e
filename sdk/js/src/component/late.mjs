// Exports of a component of a quick build, which evaluates the author's bundle at the first call.

import { SLOT_BYTES, contentOf, emptySlot } from "./slot.mjs";

/** A build writes over these bytes in the component's file. */
const slot = emptySlot(SLOT_BYTES);

let plugin;

function loaded() {
  if (!plugin) {
    // The engine names a file of evaluated text by its place of evaluation.
    globalThis.gymkhanaFile = " > eval";
    const evaluate = eval;
    evaluate(new TextDecoder().decode(contentOf(slot)));
    plugin = globalThis.gymkhanaPlugin;
  }
  return plugin;
}

/** Export object of an interface whose functions are those of the author's bundle. `shape` has the functions' names. */
export function late(name, shape) {
  const functions = Object.keys(shape).map((each) => [each, (...given) => loaded()[name][each](...given)]);
  return Object.fromEntries(functions);
}
