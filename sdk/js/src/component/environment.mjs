// Exports of an environment plugin.

import { textOf } from "../content.mjs";
import { Episode, bySeat } from "../rules.mjs";
import { exported, fromCall, fromParts, fromTask, pairs, toCall, toFunctions, toNamed, toOptions, toParts, toRange } from "./convert.mjs";
import { Handles } from "./handles.mjs";

/** Export objects by the camel-case interface names that componentize-js expects. */
export function environmentExports(kind) {
  const episodes = new Handles();
  const own = (handle) => episodes.get(handle).environment;
  return {
    environment: exported({
      describe: () => ({
        summary: kind.summary,
        seats: kind.seats,
        options: toOptions(kind.options),
        rewards: toRange(kind.rewards),
      }),
      splits: (options) =>
        Episode.splits(kind, pairs(options)).map(({ name, tasks }) => ({
          name,
          tasks: tasks === undefined ? undefined : BigInt(tasks),
        })),
      start: (task, options, seed) => {
        const [episode, started] = Episode.start(kind, fromTask(task), pairs(options), seed);
        const offer = ([seat, functions]) => ({ seat, functions: toFunctions(functions) });
        return {
          episode: episodes.open(episode),
          observations: toObservations(started.observations),
          functions: [...bySeat(started.functions)].map(offer),
          setup: Object.entries(started.setup ?? {}).map(([tool, bytes]) => ({ tool, bytes })),
          seat: started.seat ?? 0,
        };
      },
      step: (handle, action) => toStepped(episodes.get(handle).step(fromAction(action))),
      close: (handle) => void episodes.close(handle),
    }),
    environmentSnapshot: exported({
      snapshot: (handle) => episodes.get(handle).snapshot(),
      restore: (snapshot) => episodes.open(Episode.restore(kind, snapshot)),
    }),
    environmentStateKey: exported({ stateKey: (handle) => own(handle).stateKey() }),
    environmentPrivileged: exported({ privileged: (handle) => toNamed(own(handle).privileged()) }),
    environmentOracle: exported({ advise: (handle, tools, results) => toAdvice(own(handle).advise(tools, results)) }),
    environmentGuidance: exported({ guidance: (handle) => toParts(own(handle).guidance()) }),
    environmentRender: exported({ render: (handle) => toPicture(own(handle).render()) }),
  };
}

function fromAction({ seat, deed }) {
  if (deed.tag === "call") return { seat, call: fromCall(deed.val), content: [], text: "" };
  const content = fromParts(deed.val);
  return { seat, content, text: textOf(content) };
}

function toObservations(observations) {
  return [...bySeat(observations)].map(([seat, content]) => ({ seat, content: toParts(content) }));
}

function toStepped(stepped) {
  return {
    observations: toObservations(stepped.observations),
    rewards: [...bySeat(stepped.reward)].map(([seat, reward]) => ({ seat, reward })),
    terminated: Boolean(stepped.terminated),
    truncated: Boolean(stepped.truncated),
    extras: toNamed(stepped.extras),
    seat: stepped.seat ?? 0,
  };
}

function toAdvice(advice) {
  return typeof advice === "string"
    ? { tag: "message", val: advice }
    : { tag: "calls", val: advice.map(toCall) };
}

function toPicture(picture) {
  return typeof picture === "string" ? { tag: "text", val: picture } : { tag: "svg", val: picture.svg };
}
