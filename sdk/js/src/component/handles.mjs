// What is open in this instance: episodes and sessions by their handles.

import { NotFound } from "../errors.mjs";

/** Things of one kind. Handles are never used twice, so that a closed one cannot name something else. */
export class Handles {
  #things = new Map();
  #next = 0;

  /** Keeps a thing and gives its handle. */
  open(thing) {
    this.#things.set(this.#next, thing);
    return this.#next++;
  }

  /** The thing behind a handle. */
  get(handle) {
    if (!this.#things.has(handle)) throw new NotFound(`handle ${handle} is not open`);
    return this.#things.get(handle);
  }

  /** Forgets the thing behind a handle and gives it; an unknown handle is let be. */
  close(handle) {
    const thing = this.#things.get(handle);
    this.#things.delete(handle);
    return thing;
  }
}
