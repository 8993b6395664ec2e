// What the host offers to a plugin, as plain functions. In native tests, and while a component is made, `log` says
// nothing, `random` follows a fixed seed, the clock stands at 0, and what needs a grant throws `Denied`.

import { HOSTED, host } from "./host.mjs";
import { state } from "./live.mjs";
import { Denied, errorOf } from "./errors.mjs";
import { Rng } from "./rng.mjs";
import { Call } from "./content.mjs";
import { fromParts, toCall, toParts } from "./component/convert.mjs";

/** The host's functions of a capability, where there are any to call. */
const offered = (capability) => (state.live ? host[capability] : undefined);

/** Calls the host's function of a capability that needs a grant. */
function ask(capability, name, ...given) {
  const functions = offered(capability);
  if (!functions) {
    throw new Denied(
      HOSTED
        ? `add "${capability}" to \`capabilities\` under \`gymkhana\` in package.json and build again`
        : `\`${capability}\` needs a host, and native tests have none`,
    );
  }
  try {
    return functions[name](...given);
  } catch (error) {
    throw error?.payload ? errorOf(error.payload) : error;
  }
}

const say = (level) => (message) => offered("log")?.write(level, message);

/** Lines for the run's log, capped by the host. */
export const log = { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") };

const stream = new Rng(0n);

/** Random bits from the host's stream of this episode, this plugin and this call. */
export const random = {
  /** The next 64 bits, as a bigint. */
  next: () => offered("random")?.next() ?? stream.bits(),
  /** `length` bytes. */
  fill: (length) =>
    offered("random")?.fill(length) ?? Uint8Array.from({ length }, () => Number(stream.bits() & 255n)),
};

/** Time that passes only when the host says so. */
export const clock = {
  /** Nanoseconds since the episode began, as a bigint. */
  now: () => offered("clock")?.now() ?? 0n,
};

/** Files that the run mounts for this plugin. Needs the capability `assets`. */
export const assets = {
  /** What is mounted: `{ name, size, digest }`, the size in bytes. */
  names: () => (offered("assets")?.names() ?? []).map((each) => ({ ...each, size: Number(each.size) })),
  /** At most `length` bytes from `offset`; fewer at the end. */
  read: (name, offset, length) => ask("assets", "read", name, BigInt(offset), length),
};

/** Completions by a model that the run binds to this plugin. Needs the capability `model`. */
export const model = {
  /** The model's reply to `messages` of `{ role, content }`: `{ text, cut, usage }`. */
  complete: ({ messages, maxTokens, temperature = 0, stop = [] }) => {
    const spoken = messages.map(({ role, content }) => ({ role, content: toParts(content) }));
    return ask("model", "complete", { messages: spoken, maxTokens, temperature, stop });
  },
};

/** Tools for rewards that check an answer by calling one. Needs the capability `tools`. */
export const tools = {
  /** What can be called. */
  functions: () => offered("tools")?.functions() ?? [],
  /** Calls a function: `{ content, failed }`. */
  call: (call) => {
    const made = call instanceof Call ? call : new Call(call.name, call.arguments);
    const answer = ask("tools", "call", toCall(made));
    return { content: fromParts(answer.content), failed: answer.failed };
  },
};

/** Outgoing HTTP to the hosts that the run allows. Needs the capability `http`. */
export const http = {
  /** Sends a request and waits for the response; `timeout` is in milliseconds. */
  send: ({ method = "GET", url, headers = [], body = new Uint8Array(), timeout = 10_000 }) => {
    const named = headers.map(([name, value]) => ({ name, value }));
    const response = ask("http", "send", { method, url, headers: named, body, timeout });
    return { ...response, headers: response.headers.map(({ name, value }) => [name, value]) };
  },
};
