/**
 * Write environments, tools and rewards for Gymkhana.
 *
 * Extend `Environment`, `Tool` or `Reward`, name the class in `package.json`, and build with
 * `node node_modules/@gymkhana/sdk/build.mjs DIR --out FILE`: the file is a complete plugin, manifest included.
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
 * `Math.random` draws from the host's stream in a component; for what must follow from the episode's seed alone use `Rng`.
 */

/** Words, or bytes with their mime type. */
export type Part =
  | { text: string }
  | { image: Uint8Array; mime: string }
  | { audio: Uint8Array; mime: string }
  | { video: Uint8Array; mime: string }
  | { other: Uint8Array; mime: string };

/** What a message, an observation or an answer says: words, or parts in reading order. */
export type Content = string | Part | Array<string | Part>;

/**
 * A typed value of an option or of an extra. A whole number is sent as one; `Float` says otherwise. A bigint that is
 * given must fit 64 bits.
 */
export type Value = boolean | number | bigint | string | Uint8Array | Float | Json;

/** Which task an episode is about: the split's name, and the position in it, from 0. */
export interface Task {
  split: string;
  index: number;
}

/** A number that stays a number where `3` would be sent as a whole number. */
export class Float {
  constructor(value: number);
  readonly value: number;
}

/** A value of no other type, as JSON text. */
export class Json {
  constructor(text: string);
  readonly text: string;
}

/** The text parts of a content, one after the other; other media count for nothing. */
export function textOf(content: Content): string;

/** Why a plugin could not do what the host asked. Any other exception ends the plugin's instance. */
export class PluginError extends Error {}
/** An option or a task that this plugin does not know or that is out of range. */
export class Invalid extends PluginError {}
/** There is no such split, task, handle or function. */
export class NotFound extends PluginError {
  /** No such task, because the split is unknown; `known` are those that there are. */
  static split(task: Task, known: string[]): NotFound;
}
/** Bytes given to `restore` are not a snapshot of this plugin. */
export class BadSnapshot extends PluginError {}
/** A capability that the plugin needs was refused. */
export class Denied extends PluginError {}

/**
 * What an agent did wrong, in words that help it. Thrown from `Tool.call` it becomes a failed answer; thrown from
 * `Environment.step`, before anything changed, an observation of the seat that acted, which may try again.
 */
export class Mistake extends Error {}

/** One argument of a function. */
export interface Parameter {
  type: "string" | "integer" | "number" | "boolean";
  description: string;
  optional: boolean;
}

/** One argument of a function: its type and what it means. */
export function parameter(type: Parameter["type"], description: string, more?: { optional?: boolean }): Parameter;

/** A function that a policy may call. */
export interface FunctionInfo {
  name: string;
  description: string;
  parameters: Record<string, Parameter>;
  /** What one call costs, in the author's unit. */
  cost?: number;
  /** A whole JSON Schema of the arguments object, instead of `parameters`. */
  schema?: object;
}

/** A function with one or two sentences for the policy. */
export function fn(
  name: string,
  description: string,
  parameters?: Record<string, Parameter>,
  more?: { cost?: number; schema?: object },
): FunctionInfo;

/** A call of a function, as the policy wrote it. The look-ups throw `Mistake` in words that help the agent. */
export class Call {
  constructor(name: string, args?: string, id?: string);
  /** A call with these arguments, as an expert advises it. */
  static of(name: string, args?: Record<string, unknown>): Call;
  readonly name: string;
  /** JSON text of an object. */
  readonly arguments: string;
  /** Unique within the episode; the host chooses it. */
  readonly id: string;
  /** The text argument `name`. */
  text(name: string): string;
  /** The whole-number argument `name`. */
  integer(name: string): number;
  /** The number argument `name`. */
  number(name: string): number;
  /** The true-or-false argument `name`. */
  flag(name: string): boolean;
  /** Whether the argument `name` is given. */
  has(name: string): boolean;
}

/** An option that a run file may set; the description says what it does, with its unit. */
export class Option {
  private constructor();
  static flag(name: string, description: string, fallback: boolean): Option;
  /** A whole number; `within` holds its ends, both included. */
  static integer(name: string, description: string, fallback: number, limits?: { within?: [number, number] }): Option;
  /** A number; `within` holds its ends, both included, an infinite one being open. */
  static number(name: string, description: string, fallback: number, limits?: { within?: [number, number] }): Option;
  static text(name: string, description: string, fallback: string, limits?: { oneOf?: string[] }): Option;
  static bytes(name: string, description: string, fallback: Uint8Array): Option;
  readonly name: string;
}

/** Every declared option with its checked value; looking up another is an error. */
export type Options = Readonly<Record<string, any>>;

