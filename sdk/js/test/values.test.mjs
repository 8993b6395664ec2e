// Options, functions, arguments, random numbers and the manifest, compared with the Rust SDK.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { Call, Environment, Float, Mistake, Option, Reward, Rng, Tool, evidenceAt, fn, hash64, parameter } from "../src/index.mjs";
import { schemaOf } from "../src/content.mjs";
import { interfacesOf, lacking } from "../src/kinds.mjs";
import { readOptions } from "../src/options.mjs";
import * as contract from "../contract.mjs";
import { BuildError, manifestOf, projectOf, stamp } from "../manifest.mjs";

const REPOSITORY = new URL("../../../", import.meta.url);
const DECLARED = [
  Option.integer("difficulty", "How hard", 2, { within: [1, 4] }),
  Option.number("cost", "In points", 0, { within: [0, Infinity] }),
  Option.text("mode", "What is compared", "auto", { oneOf: ["auto", "text"] }),
  Option.flag("slippery", "Ice", false),
];

test("defaults hold until set", () => {
  const options = readOptions(DECLARED, [["difficulty", 4], ["cost", 1]]);
  assert.deepEqual({ ...options }, { difficulty: 4, cost: 1, mode: "auto", slippery: false });
  assert.throws(() => options.ice, /not declared/);
});

test("mistakes name the option and the fix", () => {
  // Same texts as in the test of the Rust SDK.
  for (const [name, value, words] of [
    ["dificulty", 1, "unknown option `dificulty`; the nearest known one is `difficulty`"],
    ["difficulty", 5, "option `difficulty` must be 1 to 4, not 5"],
    ["difficulty", "hard", "option `difficulty` must be a whole number, not hard"],
    ["difficulty", new Float(2), "option `difficulty` must be a whole number, not 2"],
    ["cost", -1, "option `cost` must be at least 0, not -1"],
    ["cost", NaN, "option `cost` must be at least 0, not NaN"],
    ["mode", "numbr", "option `mode` must be one of auto, text, not numbr"],
  ]) {
    assert.throws(() => readOptions(DECLARED, [[name, value]]), { message: words });
  }
  assert.throws(() => readOptions(DECLARED, [["slippery", true], ["slippery", true]]), /twice/);
});

test("an option is made by a named constructor", () => {
  const message = '`new Option(…)` is not supported: write `Option.number("bonus", …)`, or flag, integer, text or bytes';
  assert.throws(() => new Option("bonus", "Points", 0.2), { name: "TypeError", message });
});

test("a default obeys the type and the limits", () => {
  for (const [make, words] of [
    [() => Option.integer("x", "An option", 5, { within: [1, 4] }), "option `x` must be 1 to 4, not 5"],
    [() => Option.number("x", "An option", -1, { within: [0, Infinity] }), "option `x` must be at least 0, not -1"],
    [() => Option.integer("x", "An option", 0.5), "option `x` must be a whole number, not 0.5"],
    [() => Option.text("x", "An option", "txt", { oneOf: ["auto", "text"] }), "option `x` must be one of auto, text, not txt"],
  ]) {
    assert.throws(make, { name: "TypeError", message: `the default of ${words}` });
  }
  assert.throws(() => Option.flag("x", "An option"), { name: "TypeError", message: /undefined is not a valid value/ });
});

test("the host reads the range in the description", () => {
  const told = ["How hard (1 to 4)", "In points (at least 0)", "What is compared (one of auto, text)", "Ice"];
  assert.deepEqual(DECLARED.map((option) => option.told()), told);
});

test("evidence counts in bytes of UTF-8", () => {
  // é has two bytes and 😀 four; in JavaScript they have one and two units.
  assert.deepEqual(evidenceAt(1, "é42😀", 1, 3, "n"), { turn: 1, start: 2, end: 4, note: "n" });
  assert.deepEqual(evidenceAt(1, "é42😀", 3, 5, "n"), { turn: 1, start: 4, end: 8, note: "n" });
});

