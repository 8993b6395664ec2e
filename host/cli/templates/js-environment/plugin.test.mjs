// Run with `node --test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Invalid, NotFound } from "@gymkhana/sdk";
import { Play } from "@gymkhana/sdk/testing";
import { Guess } from "./plugin.mjs";

test("hints lead to the number", () => {
  const play = new Play(Guess);
  const { secret } = play.episode.environment;
  play.say(String(secret - 1));
  assert.equal(play.seen, "Too low. 6 left.");
  play.say(String(secret));
  assert.deepEqual([play.seen, play.reward, play.over], ["Right!", 1, true]);
});

test("the expert needs seven guesses at most", () => {
  for (let index = 0; index < 50; index += 1) assert.equal(new Play(Guess, { index }).followOracle(7), 1);
});

test("splits share no secret", () => {
  const secret = (split, index) => new Play(Guess, { split, index }).episode.environment.secret;
  for (let index = 0; index < 50; index += 1) {
    assert.notEqual(secret("train", index) % 3, 0);
    assert.equal(secret("test", index) % 3, 0);
  }
});

test("text without a number costs no guess", () => {
  const play = new Play(Guess);
  play.say("seven");
  assert.equal(play.seen, "Answer with a whole number and nothing else.");
  assert.equal(play.episode.environment.left, 7);
});

test("unknown tasks and options are refused", () => {
  assert.throws(() => new Play(Guess, { split: "validation" }), NotFound);
  assert.throws(() => new Play(Guess, { index: 1000 }), NotFound);
  assert.throws(() => new Play(Guess, { options: { higest: 10 } }), Invalid);
});
