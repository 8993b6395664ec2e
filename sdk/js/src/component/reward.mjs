// Exports of a reward plugin.

import * as rules from "../rules.mjs";
import { Trajectory, Turn } from "../trajectory.mjs";
import { exported, fromCall, fromNamed, fromParts, fromTask, pairs, toOptions, toRange } from "./convert.mjs";

/** Export objects by the camel-case interface names that componentize-js expects. */
export function rewardExports(kind) {
  return {
    reward: exported({
      describe: () => ({
        summary: kind.summary,
        components: Object.entries(kind.components).map(([name, description]) => ({ name, description })),
        range: toRange(kind.range),
        options: toOptions(kind.options),
      }),
      score: (group, options, trainingStep) => {
        const scores = rules.score(kind, group.map(fromTrajectory), pairs(options), Number(trainingStep));
        return scores.map((seats) => [...seats].map(toScore));
      },
    }),
  };
}

function fromTurn({ tag, val }) {
  if (tag === "call") return new Turn("call", val.seat, { call: fromCall(val.call), cost: val.cost });
  const content = fromParts(val.content);
  if (tag === "answer") return new Turn("answer", val.seat, { content, id: val.id, failed: val.failed });
  return new Turn(tag, val.seat, { content });
}

function fromTrajectory(given) {
  return new Trajectory({
    task: fromTask(given.task),
    turns: given.turns.map(fromTurn),
    ending: given.ending,
    environmentRewards: new Map(given.environmentRewards.map(({ seat, rewards }) => [seat, [...rewards]])),
    extras: fromNamed(given.extras),
    privileged: fromNamed(given.privileged),
    views: fromNamed(given.views),
  });
}

function toScore([seat, { total, components, turns, evidence }]) {
  const named = Object.entries(components).map(([name, value]) => ({ name, value }));
  return { seat, total, components: named, turns: Float64Array.from(turns), evidence };
}
