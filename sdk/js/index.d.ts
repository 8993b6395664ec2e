/**
 * SDK for environments, tools and rewards of Gymkhana.
 *
 * Extend `Environment`, `Tool` or `Reward`, name the class in `package.json`, and build with
 * `node node_modules/@gymkhana/sdk/build.mjs DIR --out FILE`. The file is a complete plugin, including its manifest.
 *
 * ```json
 * "gymkhana": {
 *   "namespace": "your-name",
 *   "environment": "./plugin.mjs#Consent",
 *   "capabilities": [],
 *   "deterministic": true
 * }
 * ```
 *
 * In a component, `Math.random` draws from the host's stream. For numbers that depend only on the episode's seed, use
 * {@link Rng}.
 *
 * @module
 */

/** Text, or bytes with their MIME type. */
export type Part =
  | { text: string }
  | { image: Uint8Array; mime: string }
  | { audio: Uint8Array; mime: string }
  | { video: Uint8Array; mime: string }
  | { other: Uint8Array; mime: string };

/** Content of a message, an observation or an answer: text, or parts in reading order. */
export type Content = string | Part | Array<string | Part>;

/**
 * Typed value of an option or an extra. A whole number is sent as an integer unless it is a {@link Float}. A bigint must
 * fit 64 bits.
 */
export type Value = boolean | number | bigint | string | Uint8Array | Float | Json;

/** Task of an episode: the split's name and the index in that split, from 0. */
export interface Task {
  split: string;
  index: number;
}

/** Number that is sent as a floating-point number even if it is whole. */
export class Float {
  constructor(value: number);
  readonly value: number;
}

/** Value of any other type, as JSON text. */
export class Json {
  constructor(text: string);
  readonly text: string;
}

/** Concatenated text parts of a content; other parts are skipped. */
export function textOf(content: Content): string;

/** Reason why a plugin could not serve a request of the host. Any other exception ends the plugin's instance. */
export class PluginError extends Error {}
/** Unknown or out-of-range option or task. */
export class Invalid extends PluginError {}
/** Unknown split, task, handle or function. */
export class NotFound extends PluginError {
  /** Error for an unknown split; `known` lists the existing ones. */
  static split(task: Task, known: string[]): NotFound;
}
/** Bytes passed to `restore` are not a snapshot of this plugin. */
export class BadSnapshot extends PluginError {}
/** Capability not declared or not granted. */
export class Denied extends PluginError {}

/**
 * Error of an agent, with a message that helps the agent. Thrown from {@link Tool.call}, it becomes a failed answer.
 * Thrown from {@link Environment.step} before any state changed, it becomes an observation of the acting seat, which may
 * try again.
 */
export class Mistake extends Error {}

/** Argument of a function. */
export interface Parameter {
  type: "string" | "integer" | "number" | "boolean";
  description: string;
  optional: boolean;
}

/** Declares an argument of a function: its type and description. */
export function parameter(type: Parameter["type"], description: string, more?: { optional?: boolean }): Parameter;

/** Function that a policy may call. */
export interface FunctionInfo {
  name: string;
  description: string;
  parameters: Record<string, Parameter>;
  /** Cost of one call, in the author's unit. */
  cost?: number;
  /** Complete JSON Schema of the arguments object, instead of `parameters`. */
  schema?: object;
}

/** Declares a function; the description is one or two sentences for the policy. */
export function fn(
  name: string,
  description: string,
  parameters?: Record<string, Parameter>,
  more?: { cost?: number; schema?: object },
): FunctionInfo;

/** Function call, as the policy wrote it. The argument accessors throw {@link Mistake} with a message for the agent. */
export class Call {
  constructor(name: string, args?: string, id?: string);
  /** Call with these arguments, for use in {@link Environment.advise}. */
  static of(name: string, args?: Record<string, unknown>): Call;
  readonly name: string;
  /** JSON object, as text. */
  readonly arguments: string;
  /** Identifier, unique within the episode, assigned by the host. */
  readonly id: string;
  /** String argument `name`. */
  text(name: string): string;
  /** Integer argument `name`. */
  integer(name: string): number;
  /** Number argument `name`. */
  number(name: string): number;
  /** Boolean argument `name`. */
  flag(name: string): boolean;
  /** Whether the call contains the argument `name`. */
  has(name: string): boolean;
}

