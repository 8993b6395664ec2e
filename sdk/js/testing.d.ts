/** Plugins tested natively: an episode, a session and a scoring with the same checks that a host makes. */

import { Action, Call, Content, Environment, Reward, Score, Started, Stepped, Tool, Trajectory, Value } from "./index.js";

type Kind<T> = new () => T;

/** An episode as the host meets it. */
export class Episode<E extends Environment = Environment> {
  readonly environment: E;
  readonly seat: number;
  readonly over: boolean;
  step(action: Action): Stepped;
  snapshot(): Uint8Array;
  static restore<E extends Environment>(kind: Kind<E>, snapshot: Uint8Array): Episode<E>;
}

/** A tool's session as the host meets it. */
export class Session<T extends Tool = Tool> {
  readonly tool: T;
  call(call: Call): { content: Content; failed: boolean };
  snapshot(): Uint8Array;
  static restore<T extends Tool>(kind: Kind<T>, snapshot: Uint8Array): Session<T>;
}

/** Opens a tool's session. */
export function openSession<T extends Tool>(
  kind: Kind<T>,
  given?: { setup?: Uint8Array; options?: Record<string, Value>; seed?: number | bigint },
): Session<T>;

/** Scores a group: one Map a trajectory, with a score for each seat that acted. */
export function score(
  kind: Kind<Reward>,
  group: Trajectory[],
  options?: Record<string, Value>,
  trainingStep?: number,
): Array<Map<number, Required<Score>>>;

/**
 * An episode that a test plays, move by move; every seat is the test's. After every move a copy made by `snapshot` and
 * `restore`, where the environment offers them, must know the same state.
 */
export class Play<E extends Environment = Environment> {
  constructor(
    kind: Kind<E>,
    given?: { split?: string; index?: number; seed?: number | bigint; options?: Record<string, Value> },
  );
  readonly episode: Episode<E>;
  readonly started: Started;
  /** What the last move led to. */
  readonly stepped?: Stepped;
  /** What seat 0 earned so far. */
  readonly reward: number;
  /** Whether the episode ended. */
  get over(): boolean;
  /** The words that the seat to move saw last. */
  get seen(): string;
  /** The seat to move says something. */
  say(words: string): Stepped;
  /** The seat to move calls a function of the environment. */
  call(name: string, args?: Record<string, unknown>): Stepped;
  /** Any action. */
  act(action: Action): Stepped;
  /** Lets the expert play to the end, by messages and the environment's own calls; gives seat 0's reward. */
  followOracle(turns?: number): number;
}
