/**
 * Native tests of plugins, with the checks that a component makes.
 *
 * @module
 */

import { Action, Call, Content, Environment, ResetResult, Reward, Score, StepResult, Tool, Trajectory, Value } from "./index.js";

/** Class of a plugin. */
export type Kind<T> = new () => T;

/** Episode with the checks that the host relies on. */
export class Episode<E extends Environment = Environment> {
  readonly environment: E;
  readonly seat: number;
  readonly over: boolean;
  step(action: Action): StepResult;
  snapshot(): Uint8Array;
  static restore<E extends Environment>(kind: Kind<E>, snapshot: Uint8Array): Episode<E>;
}

/** Tool session with the checks that the host relies on. */
export class Session<T extends Tool = Tool> {
  readonly tool: T;
  call(call: Call): { content: Content; failed: boolean };
  snapshot(): Uint8Array;
  static restore<T extends Tool>(kind: Kind<T>, snapshot: Uint8Array): Session<T>;
}

/** Opens a session of a tool. */
export function openSession<T extends Tool>(
  kind: Kind<T>,
  given?: { setup?: Uint8Array; options?: Record<string, Value>; seed?: number | bigint },
): Session<T>;

/** Scores a group: one Map per trajectory, with a score for each seat that acted. */
export function score(
  kind: Kind<Reward>,
  group: Trajectory[],
  options?: Record<string, Value>,
  trainingStep?: number,
): Array<Map<number, Required<Score>>>;

/**
 * Episode that a test plays move by move, for all seats. If the environment implements snapshots, every move also checks
 * that a restored copy has the same state.
 */
export class Play<E extends Environment = Environment> {
  constructor(
    kind: Kind<E>,
    given?: { split?: string; index?: number; seed?: number | bigint; options?: Record<string, Value> },
  );
  readonly episode: Episode<E>;
  readonly resetResult: ResetResult;
  /** Result of the last move. */
  readonly stepResult?: StepResult;
  /** Sum of seat 0's rewards. */
  readonly reward: number;
  /** Whether the episode ended. */
  get over(): boolean;
  /** Text of the latest observation of the seat to move. */
  get seen(): string;
  /** Sends a message from the seat to move. */
  say(words: string): StepResult;
  /** Calls a function of the environment from the seat to move. */
  call(name: string, args?: Record<string, unknown>): StepResult;
  /** Applies an action. */
  act(action: Action): StepResult;
  /** Follows the oracle to the end and returns seat 0's reward. It may call only the environment's functions. */
  followOracle(turns?: number): number;
}
