// Open episodes and sessions of this instance, by handle.

import { NotFound } from "../errors.mjs";

/** Objects of one kind by handle. Handles are never reused, so a closed handle stays invalid. */
export class Handles {
  #things = new Map();
  #next = 0;

  /** Stores an object and returns its handle. */
  open(thing) {
    this.#things.set(this.#next, thing);
    return this.#next++;
  }

  /** Object behind a handle. Throws `NotFound` for a closed or unknown handle. */
  get(handle) {
    if (!this.#things.has(handle)) throw new NotFound(`handle ${handle} is not open`);
    return this.#things.get(handle);
  }

  /** Removes and returns the object behind a handle, or undefined for an unknown handle. */
  close(handle) {
    const thing = this.#things.get(handle);
    this.#things.delete(handle);
    return thing;
  }
}