test("a class that lacks a required method is found", () => {
  class Whole extends Tool {
    static functions() {}
    call() {}
  }
  class Silent extends Tool {
    static functions() {}
  }
  class Grouped extends Reward {
    scoreGroup() {}
  }
  assert.equal(lacking("tool", Whole, Tool), undefined);
  assert.equal(lacking("reward", Grouped, Reward), undefined);
  assert.deepEqual(lacking("tool", Silent, Tool), ["call"]);
  assert.deepEqual(lacking("environment", class extends Environment {}, Environment), ["static splits"]);
  assert.deepEqual(lacking("reward", class extends Reward {}, Reward), ["score", "scoreGroup"]);
});

test("parameters are JSON Schema", () => {
  const a = parameter("string", "first");
  const b = parameter("integer", "second", { optional: true });
  assert.equal(
    schemaOf(fn("f", "d", { a, b })),
    '{"type":"object","properties":{"a":{"type":"string","description":"first"},"b":{"type":"integer","description":"second"}},"required":["a"]}',
  );
});

test("arguments are read or explained", () => {
  const call = new Call("f", '{"a": "x", "b": 2}');
  assert.deepEqual([call.text("a"), call.integer("b"), call.number("b")], ["x", 2, 2]);
  const told = (look, words) => assert.throws(look, (error) => error instanceof Mistake && error.message.includes(words));
  told(() => call.text("b"), "argument `b` must be a string, not 2");
  told(() => call.text("c"), "argument `c` is missing; given: a, b");
  told(() => new Call("f", "{").text("a"), "not JSON");
  told(() => new Call("f", "[]").text("a"), "an object");
});

test("the stream is that of SplitMix64", () => {
  // Output of Vigna's splitmix64.c for seed 1234567.
  const rng = new Rng(1234567);
  const drawn = Array.from({ length: 5 }, () => rng.bits());
  const golden = [6457827717110365317n, 3203168211198807973n, 9817491932198370423n, 4593380528125082431n, 16408922859458223821n];
  assert.deepEqual(drawn, golden);
  assert.equal(new Rng(rng.state).bits(), rng.bits());
  // FNV-1a of "foobar" is 0x85944171f73967e8; the hash is its finalised form.
  const state = BigInt.asUintN(64, 0x85944171f73967e8n - 0x9e3779b97f4a7c15n);
  assert.equal(hash64("foobar"), new Rng(state).bits());
});

test("numbers stay in their bounds and reach the ends", () => {
  const rng = new Rng(2);
  const drawn = Array.from({ length: 200 }, () => rng.between(-1, 2));
  assert.deepEqual([Math.min(...drawn), Math.max(...drawn)], [-1, 2]);
  assert.ok(Array.from({ length: 1000 }, () => rng.unit()).every((number) => number >= 0 && number < 1));
  const items = Array.from({ length: 100 }, (_, place) => place);
  rng.shuffle(items);
  assert.notDeepEqual(items, [...items].sort((a, b) => a - b));
  assert.equal(new Set(items).size, 100);
});

const project = (gymkhana, over = {}) =>
  projectOf({ name: "calculator", version: "0.1.0", description: "Exact arithmetic", license: "Apache-2.0", gymkhana, ...over });

test("the section is magic, length and JSON", () => {
  const manifest = manifestOf(project({ namespace: "gymkhana", tool: "./m.mjs#C" }));
  const stamped = stamp(Buffer.from("\0asm"), manifest);
  const frame = stamped.subarray(stamped.indexOf("GYMK"));
  assert.equal(stamped[4], 0);
  assert.ok(stamped.includes("\x11gymkhana:manifestGYMK"));
  assert.equal(frame.readUInt32LE(4), frame.length - 8);
  const contractStamp = { version: "0.2.0", digest: contract.digest() };
  assert.deepEqual(JSON.parse(frame.subarray(8)), {
    schema: 1,
    namespace: "gymkhana",
    name: "calculator",
    version: "0.1.0",
    kinds: ["tool"],
    contract: contractStamp,
    license: "Apache-2.0",
    description: "Exact arithmetic",
    capabilities: [],
    deterministic: true,
  });
});

