// Run with `node --test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Call, Invalid } from "@gymkhana/sdk";
import { Session, openSession } from "@gymkhana/sdk/testing";
import { Notes } from "./plugin.mjs";

const write = (name, text) => Call.of("write", { name, text });
const read = (name) => Call.of("read", { name });
const worked = (content) => ({ content, failed: false });

test("written notes can be read", () => {
  const session = openSession(Notes);
  assert.deepEqual(session.call(write("a", "7")), worked("Noted."));
  assert.deepEqual(session.call(read("a")), worked("7"));
  assert.deepEqual(Session.restore(Notes, session.snapshot()).call(read("a")), worked("7"));
});

test("mistakes are answered in words that help", () => {
  const session = openSession(Notes, { options: { most: 1 } });
  assert.ok(session.call(Call.of("read")).failed);
  assert.deepEqual(session.call(read("a")), { content: "there is no note `a`; there are: none", failed: true });
  session.call(write("a", ""));
  assert.match(session.call(write("b", "")).content, /full/);
});

test("a setup brings notes", () => {
  const setup = (text) => ({ setup: new TextEncoder().encode(text) });
  assert.deepEqual(openSession(Notes, setup('{"a": "7"}')).call(read("a")), worked("7"));
  assert.throws(() => openSession(Notes, setup("[1]")), Invalid);
});
