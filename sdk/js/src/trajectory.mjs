// Finished trajectories, the input of rewards.

import { textOf } from "./content.mjs";

/**
 * Turn: `kind` is `message`, `call`, `answer`, `observation` or `other`. A call has `call` and `cost` and no `content`;
 * an answer also has `id` and `failed`.
 */
export class Turn {
  constructor(kind, seat, fields = {}) {
    Object.assign(this, { kind, seat, content: [], ...fields });
  }

  /** Text of the content. */
  get text() {
    return textOf(this.content);
  }

  /** Seat that made this turn; undefined for answers and observations. */
  get actor() {
    return this.kind === "message" || this.kind === "call" ? this.seat : undefined;
  }
}

/** Evidence at `text.slice(start, end)`, where `text` is that of the turn. The host counts in bytes of UTF-8. */
export function evidenceAt(turn, text, start, end, note) {
  const bytes = (from, to) => new TextEncoder().encode(text.slice(from, to)).length;
  const first = bytes(0, start);
  return { turn, start: first, end: first + bytes(start, end), note };
}

/** Finished attempt at a task. */
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

  /** Seats that made a turn, in ascending order. */
  seats() {
    const actors = this.turns.map((turn) => turn.actor).filter((seat) => seat !== undefined);
    return [...new Set(actors)].sort((a, b) => a - b);
  }

  /** Last action of a seat, if that is a message: the index of its turn and its text. */
  lastMessage(seat) {
    const index = this.turns.findLastIndex((turn) => turn.actor === seat);
    const turn = this.turns[index];
    return turn?.kind === "message" ? { turn: index, text: turn.text } : undefined;
  }

  /** Calls of a seat, in order. */
  calls(seat) {
    return this.turns.filter((turn) => turn.kind === "call" && turn.seat === seat);
  }
}
