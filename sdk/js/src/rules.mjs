// Rules for every plugin: valid options, seats in turn, finished episodes and scores in range. The component and native
// tests share these checks.

import { BadSnapshot, Invalid, Mistake, NotFound, PluginError } from "./errors.mjs";
import { readOptions } from "./options.mjs";

/** Values by seat as a Map; a single value belongs to seat 0. */
export function bySeat(given) {
  if (given === undefined || given === null) return new Map();
  return given instanceof Map ? given : new Map([[0, given]]);
}

/** Episode with the checks that the host relies on. */
export class Episode {
  constructor(environment, seat, offered, over = false) {
    Object.assign(this, { environment, seat, offered, over });
  }

  /** Splits under these options. */
  static splits(kind, given = []) {
    return kind.splits(readOptions(kind.options, given));
  }

  /** Starts an episode; returns the episode and its start. */
  static reset(kind, task, given = [], seed = 0n) {
    const environment = new kind();
    const result = environment.reset(task, readOptions(kind.options, given), seed);
    const offered = [];
    for (const [seat, functions] of bySeat(result.functions)) {
      functions.forEach((each) => offered.push([seat, each.name]));
    }
    return [new Episode(environment, result.nextSeat ?? 0, offered), result];
  }

  /**
   * Applies an action. Throws `Invalid` after the end or out of turn, and `NotFound` for a function that was not
   * offered.
   */
  step(action) {
    if (this.over) throw new Invalid("the episode is over: start another");
    if (action.seat !== this.seat) {
      throw new Invalid(`it is the turn of seat ${this.seat}, not of seat ${action.seat}`);
    }
    const isOffered = ([seat, name]) => seat === action.seat && name === action.call.name;
    if (action.call && !this.offered.some(isOffered)) {
      throw new NotFound(`function \`${action.call.name}\` was not offered to seat ${action.seat}`);
    }
    let result;
    try {
      result = this.environment.step(action);
    } catch (error) {
      if (!(error instanceof Mistake)) throw error;
      return { observations: new Map([[this.seat, error.message]]), nextSeat: this.seat };
    }
    this.over = Boolean(result.terminated || result.truncated);
    this.seat = result.nextSeat ?? 0;
    return result;
  }

  /** Complete state. */
  snapshot() {
    return joined([this.over, this.seat, this.offered], this.environment.snapshot());
  }

  /** Episode with the state of a snapshot. Throws `BadSnapshot` for invalid bytes. */
  static restore(kind, snapshot) {
    const [head, own] = parted(snapshot);
    const [over, seat, offered] = head;
    if (typeof over !== "boolean" || !Number.isInteger(seat) || !Array.isArray(offered)) throw damaged("its header is malformed");
    return new Episode(restored(kind, own), seat, offered, over);
  }
}

/** Tool session with the checks that the host relies on. */
export class Session {
  constructor(tool, names) {
    Object.assign(this, { tool, names });
  }

  /** Functions under these options. */
  static functions(kind, given = []) {
    return kind.functions(readOptions(kind.options, given));
  }

  /** Opens a session. */
  static open(kind, setup, given = [], seed = 0n) {
    const options = readOptions(kind.options, given);
    const session = new Session(new kind(), kind.functions(options).map((each) => each.name));
    session.tool.open(setup, options, seed);
    return session;
  }

  /** Calls a function; returns content and whether the call failed. */
  call(call) {
    if (!this.names.includes(call.name)) {
      return failed(`unknown function \`${call.name}\`; known: ${this.names.join(", ")}`);
    }
    try {
      const given = this.tool.call(call);
      const answer = Object.hasOwn(Object(given), "failed") ? given : { content: given, failed: false };
      checkContent(`${this.tool.constructor.name}.call`, answer.content);
      return answer;
    } catch (error) {
      if (error instanceof Mistake) return failed(error.message);
      throw error;
    }
  }

  /** Complete state. */
  snapshot() {
    return joined(this.names, this.tool.snapshot());
  }

  /** Session with the state of a snapshot. Throws `BadSnapshot` for invalid bytes. */
  static restore(kind, snapshot) {
    const [names, own] = parted(snapshot);
    if (!Array.isArray(names)) throw damaged("its header is malformed");
    return new Session(restored(kind, own), names);
  }
}

/** Throws if a function returned neither text nor parts. */
function checkContent(name, content) {
  if (typeof content === "string" || (typeof content === "object" && content !== null)) return;
  throw new TypeError(`\`${name}\` must return text, not ${content === null ? "null" : typeof content}`);
}

/** Failed answer. */
export function failed(content) {
  return { content, failed: true };
}

/**
 * Scores a group: one Map per trajectory, with a score for each seat that acted. Throws for scores that the host would
 * reject.
 */
export function score(kind, group, given = [], trainingStep = 0) {
  const scores = new kind().scoreGroup(group, readOptions(kind.options, given), trainingStep);
  if (scores.length !== group.length) throw new Error(`the reward scored ${scores.length} trajectories, not ${group.length}`);
  return scores.map((seats, place) => {
    const acted = group[place].seats();
    const scored = [...seats.keys()].sort((a, b) => a - b);
    if (String(scored) !== String(acted)) throw new Error(`the reward scored seats ${scored}, but seats ${acted} acted`);
    return new Map(acted.map((seat) => [seat, checked(kind, seats.get(seat))]));
  });
}

function checked(kind, given) {
  const { total, components = {}, turns = [], evidence = [] } = typeof given === "number" ? { total: given } : given;
  const [names, wanted] = [Object.keys(components), Object.keys(kind.components)];
  if (String(names) !== String(wanted)) throw new Error(`the components are ${names}, but ${wanted} are declared`);
  const [low, high] = kind.range;
  for (const number of [total, ...turns]) {
    if (!(low <= number && number <= high)) {
      throw new Error(`a reward of ${number} is outside ${low} to ${high}, the range of ${kind.name}`);
    }
  }
  for (const [name, value] of Object.entries(components)) {
    if (!Number.isFinite(value)) throw new Error(`component \`${name}\` is ${value}: components must be finite`);
  }
  return { total, components, turns, evidence };
}

function joined(head, own) {
  const text = new TextEncoder().encode(JSON.stringify(head));
  const bytes = new Uint8Array(4 + text.length + own.length);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  bytes.set(own, 4 + text.length);
  return bytes;
}

function parted(snapshot) {
  try {
    const length = new DataView(snapshot.buffer, snapshot.byteOffset, snapshot.length).getUint32(0, true);
    if (4 + length > snapshot.length) throw new Error("it is truncated");
    const text = new TextDecoder("utf-8", { fatal: true }).decode(snapshot.subarray(4, 4 + length));
    const head = JSON.parse(text);
    if (!Array.isArray(head)) throw new Error("its header is malformed");
    return [head, snapshot.slice(4 + length)];
  } catch (error) {
    throw damaged(error.message);
  }
}

function restored(kind, own) {
  const instance = new kind();
  try {
    instance.restore(own);
  } catch (error) {
    throw error instanceof PluginError ? error : damaged(error.message);
  }
  return instance;
}

function damaged(why) {
  return new BadSnapshot(`the bytes are not a snapshot of this plugin: ${why}`);
}