test("mistakes in package.json name the key and show the fix", () => {
  const good = { namespace: "a", tool: "./m.mjs#C" };
  for (const [gymkhana, words] of [
    [undefined, "`namespace` is missing"],
    [{ tool: "./m.mjs#C" }, "`namespace` is missing"],
    [{ ...good, namespace: "A b" }, "lower-case letters"],
    [{ namspace: "a" }, "did you mean `namespace`?"],
    [{ namespace: "a" }, "`environment`, `tool` or `reward` is missing"],
    [{ ...good, tool: "C" }, "./plugin.mjs#YourClass"],
    [{ ...good, deterministic: 1 }, "true or false"],
    [{ ...good, capabilities: ["htp"] }, "did you mean `http`?"],
    [{ ...good, capabilities: ["log"] }, "is always available"],
    [{ ...good, capabilities: ["http", "http"] }, "twice"],
    [{ ...good, optional: ["http"] }, "add it to \"capabilities\" too"],
  ]) {
    assert.throws(() => project(gymkhana), (error) => error instanceof BuildError && error.message.includes(words), words);
  }
  assert.throws(() => project(good, { license: "" }), /license/);
  assert.throws(() => project(good, { name: "A" }), /lower-case/);
  assert.throws(() => project(good, { version: "1" }), /three numbers/);
  assert.throws(() => manifestOf(project(good), [0, NaN]), /two finite numbers/);
});

// The host's parser accepts the first list and rejects the second: registry/tests/manifest.rs.
test("versions are those of semver", () => {
  for (const version of ["0.1.0", "1.2.3-rc.1", "1.0.0-0a.b-c.0", "1.0.0+001", "1.0.0-a+b.c-d", "1.0.0--", "18446744073709551615.0.0"]) {
    assert.equal(project({ namespace: "a", tool: "m.mjs#C" }, { version }).version, version);
  }
  for (const version of [
    "1", "1.2", "01.2.3", "1.02.3", "1.2.3.4", "1.2.3-", "1.2.3+", "1.2.3-01", "1.2.3-a..b", "1.2.3-.a", "1.2.3-a_b",
    "1.2.3+a_b", "1.2.3-ä", "1.2.3-a.", "1.2.3+a..b", "1.2.3\n", " 1.2.3", "v1.2.3", "\u0661.2.3", "18446744073709551616.0.0",
  ]) {
    assert.throws(() => project({ namespace: "a", tool: "m.mjs#C" }, { version }), /three numbers/, version);
  }
});

test("the contract's digest is that of the repository's files", () => {
  const hash = createHash("sha256");
  const entries = readdirSync(new URL("wit/", REPOSITORY), { withFileTypes: true });
  for (const name of entries.filter((entry) => entry.isFile()).map((entry) => entry.name).sort()) {
    const text = readFileSync(new URL(`wit/${name}`, REPOSITORY), "utf8");
    hash.update(`${name}\0${text.replaceAll(/^[ ]*(\/\/.*)?\n/gm, "")}\0`);
  }
  assert.equal(contract.digest(), hash.digest("hex"));
  const rust = readFileSync(new URL("registry/src/contract.rs", REPOSITORY), "utf8");
  assert.ok(rust.includes(`semver::Version::new(${contract.VERSION.split(".").join(", ")})`));
});

test("the contract contains every optional interface", () => {
  const text = contract.files().map((name) => readFileSync(new URL(name, contract.FOLDER), "utf8")).join("");
  class All {}
  const methods = ["snapshot", "stateKey", "privileged", "advise", "guidance", "render", "finalView"];
  methods.forEach((method) => (All.prototype[method] = () => {}));
  const names = ["environment", "tool", "reward"].flatMap((kind) => interfacesOf(kind, All));
  assert.equal(names.length, 11);
  names.forEach((name) => assert.ok(text.includes(`interface ${name} {`), name));
});

// npm links the SDK's folder without its dependencies: a plugin must list them itself.
test("the templates install the SDK's build tools", () => {
  const read = (path) => JSON.parse(readFileSync(new URL(path, REPOSITORY), "utf8"));
  for (const kind of ["environment", "tool", "reward"]) {
    const { devDependencies } = read(`host/cli/templates/js-${kind}/package.json`);
    assert.deepEqual(devDependencies, read("sdk/js/package.json").dependencies);
  }
});
