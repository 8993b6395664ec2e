// Uncaught exceptions at the author's lines.

import assert from "node:assert/strict";
import { test } from "node:test";

import { authorLines, nodeFrames, numbersOf } from "../lines.mjs";
import { uncaught } from "../src/component/uncaught.mjs";

test("segments of source maps are decoded", () => {
  // Digits carry five bits, least significant first; the lowest bit of all is the sign.
  assert.deepEqual(numbersOf("A"), [0]);
  assert.deepEqual(numbersOf("CD"), [1, -1]);
  assert.deepEqual(numbersOf("2H"), [123]);
  assert.deepEqual(numbersOf("qxmvrH"), [123456789]);
});

test("runs hold the author's lines of a bundle", () => {
  // Line 1 has no source. Lines 2 and 3 are lines 1 and 2 of the SDK. Lines 4 to 6 are lines 3, 4 and 10 of the author's.
  const mappings = ";AAAA;AACA;ACCA;AACA,IAAI;AAMA";
  const names = { "sdk.mjs": undefined, "plugin.mjs": "plugin.mjs" };
  const runs = authorLines({ sources: ["sdk.mjs", "plugin.mjs"], mappings }, (source) => names[source]);
  assert.deepEqual(runs, [
    [4, 2, "plugin.mjs", 3],
    [6, 1, "plugin.mjs", 10],
  ]);
});

test("an exception keeps the author's frames", () => {
  const error = new TypeError("x is undefined");
  // A stack as SpiderMonkey writes it: the author's functions, the SDK's wrapper and the engine's glue.
  error.stack = [
    "helper@plugin.js:101:12",
    "call/<@plugin.js:104:20",
    "guarded</<@plugin.js:900:14",
    "export_call@initializer.js:101:3",
    "",
  ].join("\n");
  const runs = [[100, 10, "src/plugin.mjs", 30]];
  assert.equal(
    uncaught(error, runs),
    "Uncaught TypeError: x is undefined\n    at helper (src/plugin.mjs:31)\n    at call (src/plugin.mjs:34)",
  );
  // In a quick build the bundle is evaluated, and the base that evaluates it is no file of the author.
  globalThis.gymkhanaFile = " > eval";
  error.stack = ["helper@base.js line 20 > eval:101:12", "late/<@base.js:104:20"].join("\n");
  assert.equal(uncaught(error, runs), "Uncaught TypeError: x is undefined\n    at helper (src/plugin.mjs:31)");
  delete globalThis.gymkhanaFile;
  assert.equal(uncaught("no error object", runs), "Uncaught no error object");
});

test("frames of Node.js have the form of the engine", () => {
  const url = "file:///tmp/gymkhana-1/tool.mjs";
  const stack = [
    "TypeError: x is undefined",
    `    at helper (${url}:103:12)`,
    `    at new Notes (${url}:104:20)`,
    `    at ${url}:105:3`,
    "    at ModuleJob.run (node:internal/modules/esm/module_job:234:25)",
    "    at other (file:///tmp/gymkhana-1/other.mjs:1:1)",
    "    at async main (file:///sdk/build.mjs:9:3)",
  ].join("\n");
  const frames = nodeFrames(stack, url);
  assert.deepEqual(frames, [`helper@${url}:103:1`, `new Notes@${url}:104:1`, `@${url}:105:1`]);
  const runs = [[100, 10, "plugin.mjs", 30]];
  assert.equal(
    uncaught(new TypeError("x is undefined"), runs, frames.join("\n")),
    "Uncaught TypeError: x is undefined\n    at helper (plugin.mjs:33)\n    at new Notes (plugin.mjs:34)\n    at (top level) (plugin.mjs:35)",
  );
});
