// Plugins tested natively: an episode, a session and a scoring with the same checks that a host makes.

import assert from "node:assert/strict";

import { Call, textOf } from "./content.mjs";
import { offers } from "./kinds.mjs";
import { Episode, Session, bySeat, score as scoreGroup } from "./rules.mjs";

export { Episode, Session };

/** Scores a group: one Map a trajectory. */
export function score(kind, group, options = {}, trainingStep = 0) {
  return scoreGroup(kind, group, Object.entries(options), trainingStep);
}

/** Opens a tool's session. */
export function openSession(kind, { setup, options = {}, seed = 0n } = {}) {
  return Session.open(kind, setup, Object.entries(options), BigInt(seed));
}

/**
 * An episode that a test plays, move by move; every seat is the test's. After every move a copy made by `snapshot` and
 * `restore`, where the environment offers them, must know the same state.
 */
export class Play {
  constructor(kind, { split = "train", index = 0, seed = 0n, options = {} } = {}) {
    this.kind = kind;
    [this.episode, this.started] = Episode.start(kind, { split, index }, Object.entries(options), BigInt(seed));
    /** What seat 0 earned so far. */
    this.reward = 0;
  }

  /** Whether the episode ended. */
  get over() {
    return this.episode.over;
  }

  /** The words that the seat to move saw last. */
  get seen() {
    const seats = bySeat((this.stepped ?? this.started).observations);
    return textOf(seats.get(this.episode.seat) ?? seats.values().next().value ?? "");
  }

  /** The seat to move says something. */
  say(text) {
    return this.act({ seat: this.episode.seat, content: [{ text }], text });
  }

  /** The seat to move calls a function of the environment. */
  call(name, args = {}) {
    return this.act({ seat: this.episode.seat, call: Call.of(name, args), content: [], text: "" });
  }

  /** Any action. */
  act(action) {
    this.stepped = this.episode.step(action);
    this.reward += bySeat(this.stepped.reward).get(0) ?? 0;
    if (offers(this.kind, "snapshot")) this.#checkSnapshot();
    return this.stepped;
  }

  /** Lets the expert play to the end, by messages and the environment's own calls; gives seat 0's reward. */
  followOracle(turns = 100) {
    for (let turn = 0; turn < turns; turn += 1) {
      const advice = this.episode.environment.advise([], []);
      if (typeof advice === "string") this.say(advice);
      else advice.forEach((call) => this.act({ seat: this.episode.seat, call, content: [], text: "" }));
      if (this.over) return this.reward;
    }
    throw new assert.AssertionError({ message: `the expert did not end the episode within ${turns} turns` });
  }

  #checkSnapshot() {
    const snapshot = this.episode.snapshot();
    const twin = Episode.restore(this.kind, snapshot);
    assert.deepEqual(twin.snapshot(), snapshot, "a restored episode gives another snapshot");
    if (offers(this.kind, "stateKey")) {
      assert.deepEqual(twin.environment.stateKey(), this.episode.environment.stateKey(), "and another state key");
    }
  }
}
