// Slot in the memory of a component for the bundle of its author.
//
// A build finds the slot in the component's file by its mark and writes over the filling: four bytes of length, little
// endian, and the content.

/** Size of the slot with its mark. */
export const SLOT_BYTES = 1 << 20;

const MARK = Uint8Array.from("gymkhana:bundle\n", (letter) => letter.charCodeAt(0));

/** Byte of an empty slot. It is not zero: a component's file omits what is. */
const FILLING = 0xa5;

const START = MARK.length + 4;

/** Slot without content, or its first `length` bytes. */
export function emptySlot(length) {
  const slot = new Uint8Array(length).fill(FILLING);
  slot.set(MARK);
  return slot;
}

/** Whether content fits into a slot. */
export function fits(content) {
  return START + content.length <= SLOT_BYTES;
}

/** Writes content into the slot at `place` in a component; false if the slot is too small. */
export function fill(component, place, content) {
  if (!fits(content)) return false;
  const view = new DataView(component.buffer, component.byteOffset + place);
  view.setUint32(MARK.length, content.length, true);
  component.set(content, place + START);
  return true;
}

/** Content of a slot. */
export function contentOf(slot) {
  const length = new DataView(slot.buffer, slot.byteOffset).getUint32(MARK.length, true);
  if (START + length > slot.length) throw new Error("the component is the base of quick builds: it contains no plugin");
  return slot.subarray(START, START + length);
}
