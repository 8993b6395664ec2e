// Run with `node --test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Invalid, Trajectory, Turn } from "@gymkhana/sdk";
import { score } from "@gymkhana/sdk/testing";
import { Brief } from "./plugin.mjs";

const said = (text, privileged = {}) =>
  new Trajectory({ turns: [new Turn("message", 0, { content: [{ text }] })], privileged });

test("right and short beats right and long", () => {
  const answer = "7";
  const group = [said("7", { answer }), said(`7${"!".repeat(139)}`, { answer }), said("8", { answer })];
  const totals = score(Brief, group).map((seats) => seats.get(0).total);
  assert.deepEqual(totals, [1, 0.5, 0]);
});

test("a silent seat is not scored", () => {
  assert.equal(score(Brief, [new Trajectory({ privileged: { answer: "7" } })])[0].size, 0);
});

test("an answer is needed", () => {
  assert.throws(() => score(Brief, [said("7")]), Invalid);
});
