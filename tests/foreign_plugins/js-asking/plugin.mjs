// Uses every capability that a run can grant and returns the results.

import { Denied, NotFound, Tool, assets, fn, http, log, model } from "@gymkhana/sdk";

const text = (bytes) => new TextDecoder().decode(bytes);

function helper(nothing) {
  return nothing.length;
}

/** Tool whose answers are lines of JSON. */
export class Asking extends Tool {
  static summary = "Uses every capability that a run can grant";

  static functions() {
    return ["read", "complete", "send", "unknown", "crash"].map((name) => fn(name, "Asks."));
  }

  call(call) {
    log.info(`asked to ${call.name}`);
    try {
      return JSON.stringify(this[call.name]());
    } catch (error) {
      if (error instanceof Denied) return `Denied: ${error.message}`;
      if (error instanceof NotFound) return `NotFound: ${error.message}`;
      throw error;
    }
  }

  read() {
    return [assets.names().map(({ name, size }) => [name, size]), text(assets.read("words", 1, 2))];
  }

  unknown() {
    return text(assets.read("nothing", 0, 1));
  }

  crash() {
    return helper(undefined);
  }

  complete() {
    const messages = [
      { role: "system", content: "be kind" },
      { role: "user", content: "hello" },
    ];
    const reply = model.complete({ messages, maxTokens: 50, stop: ["."] });
    return [reply.text, reply.cut, reply.usage.promptTokens];
  }

  send() {
    const body = new TextEncoder().encode("body");
    const response = http.send({ method: "POST", url: "http://a.b/c", headers: [["x-y", "z"]], body });
    return [response.status, response.headers, text(response.body)];
  }
}