/** What the seats see: content for seat 0, or content by seat. */
export type Observations = Content | Map<number, Content>;

/** How an episode begins. */
export interface Started {
  /** The first observations; at least one for the seat to move. */
  observations: Observations;
  /** Functions of the environment itself that seat 0 may call, or those of each seat. */
  functions?: FunctionInfo[] | Map<number, FunctionInfo[]>;
  /** What tools need, by the plugin's name without its namespace. Policies never see it. */
  setup?: Record<string, Uint8Array>;
  /** Whose turn it is; 0 when not said. */
  seat?: number;
}

/** What an action led to. */
export interface Stepped {
  observations?: Observations;
  /** What seat 0 earned in this step, or what each seat did. */
  reward?: number | Map<number, number>;
  /** The episode is over: won, lost or otherwise decided. */
  terminated?: boolean;
  /** The episode was cut off, for example by a turn limit. */
  truncated?: boolean;
  /** Facts for records and rewards, such as `success`; policies never see them. */
  extras?: Record<string, Value>;
  /** Whose turn it is; 0 when not said. */
  seat?: number;
}

/** What the seat to move does: a message, or a call of a function that was offered to it. */
export interface Action {
  seat: number;
  /** The message; empty for a call. */
  content: Part[];
  /** The message's text; empty for a call. */
  text: string;
  call?: Call;
}

/** A split of so many tasks; of tasks without end when the number is left out. */
export interface Split {
  name: string;
  tasks?: number;
}

/**
 * A world; an instance is one episode. The same task, options, seed and actions must give the same bytes, always. What a
 * class defines of the optional methods it offers to the host.
 */
export abstract class Environment {
  /** One line for people. */
  static summary: string;
  /** The seats, in order. A seat's number is its place here. */
  static seats: string[];
  /** The sum of one seat's rewards over an episode stays between these, both included. */
  static rewards: [number, number];
  static options: Option[];
  /** The splits under these options. Splits never share a task. */
  static splits(options: Options): Split[];
  /** Starts this episode; the seed has 64 bits. Throws `NotFound` for a task that there is not. */
  abstract start(task: Task, options: Options, seed: bigint): Started;
  /** Acts. It was checked that the episode goes on and that it is this seat's turn. */
  abstract step(action: Action): Stepped;
  /** Optional: the whole state. */
  snapshot?(): Uint8Array;
  /** With `snapshot`: puts this new instance into that state. Whatever it throws says that the bytes are no snapshot. */
  restore?(snapshot: Uint8Array): void;
  /** Optional: a canonical form. Equal states give equal bytes, whatever path led there. */
  stateKey?(): Uint8Array;
  /** Optional: what rewards and teachers may see and a policy never does, such as `answer`. */
  privileged?(): Record<string, Value>;
  /**
   * Optional, the oracle: the expert's next turn, a message or calls. `tools` names the functions of the run's tools;
   * `results` holds the answers to the calls of the expert's previous turn, as text.
   */
  advise?(tools: string[], results: string[]): string | Call[];
  /** Optional: a hint that does not give the answer away, after an attempt that failed. */
  guidance?(): Content;
  /** Optional: a picture for people. */
  render?(): string | { svg: string };
}

/** Functions that a policy may call; an instance is one session, what the tool remembers during one episode. */
export abstract class Tool {
  /** One line for people. */
  static summary: string;
  static options: Option[];
  /** The functions under these options. */
  static functions(options: Options): FunctionInfo[];
  /** Opens this session. `setup` is what the environment prepared for this tool, if anything. */
  open(setup: Uint8Array | undefined, options: Options, seed: bigint): void;
  /** Calls a function, one of those that `functions` names. */
  abstract call(call: Call): Content | { content: Content; failed: boolean };
  /** The session ends. */
  close(): void;
  /** Optional: the whole state. */
  snapshot?(): Uint8Array;
  /** With `snapshot`: puts this new instance into that state. */
  restore?(snapshot: Uint8Array): void;
  /** Optional: what rewards may see once the episode is over. */
  finalView?(): Record<string, Value>;
}

/** Who made a turn, and how. */
export type TurnKind = "message" | "call" | "answer" | "observation" | "other";

/** One turn of a finished trajectory. */
export class Turn {
  constructor(kind: TurnKind, seat: number, fields?: Partial<Omit<Turn, "kind" | "seat">>);
  readonly kind: TurnKind;
  readonly seat: number;
  /** What was said or shown; empty for a call. */
  readonly content: Part[];
  readonly call?: Call;
  /** What a call cost, as the tool declares it. */
  readonly cost?: number;
  /** The id of the call that is answered. */
  readonly id?: string;
  /** The answered call did not work. */
  readonly failed?: boolean;
  /** The text of the content. */
  get text(): string;
  /** The seat that made this turn; none for what tools and the environment did. */
  get actor(): number | undefined;
}