/** Option that a run file may set. The description states its effect and unit. */
export class Option {
  private constructor();
  /** Boolean option. */
  static flag(name: string, description: string, fallback: boolean): Option;
  /** Integer option; `within` holds its inclusive bounds. */
  static integer(name: string, description: string, fallback: number, limits?: { within?: [number, number] }): Option;
  /** Number option; `within` holds its inclusive bounds. An infinite bound is open. */
  static number(name: string, description: string, fallback: number, limits?: { within?: [number, number] }): Option;
  /** Text option; `oneOf` lists the allowed texts. */
  static text(name: string, description: string, fallback: string, limits?: { oneOf?: string[] }): Option;
  /** Bytes option. */
  static bytes(name: string, description: string, fallback: Uint8Array): Option;
  readonly name: string;
}

/** Validated value of every declared option. Looking up an undeclared name throws an error. */
export type Options = Readonly<Record<string, any>>;

/** Observations: content for seat 0, or content by seat. */
export type Observations = Content | Map<number, Content>;

/** Start of an episode. */
export interface ResetResult {
  /** First observations; at least one for the seat to move. */
  observations: Observations;
  /** Environment functions that seat 0 may call, or functions by seat. */
  functions?: FunctionInfo[] | Map<number, FunctionInfo[]>;
  /** Set-up data for tools, by plugin name without namespace. Policies never see it. */
  toolSetups?: Record<string, Uint8Array>;
  /** Seat to move (default: 0). */
  nextSeat?: number;
}

/** Result of an action. */
export interface StepResult {
  observations?: Observations;
  /** Reward of seat 0 for this step, or rewards by seat. */
  reward?: number | Map<number, number>;
  /** Whether the episode reached an end: won, lost or otherwise decided. */
  terminated?: boolean;
  /** Whether the episode was truncated, for example by a turn limit. */
  truncated?: boolean;
  /** Facts for records and rewards, such as `success`. Policies never see them. */
  extras?: Record<string, Value>;
  /** Seat to move (default: 0). */
  nextSeat?: number;
}

/** Action of the seat to move: a message, or a call of a function offered to that seat. */
export interface Action {
  seat: number;
  /** Message content; empty for a call. */
  content: Part[];
  /** Text of the message; empty for a call. */
  text: string;
  /** Function call; absent for a message. */
  call?: Call;
}

/** Split with its number of tasks; without a number, tasks are generated without limit. */
export interface Split {
  name: string;
  tasks?: number;
}

/**
 * Environment; each instance is one episode. Equal tasks, options, seeds and actions must give equal output bytes. The
 * plugin exports the optional methods that the class defines.
 */
export abstract class Environment {
  /** One-line description. */
  static summary: string;
  /** Seat names, indexed by seat number. */
  static seats: string[];
  /** Inclusive bounds of the sum of one seat's rewards over an episode. */
  static rewardRange: [number, number];
  /** Options that a run file may set. */
  static options: Option[];
  /** Splits under these options. Splits must not share tasks. */
  static splits(options: Options): Split[];
  /** Starts the episode; the seed has 64 bits. Throws {@link NotFound} for an unknown task. */
  abstract reset(task: Task, options: Options, seed: bigint): ResetResult;
  /** Applies an action. The SDK has checked that the episode is running and that the seat is to move. */
  abstract step(action: Action): StepResult;
  /** Complete state (optional). */
  snapshot?(): Uint8Array;
  /**
   * Restores a snapshot into this new instance (required with `snapshot`). Any exception means that the bytes are not a
   * valid snapshot.
   */
  restore?(snapshot: Uint8Array): void;
  /** Canonical form of the state (optional): equal states give equal bytes, independent of the path to them. */
  stateKey?(): Uint8Array;
  /** Facts for rewards and teachers, such as `answer`, hidden from policies (optional). */
  privileged?(): Record<string, Value>;
  /**
   * Next turn of the oracle for the seat to move: a message or calls (optional). `tools` lists the function names of the
   * run's tools. `results` lists the answers to the calls of the oracle's previous turn, as text, in call order.
   */
  advise?(tools: string[], results: string[]): string | Call[];
  /** Hint after a failed attempt that does not reveal the answer (optional). */
  guidance?(): Content;
  /** Human-readable picture of the state (optional). */
  render?(): string | { svg: string };
}

