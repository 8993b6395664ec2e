// Exports of a tool plugin.

import { Session } from "../rules.mjs";
import { exported, fromCall, pairs, toFunctions, toNamed, toOptions, toParts } from "./convert.mjs";
import { Handles } from "./handles.mjs";

/** Export objects by the camel-case interface names that componentize-js expects. */
export function toolExports(kind) {
  const sessions = new Handles();
  return {
    tool: exported({
      describe: () => ({ summary: kind.summary, options: toOptions(kind.options) }),
      functions: (options) => toFunctions(Session.functions(kind, pairs(options))),
      open: (setup, options, seed) => sessions.open(Session.open(kind, setup, pairs(options), seed)),
      call: (handle, call) => {
        const { content, failed } = sessions.get(handle).call(fromCall(call));
        return { content: toParts(content), failed };
      },
      close: (handle) => void sessions.close(handle)?.tool.close(),
    }),
    toolSnapshot: exported({
      snapshot: (handle) => sessions.get(handle).snapshot(),
      restore: (snapshot) => sessions.open(Session.restore(kind, snapshot)),
    }),
    toolFinalView: exported({ finalView: (handle) => toNamed(sessions.get(handle).tool.finalView()) }),
  };
}
