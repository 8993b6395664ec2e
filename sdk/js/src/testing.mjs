// Native tests of plugins, with the checks that a component makes.

import assert from "node:assert/strict";

import { Call, textOf } from "./content.mjs";
import { offers } from "./kinds.mjs";
import { Episode, Session, bySeat, score as scoreGroup } from "./rules.mjs";

export { Episode, Session };

/** Scores a group: one Map per trajectory. */
export function score(kind, group, options = {}, trainingStep = 0) {
  return scoreGroup(kind, group, Object.entries(options), trainingStep);
}

/** Opens a session of a tool. */
export function openSession(kind, { setup, options = {}, seed = 0n } = {}) {
  return Session.open(kind, setup, Object.entries(options), BigInt(seed));
}

/**
 * Episode that a test plays move by move, for all seats. If the environment implements snapshots, every move also
 * checks that a restored copy has the same state.
 */
export class Play {
  constructor(kind, { split = "train", index = 0, seed = 0n, options = {} } = {}) {
    this.kind = kind;
    [this.episode, this.resetResult] = Episode.reset(kind, { split, index }, Object.entries(options), BigInt(seed));
    /** Sum of seat 0's rewards. */
    this.reward = 0;
  }

  /** Whether the episode ended. */
  get over() {
    return this.episode.over;
  }

  /** Text of the latest observation of the seat to move. */
  get seen() {
    const seats = bySeat((this.stepResult ?? this.resetResult).observations);
    return textOf(seats.get(this.episode.seat) ?? seats.values().next().value ?? "");
  }

  /** Sends a message from the seat to move. */
  say(text) {
    return this.act({ seat: this.episode.seat, content: [{ text }], text });
  }

  /** Calls a function of the environment from the seat to move. */
  call(name, args = {}) {
    return this.act({ seat: this.episode.seat, call: Call.of(name, args), content: [], text: "" });
  }

  /** Applies an action. */
  act(action) {
    this.stepResult = this.episode.step(action);
    this.reward += bySeat(this.stepResult.reward).get(0) ?? 0;
    if (offers(this.kind, "snapshot")) this.#checkSnapshot();
    return this.stepResult;
  }

  /** Follows the oracle to the end and returns seat 0's reward. It may call only the environment's functions. */
  followOracle(turns = 100) {
    for (let turn = 0; turn < turns; turn += 1) {
      const advice = this.episode.environment.advise([], []);
      if (typeof advice === "string") this.say(advice);
      else advice.forEach((call) => this.act({ seat: this.episode.seat, call, content: [], text: "" }));
      if (this.over) return this.reward;
    }
    throw new assert.AssertionError({ message: `the oracle did not end the episode within ${turns} turns` });
  }

  #checkSnapshot() {
    const snapshot = this.episode.snapshot();
    const twin = Episode.restore(this.kind, snapshot);
    assert.deepEqual(twin.snapshot(), snapshot, "the snapshot of a restored episode differs");
    if (offers(this.kind, "stateKey")) {
      assert.deepEqual(twin.environment.stateKey(), this.episode.environment.stateKey(), "the state key of a restored episode differs");
    }
  }
}
