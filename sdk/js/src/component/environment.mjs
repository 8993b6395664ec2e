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
        rewardRange: toRange(kind.rewardRange),
      }),
      splits: (options) =>
        Episode.splits(kind, pairs(options)).map(({ name, tasks }) => ({
          name,
          tasks: tasks === undefined ? undefined : BigInt(tasks),
        })),
      reset: (task, options, seed) => {
        const [episode, result] = Episode.reset(kind, fromTask(task), pairs(options), seed);
        const offer = ([seat, functions]) => ({ seat, functions: toFunctions(functions) });
        return {
          episode: episodes.open(episode),
          observations: toObservations(result.observations),
          functions: [...bySeat(result.functions)].map(offer),
          toolSetups: Object.entries(result.toolSetups ?? {}).map(([tool, bytes]) => ({ tool, bytes })),
          nextSeat: result.nextSeat ?? 0,
        };
      },
      step: (handle, action) => toStepResult(episodes.get(handle).step(fromAction(action))),
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

function fromAction({ seat, body }) {
  if (body.tag === "call") return { seat, call: fromCall(body.val), content: [], text: "" };
  const content = fromParts(body.val);
  return { seat, content, text: textOf(content) };
}

function toObservations(observations) {
  return [...bySeat(observations)].map(([seat, content]) => ({ seat, content: toParts(content) }));
}

function toStepResult(result) {
  return {
    observations: toObservations(result.observations),
    rewards: [...bySeat(result.reward)].map(([seat, reward]) => ({ seat, reward })),
    terminated: Boolean(result.terminated),
    truncated: Boolean(result.truncated),
    extras: toNamed(result.extras),
    nextSeat: result.nextSeat ?? 0,
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