/** Tool: functions that a policy may call. Each instance is one session: the tool's state during one episode. */
export abstract class Tool {
  /** One-line description. */
  static summary: string;
  /** Options that a run file may set. */
  static options: Option[];
  /** Functions under these options. */
  static functions(options: Options): FunctionInfo[];
  /** Opens the session. `setup` is the environment's set-up data for this tool, if any. */
  open(setup: Uint8Array | undefined, options: Options, seed: bigint): void;
  /** Calls one of the declared functions. For an error of the agent, throw {@link Mistake} or return a failed answer. */
  abstract call(call: Call): Content | { content: Content; failed: boolean };
  /** Closes the session. */
  close(): void;
  /** Complete state (optional). */
  snapshot?(): Uint8Array;
  /** Restores a snapshot into this new instance (required with `snapshot`). */
  restore?(snapshot: Uint8Array): void;
  /** Facts for rewards at the end of the episode (optional). */
  finalView?(): Record<string, Value>;
}

/**
 * Kind of a turn. A turn of kind `other` holds the thoughts of a seat before its message or calls, for a reward whose
 * manifest has `"thoughts": true`.
 */
export type TurnKind = "message" | "call" | "answer" | "observation" | "other";

/** Turn of a finished trajectory. */
export class Turn {
  constructor(kind: TurnKind, seat: number, fields?: Partial<Omit<Turn, "kind" | "seat">>);
  readonly kind: TurnKind;
  readonly seat: number;
  /** Content of the turn; empty for a call. */
  readonly content: Part[];
  /** Call of a turn of kind `call`. */
  readonly call?: Call;
  /** Cost of the call, as declared by the tool. */
  readonly cost?: number;
  /** Identifier of the answered call. */
  readonly id?: string;
  /** Whether the answered call failed. */
  readonly failed?: boolean;
  /** Text of the content. */
  get text(): string;
  /** Seat that made this turn; undefined for answers and observations. */
  get actor(): number | undefined;
}

/** Reason for the end of an episode. */
export type Ending =
  | "terminated"
  | "truncated"
  | "turn-limit"
  | "token-limit"
  | "call-limit"
  | "time-limit"
  | "failed"
  | "other";

/** Finished attempt at a task. */
export class Trajectory {
  constructor(fields?: Partial<Trajectory>);
  readonly task: Task;
  readonly turns: Turn[];
  readonly ending: Ending;
  /** Environment rewards by seat, one per step of the seat. */
  readonly environmentRewards: Map<number, number[]>;
  /** Extras of the environment's last step. */
  readonly extras: Record<string, Value>;
  /** Privileged view of the environment at the end. */
  readonly privileged: Record<string, Value>;
  /** Final views of the tools, named `tool.field`. */
  readonly views: Record<string, Value>;
  /** Seats that made a turn, in ascending order. */
  seats(): number[];
  /** Last action of a seat, or undefined if that is not a message. */
  lastMessage(seat: number): { turn: number; text: string } | undefined;
  /** Calls of a seat, in order. */
  calls(seat: number): Turn[];
}

