// What rewards see of an attempt.

import { textOf } from "./content.mjs";

/**
 * One turn: `kind` is `message`, `call`, `answer`, `observation` or `other`; `content` is there but for a call, `call` and
 * `cost` for a call, `id` and `failed` for an answer.
 */
export class Turn {
  constructor(kind, seat, fields = {}) {
    Object.assign(this, { kind, seat, content: [], ...fields });
  }

  /** The text of the content. */
  get text() {
    return textOf(this.content);
  }

  /** The seat that made this turn; none for what tools and the environment did. */
  get actor() {
    return this.kind === "message" || this.kind === "call" ? this.seat : undefined;
  }
}

/** One attempt at a task, finished. */
export class Trajectory {
  constructor(fields = {}) {
    Object.assign(this, {
      task: { split: "train", index: 0 },
      turns: [],
      ending: "terminated",
      environmentRewards: new Map(),
      extras: {},
      privileged: {},
      views: {},
      ...fields,
    });
  }

  /** The seats that made a turn, in ascending order. */
  seats() {
    const actors = this.turns.map((turn) => turn.actor).filter((seat) => seat !== undefined);
    return [...new Set(actors)].sort((a, b) => a - b);
  }

  /** The last thing that a seat did, when it was a message: the index of its turn and its text. */
  lastMessage(seat) {
    const index = this.turns.findLastIndex((turn) => turn.actor === seat);
    const turn = this.turns[index];
    return turn?.kind === "message" ? { turn: index, text: turn.text } : undefined;
  }

  /** The calls that a seat made, in order. */
  calls(seat) {
    return this.turns.filter((turn) => turn.kind === "call" && turn.seat === seat);
  }
}
