// Host interfaces as plain functions. In native tests and at build time, `log` discards its messages, `random` uses a
// fixed seed, the clock reads 0 and functions that require a grant throw `Denied`.

import { HOSTED, host } from "./host.mjs";
import { state } from "./live.mjs";
import { Denied, errorOf } from "./errors.mjs";
import { Rng } from "./rng.mjs";
import { Call } from "./content.mjs";
import { fromParts, toCall, toParts } from "./component/convert.mjs";

/** Host functions of a capability, or undefined outside a call. */
const offered = (capability) => (state.live ? host[capability] : undefined);

/** Calls the host function of a capability that requires a grant. */
function ask(capability, name, ...given) {
  const functions = offered(capability);
  if (!functions) {
    throw new Denied(
      HOSTED
        ? `add "${capability}" to \`capabilities\` under \`gymkhana\` in package.json and build again`
        : `\`${capability}\` requires a host; it is unavailable in native tests`,
    );
  }
  try {
    return functions[name](...given);
  } catch (error) {
    throw error?.payload ? errorOf(error.payload) : error;
  }
}

const say = (level) => (message) => offered("log")?.write(level, message);

/** Messages for the run's log, limited in size by the host. */
export const log = { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") };

const stream = new Rng(0n);

/** Random bits from the host's stream for this episode, plugin and call. */
export const random = {
  /** Next 64 bits, as a bigint. */
  next: () => offered("random")?.next() ?? stream.bits(),
  /** `length` random bytes. */
  fill: (length) =>
    offered("random")?.fill(length) ?? Uint8Array.from({ length }, () => Number(stream.bits() & 255n)),
};

/** Virtual time of the episode, controlled by the host. */
export const clock = {
  /** Nanoseconds since the start of the episode, as a bigint. */
  now: () => offered("clock")?.now() ?? 0n,
};

/** Read-only files that the run mounts for this plugin. Requires the capability `assets`. */
export const assets = {
  /** Mounted files: `{ name, size, digest }`, with the size in bytes. */
  names: () => (offered("assets")?.names() ?? []).map((each) => ({ ...each, size: Number(each.size) })),
  /** Up to `length` bytes from `offset`. */
  read: (name, offset, length) => ask("assets", "read", name, BigInt(offset), length),
};

/** Completions by a model that the run binds to this plugin. Requires the capability `model`. */
export const model = {
  /** Requests the model's reply to `messages` of `{ role, content }`: `{ text, cut, usage }`. */
  complete: ({ messages, maxTokens, temperature = 0, stop = [] }) => {
    const spoken = messages.map(({ role, content }) => ({ role, content: toParts(content) }));
    return ask("model", "complete", { messages: spoken, maxTokens, temperature, stop });
  },
};

/** Tool calls by rewards, in separate sessions of the reward. Requires the capability `tools`. */
export const tools = {
  /** Available functions. */
  functions: () => offered("tools")?.functions() ?? [],
  /** Calls a function: `{ content, failed }`. */
  call: (call) => {
    const made = call instanceof Call ? call : new Call(call.name, call.arguments);
    const answer = ask("tools", "call", toCall(made));
    return { content: fromParts(answer.content), failed: answer.failed };
  },
};

/** Outbound HTTP to the servers that the run allows. Requires the capability `http`. */
export const http = {
  /** Sends a request and waits up to `timeout` milliseconds for the response. */
  send: ({ method = "GET", url, headers = [], body = new Uint8Array(), timeout = 10_000 }) => {
    const named = headers.map(([name, value]) => ({ name, value }));
    const response = ask("http", "send", { method, url, headers: named, body, timeout });
    return { ...response, headers: response.headers.map(({ name, value }) => [name, value]) };
  },
};