/** Why an episode ended. */
export type Ending =
  | "terminated"
  | "truncated"
  | "turn-limit"
  | "token-limit"
  | "call-limit"
  | "time-limit"
  | "failed"
  | "other";

/** One attempt at a task, finished. */
export class Trajectory {
  constructor(fields?: Partial<Trajectory>);
  readonly task: Task;
  readonly turns: Turn[];
  readonly ending: Ending;
  /** Each seat's rewards from the environment, one number for each of its steps. */
  readonly environmentRewards: Map<number, number[]>;
  /** The extras of the environment's last step. */
  readonly extras: Record<string, Value>;
  /** The environment's privileged view at the end. */
  readonly privileged: Record<string, Value>;
  /** Each tool's final view, as `tool.field`. */
  readonly views: Record<string, Value>;
  /** The seats that made a turn, in ascending order. */
  seats(): number[];
  /** The last thing that a seat did, when it was a message. */
  lastMessage(seat: number): { turn: number; text: string } | undefined;
  /** The calls that a seat made, in order. */
  calls(seat: number): Turn[];
}

/** What one seat is worth. */
export interface Score {
  total: number;
  /** A value for each declared component, in their order. */
  components?: Record<string, number>;
  /** One reward for each message of the seat, or nothing when only the total counts. */
  turns?: number[];
  /** Byte ranges in the UTF-8 text of turns, with the reason that stands there. */
  evidence?: Array<{ turn: number; start: number; end: number; note: string }>;
}

/** A reward. Define `score` for one seat by itself, or `scoreGroup` when attempts are compared. */
export abstract class Reward {
  /** One line for people. */
  static summary: string;
  /** Totals and turn rewards stay between these, both included; the host refuses others. */
  static range: [number, number];
  /** The components that every score has, each with what it measures and its unit. */
  static components: Record<string, string>;
  static options: Option[];
  /** Scores one seat that acted. Throws `Invalid` when the trajectory lacks what the reward needs. */
  score(trajectory: Trajectory, seat: number, options: Options): number | Score;
  /** Scores attempts at one task: one `Map` a trajectory, with a score for each seat that acted. */
  scoreGroup(group: Trajectory[], options: Options, trainingStep: number): Array<Map<number, number | Score>>;
}

/** SplitMix64, the same stream as in the other SDKs; its whole state is one bigint. */
export class Rng {
  constructor(seed: number | bigint);
  /** `new Rng(rng.state)` goes on where `rng` is. */
  state: bigint;
  /** The next 64 bits. */
  bits(): bigint;
  /** A number below `bound`, each with the same probability. */
  below(bound: number): number;
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  /** A number in 0..1, a multiple of 2^-53, 1 excluded. */
  unit(): number;
  /** One of `items`. */
  pick<T>(items: readonly T[]): T;
  /** Puts an array into a random order. */
  shuffle(items: unknown[]): void;
}

/** A 64-bit hash, the same in all SDKs. For splits and seeds, not for security. */
export function hash64(content: string | Uint8Array): bigint;

/** Lines for the run's log, capped by the host. */
export const log: Record<"debug" | "info" | "warn" | "error", (message: string) => void>;

/** Random bits from the host's stream of this episode, this plugin and this call. */
export const random: { next(): bigint; fill(length: number): Uint8Array };

/** Time that passes only when the host says so: nanoseconds since the episode began. */
export const clock: { now(): bigint };

/** Files that the run mounts for this plugin, sizes in bytes. Needs the capability `assets`. */
export const assets: {
  names(): Array<{ name: string; size: number; digest: string }>;
  read(name: string, offset: number, length: number): Uint8Array;
};

/** Completions by a model that the run binds to this plugin. Needs the capability `model`. */
export const model: {
  complete(request: {
    messages: Array<{ role: "system" | "user" | "assistant"; content: Content }>;
    maxTokens: number;
    temperature?: number;
    stop?: string[];
  }): { text: string; cut: boolean; usage: { promptTokens: number; completionTokens: number } };
};

/** Tools for rewards that check an answer by calling one. Needs the capability `tools`. */
export const tools: {
  functions(): Array<{ name: string; description: string; parameters: string; cost: number }>;
  call(call: Call): { content: Part[]; failed: boolean };
};

/** Outgoing HTTP to the hosts that the run allows; `timeout` in milliseconds. Needs the capability `http`. */
export const http: {
  send(request: {
    method?: string;
    url: string;
    headers?: Array<[string, string]>;
    body?: Uint8Array;
    timeout?: number;
  }): { status: number; headers: Array<[string, string]>; body: Uint8Array };
};