/** Score of one seat. */
export interface Score {
  total: number;
  /** Value of each declared component, in declaration order. */
  components?: Record<string, number>;
  /** Reward of each message of the seat; absent if only the total counts. */
  turns?: number[];
  /** Reasons for the score; see {@link evidenceAt}. */
  evidence?: Evidence[];
}

/** Reason for a score: a turn's index, a byte range in its UTF-8 text and a note. */
export interface Evidence {
  turn: number;
  start: number;
  end: number;
  note: string;
}

/** Evidence at `text.slice(start, end)`, where `text` is that of the turn. */
export function evidenceAt(turn: number, text: string, start: number, end: number, note: string): Evidence;

/** Reward. Override `score` to score seats independently, or `scoreGroup` to compare attempts. */
export abstract class Reward {
  /** One-line description. */
  static summary: string;
  /** Inclusive bounds of totals and turn rewards; the host rejects other numbers. */
  static range: [number, number];
  /** Components of every score, with what each measures and its unit. */
  static components: Record<string, string>;
  /** Options that a run file may set. */
  static options: Option[];
  /** Scores one seat that acted. Throws {@link Invalid} if the trajectory lacks required data. */
  score(trajectory: Trajectory, seat: number, options: Options): number | Score;
  /** Scores attempts at one task: one `Map` per trajectory, with a score for each seat that acted. */
  scoreGroup(group: Trajectory[], options: Options, trainingStep: number): Array<Map<number, number | Score>>;
}

/** SplitMix64 generator with the same stream as in the other SDKs; its state is one bigint. */
export class Rng {
  constructor(seed: number | bigint);
  /** 64-bit state; `new Rng(rng.state)` continues the stream of `rng`. */
  state: bigint;
  /** Next 64 bits. */
  bits(): bigint;
  /** Uniform integer in `0..bound`, excluding `bound`. */
  below(bound: number): number;
  /** Uniform integer from `low` to `high`, both inclusive. */
  between(low: number, high: number): number;
  /** Uniform number in [0, 1), a multiple of 2^-53. */
  unit(): number;
  /** Uniformly chosen element of `items`. */
  pick<T>(items: readonly T[]): T;
  /** Shuffles an array in place. */
  shuffle(items: unknown[]): void;
}

/** 64-bit hash, the same in all SDKs. For splits and seeds, not for security. */
export function hash64(content: string | Uint8Array): bigint;

/** Messages for the run's log, limited in size by the host. */
export const log: Record<"debug" | "info" | "warn" | "error", (message: string) => void>;

/** Random bits from the host's stream for this episode, plugin and call. */
export const random: { next(): bigint; fill(length: number): Uint8Array };

/** Virtual time controlled by the host: nanoseconds since the start of the episode. */
export const clock: { now(): bigint };

/** Read-only files that the run mounts for this plugin, sizes in bytes. Requires the capability `assets`. */
export const assets: {
  names(): Array<{ name: string; size: number; digest: string }>;
  read(name: string, offset: number, length: number): Uint8Array;
};

/** Completions by a model that the run binds to this plugin. Requires the capability `model`. */
export const model: {
  complete(request: {
    messages: Array<{ role: "system" | "user" | "assistant"; content: Content }>;
    maxTokens: number;
    temperature?: number;
    stop?: string[];
  }): { text: string; cut: boolean; usage: { promptTokens: number; completionTokens: number } };
};

/** Tool calls by rewards, in separate sessions of the reward. Requires the capability `tools`. */
export const tools: {
  functions(): Array<{ name: string; description: string; parameters: string; cost: number }>;
  call(call: Call): { content: Part[]; failed: boolean };
};

/** Outbound HTTP to the servers that the run allows; `timeout` in milliseconds. Requires the capability `http`. */
export const http: {
  send(request: {
    method?: string;
    url: string;
    headers?: Array<[string, string]>;
    body?: Uint8Array;
    timeout?: number;
  }): { status: number; headers: Array<[string, string]>; body: Uint8Array };
};
