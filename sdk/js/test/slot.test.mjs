// Slot of quick builds.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SLOT_BYTES, contentOf, emptySlot, fill } from "../src/component/slot.mjs";

test("a slot returns what was written into it", () => {
  const component = new Uint8Array(SLOT_BYTES + 14);
  component.set(emptySlot(SLOT_BYTES), 7);
  assert.ok(fill(component, 7, Uint8Array.of(1, 2, 3)));
  assert.deepEqual(contentOf(component.subarray(7, 7 + SLOT_BYTES)), Uint8Array.of(1, 2, 3));
  assert.deepEqual([...component.subarray(0, 7), ...component.subarray(7 + SLOT_BYTES)], Array(14).fill(0));
});

test("what is larger than a slot is refused", () => {
  const component = emptySlot(SLOT_BYTES);
  assert.ok(fill(component, 0, new Uint8Array(SLOT_BYTES - 20)));
  assert.ok(!fill(component, 0, new Uint8Array(SLOT_BYTES - 19)));
});

test("an empty slot has no content", () => {
  assert.throws(() => contentOf(emptySlot(SLOT_BYTES)), /contains no plugin/);
});
