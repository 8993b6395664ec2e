// Rules that the SDK applies to every plugin: valid options, seats in turn, finished episodes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { BadSnapshot, Call, Environment, Invalid, Mistake, NotFound, Option, Reward, Tool, Trajectory, Turn, fn } from "../src/index.mjs";
import { Episode, Play, openSession, score } from "../src/testing.mjs";
import { Session } from "../src/rules.mjs";

/** Environment in which two seats count in turn; calling `stop` ends the game. */
class Counting extends Environment {
  static summary = "Count in turn";
  static seats = ["first", "second"];
  static options = [Option.integer("by", "Step", 1, { within: [1, 9] })];

  static splits() {
    return [{ name: "train", tasks: 3 }];
  }

  reset(task, options) {
    [this.count, this.by] = [0, options.by];
    return { observations: new Map([[1, "0"]]), functions: new Map([[1, [fn("stop", "Ends the game.")]]]), nextSeat: 1 };
  }

  step(action) {
    if (action.call) return { reward: new Map([[1, 0.5]]), terminated: true };
    if (action.text === "cheat") throw new Mistake("count");
    this.count += this.by;
    const next = 1 - action.seat;
    return { observations: new Map([[next, String(this.count)]]), nextSeat: next };
  }

  snapshot() {
    return Uint8Array.of(this.count, this.by);
  }

  restore(snapshot) {
    if (snapshot.length !== 2) throw new Error("two bytes");
    [this.count, this.by] = snapshot;
  }
}

const say = (seat, text) => ({ seat, content: [{ text }], text });
const calling = (seat, name) => ({ seat, content: [], text: "", call: new Call(name) });

test("options are checked before the author sees them", () => {
  assert.throws(() => new Play(Counting, { options: { bi: 2 } }), { name: "Error", message: /`by`/ });
  assert.throws(() => new Play(Counting, { options: { by: 10 } }), Invalid);
  assert.throws(() => Episode.splits(Counting, [["by", 0]]), Invalid);
  const play = new Play(Counting, { options: { by: 3 } });
  play.say("go");
  assert.equal(play.seen, "3");
});

test("seats take turns", () => {
  const play = new Play(Counting);
  assert.throws(() => play.act(say(0, "go")), /it is the turn of seat 1, not of seat 0/);
  assert.equal(play.say("go").nextSeat, 0);
});

test("a mistake is an observation and the same seat goes on", () => {
  const play = new Play(Counting);
  assert.deepEqual(play.say("cheat"), { observations: new Map([[1, "count"]]), nextSeat: 1 });
  assert.equal(play.episode.environment.count, 0);
});

test("only offered functions are called", () => {
  const play = new Play(Counting);
  assert.throws(() => play.act(calling(1, "stpo")), NotFound);
  play.say("go");
  assert.throws(() => play.act(calling(0, "stop")), NotFound);
});

test("the end is the end also after a restore", () => {
  const play = new Play(Counting);
  const before = play.episode.snapshot();
  assert.ok(play.call("stop").terminated);
  const ended = Episode.restore(Counting, play.episode.snapshot());
  for (const episode of [play.episode, ended]) assert.throws(() => episode.step(say(0, "go")), /over/);
  assert.ok(Episode.restore(Counting, before).step(calling(1, "stop")).terminated);
});

test("invalid bytes are not a snapshot", () => {
  const snapshot = new Play(Counting).episode.snapshot();
  for (let length = 0; length < snapshot.length; length += 1) {
    assert.throws(() => Episode.restore(Counting, snapshot.slice(0, length)), BadSnapshot, `cut at ${length}`);
  }
  assert.throws(() => Episode.restore(Counting, Uint8Array.of(...snapshot, 0)), BadSnapshot);
});

/** Tool that records the arguments of `open`. */
class Recorder extends Tool {
  static summary = "Remembers";
  static options = [Option.flag("loud", "In capitals", false)];

  static functions() {
    return [fn("recall", "Says it.", {}, { cost: 2 })];
  }

  open(setup, options, seed) {
    this.words = `${setup} ${options.loud} ${seed}`;
  }

  call(call) {
    if (call.has("fail")) throw new Mistake("as you wish");
    return this.words;
  }
}

test("a session gets setup, options and seed", () => {
  const session = openSession(Recorder, { setup: Uint8Array.of(7), options: { loud: true }, seed: 9 });
  assert.deepEqual(session.call(new Call("recall")), { content: "7 true 9", failed: false });
  assert.ok(session.call(new Call("recal")).failed);
  assert.deepEqual(session.call(Call.of("recall", { fail: 1 })), { content: "as you wish", failed: true });
  assert.throws(() => openSession(Recorder, { options: { lout: true } }), Invalid);
  assert.equal(Session.functions(Recorder)[0].cost, 2);
});

test("an answer is text or parts", () => {
  const session = openSession(Recorder);
  for (const [wrong, name] of [[42, "number"], [undefined, "undefined"], [null, "null"]]) {
    session.tool.words = wrong;
    const message = `\`Recorder.call\` must return text, not ${name}`;
    assert.throws(() => session.call(new Call("recall")), { name: "TypeError", message });
  }
  session.tool.words = [{ text: "a" }, "b"];
  assert.equal(session.call(new Call("recall")).failed, false);
});

/** Reward of 1 per call. */
class Busy extends Reward {
  static summary = "A point for each call";
  static range = [0, 2];
  static components = { calls: "how many" };

  score(trajectory, seat) {
    const calls = trajectory.calls(seat).length;
    return { total: calls, components: { calls } };
  }
}

const message = (seat) => new Turn("message", seat, { content: [{ text: "yes" }] });
const called = (seat) => new Turn("call", seat, { call: new Call("f") });

test("each seat that acted is scored in order", () => {
  const shown = new Turn("observation", 5, { content: [{ text: "look" }] });
  const played = new Trajectory({ turns: [message(2), shown, called(0), called(2), called(2)] });
  const scores = score(Busy, [played, new Trajectory({ ending: "failed" })]);
  assert.deepEqual([...scores[0]].map(([seat, { total }]) => [seat, total]), [[0, 1], [2, 2]]);
  assert.equal(scores[1].size, 0);
  assert.equal(played.lastMessage(2), undefined, "the last thing that seat 2 did was a call");
});

test("scores that the host would reject are errors", () => {
  assert.throws(() => score(Busy, [new Trajectory({ turns: [called(0), called(0), called(0)] })]), /outside 0 to 2/);
  class Bare extends Busy {
    score() {
      return 1;
    }
  }
  assert.throws(() => score(Bare, [new Trajectory({ turns: [called(0)] })]), /components/);
  class Undefined extends Busy {
    score() {
      return { total: NaN, components: { calls: 0 } };
    }
  }
  assert.throws(() => score(Undefined, [new Trajectory({ turns: [called(0)] })]), /outside/);
});
