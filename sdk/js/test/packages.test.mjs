// Packages in bases of quick builds.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { runInNewContext } from "node:vm";

import * as esbuild from "esbuild";

import { bundle } from "../bundle.mjs";
import { importsOf, named, packagesOf } from "../packages.mjs";
import { quickComponent } from "../quick.mjs";
import { SLOT_BYTES, contentOf, emptySlot } from "../src/component/slot.mjs";

const home = realpathSync(mkdtempSync(join(tmpdir(), "gymkhana-")));
after(() => rmSync(home, { recursive: true }));

/** Folder of a plugin with these files. */
function project(name, files) {
  const folder = join(home, name);
  for (const [path, text] of Object.entries(files)) write(folder, path, text);
  return folder;
}

function write(folder, path, text) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

const FILES = {
  "package.json": `{ "type": "module" }`,
  "node_modules/modern/package.json": `{ "name": "modern", "version": "1.0.0", "type": "module", "main": "index.js" }`,
  "node_modules/modern/index.js": `export * from "./part.js"; export default "standard"; export let count = 0; export const add = () => ++count;`,
  "node_modules/modern/part.js": `export const part = "part"; export const unused = globalThis.evaluated?.();`,
  "node_modules/old/package.json": `{ "name": "old", "version": "1.0.0" }`,
  "node_modules/old/index.js": `exports.__esModule = true; exports.default = "inner"; exports.named = 7;`,
};
const ENTRY = `export * from "./plugin.mjs";`;

async function inputsOf(folder, entry = ENTRY) {
  return (await bundle(esbuild, folder, entry, join(folder, "out.js"))).inputs;
}

async function packagesIn(folder) {
  const packages = packagesOf(await inputsOf(folder), folder);
  const links = join(folder, "links.js");
  await bundle(esbuild, folder, ENTRY, links, { packages: { ...packages, asLinks: true } });
  return named(packages, readFileSync(links, "utf8"));
}

test("the author's files see the packages of a base as they see bundled ones", async () => {
  const plugin = `
    import standard, { part, add, count } from "modern";
    import * as all from "modern";
    import old, { named } from "old";
    add();
    export const seen = JSON.stringify([standard, part, count, Object.keys(all).sort(), old, named]);`;
  const folder = project("links", { ...FILES, "plugin.mjs": plugin });
  const packages = await packagesIn(folder);
  const run = (...files) => {
    const context = { JSON };
    for (const file of files) runInNewContext(readFileSync(file, "utf8"), context);
    return context.plugin.seen;
  };
  const file = (name) => join(folder, name);
  await bundle(esbuild, folder, ENTRY, file("whole.js"), { format: "iife", globalName: "plugin" });
  await bundle(esbuild, folder, importsOf(packages).join("\n"), file("base.js"), { format: "iife" });
  await bundle(esbuild, folder, ENTRY, file("late.js"), { packages, format: "iife", globalName: "plugin" });
  assert.equal(run(file("base.js"), file("late.js")), run(file("whole.js")));
  assert.ok(!readFileSync(file("late.js"), "utf8").includes("inner"));
});

test("a base imports the names that the author's files import", async () => {
  const namesOf = async (name, plugin) => {
    const folder = project(name, { ...FILES, "plugin.mjs": plugin });
    return [...(await packagesIn(folder)).entries.values()].find(({ isModule }) => isModule).names;
  };
  assert.deepEqual(await namesOf("n1", `import { part } from "modern"; export const a = part;`), ["part"]);
  const both = `import one, { part as two, add } from "modern"; export const a = [one, two, add];`;
  assert.deepEqual(await namesOf("n2", both), ["add", "default", "part"]);
  for (const [index, plugin] of [
    `import * as all from "modern"; export const a = all.part;`,
    `export * from "modern";`,
    `import { part } from "modern"; export const a = [part, import("modern")];`,
  ].entries()) {
    assert.equal(await namesOf(`all${index}`, plugin), undefined, plugin);
  }
});

test("an edit with packages is not bundled again, and a changed package is", async () => {
  const folder = project("edits", { ...FILES, "plugin.mjs": "" });
  const bases = join(home, "bases");
  const made = join(home, "made");
  const bundled = [];
  const builds = async (plugin) => {
    bundled.length = 0;
    write(folder, "plugin.mjs", plugin);
    const packages = packagesOf(await inputsOf(folder), folder);
    const source = { entry: ENTRY, kinds: [], interfaces: [], capabilities: [], packages };
    const component = await quickComponent(source, { esbuild, folder, made, bases, linesOf: () => [] }, (path) => {
      bundled.push(readFileSync(path, "utf8"));
      return Buffer.from(emptySlot(SLOT_BYTES));
    });
    const text = new TextDecoder().decode(contentOf(component));
    assert.ok(!text.includes(`part = "part"`), "the package is in the base");
    return bundled.length;
  };
  const one = (number) => `import { part } from "modern"; export const a = [part, ${number}];`;
  assert.deepEqual([await builds(one(1)), await builds(one(2)), await builds(one(1))], [1, 0, 0]);
  // Another name of the package, another package.
  const add = `import { part, add } from "modern"; export const a = [part, add];`;
  const old = `import { part } from "modern"; import old from "old"; export const a = [part, old];`;
  assert.deepEqual([await builds(add), await builds(add), await builds(old), await builds(old)], [1, 0, 1, 0]);
  // An edit in place, of the same size; an upgrade without other files; a removed file.
  const index = FILES["node_modules/modern/index.js"];
  write(folder, "node_modules/modern/index.js", index.replace("standard", "STANDARD"));
  assert.deepEqual([await builds(one(1)), await builds(one(2))], [1, 0]);
  const manifest = FILES["node_modules/modern/package.json"];
  write(folder, "node_modules/modern/package.json", manifest.replace("1.0.0", "1.0.1"));
  assert.deepEqual([await builds(one(1)), await builds(one(2))], [1, 0]);
  write(folder, "node_modules/modern/index.js", `export const part = "other";`);
  rmSync(join(folder, "node_modules/modern/part.js"));
  assert.deepEqual([await builds(one(1)), await builds(one(2))], [1, 0]);
});

test("packages that cannot be evaluated before the author's files stay in the slot", async () => {
  const plugin = `import { part } from "modern"; export const a = part;`;
  const folder = project("order", { ...FILES, "plugin.mjs": plugin });
  const packages = packagesOf(await inputsOf(folder), folder);
  const source = { entry: ENTRY, kinds: [], interfaces: [], capabilities: [], packages };
  let bundles = 0;
  const build = () =>
    quickComponent(source, { esbuild, folder, made: join(home, "m"), bases: join(home, "b"), linesOf: () => [] }, (path) => {
      bundles += 1;
      if (readFileSync(path, "utf8").includes("gymkhanaPackages")) throw new Error("needs a polyfill");
      return Buffer.from(emptySlot(SLOT_BYTES));
    });
  for (const expected of [2, 2]) {
    const text = new TextDecoder().decode(contentOf(await build()));
    assert.ok(text.includes(`part = "part"`));
    assert.equal(bundles, expected);
  }
});

test("files that call packages a lot are evaluated at build time, with their packages", async () => {
  const busy = "const end = Date.now() + 200; while (Date.now() < end); ";
  const modern = { "node_modules/modern/part.js": `${busy} export const part = "part"; export const work = () => { ${busy} };` };
  const bundles = async (name, plugin) => {
    const folder = project(name, { ...FILES, ...modern, "plugin.mjs": plugin });
    const packages = packagesOf(await inputsOf(folder), folder);
    const source = { entry: ENTRY, kinds: [], interfaces: [], capabilities: [], packages };
    const bases = join(home, `${name}-bases`);
    const component = await quickComponent(source, { esbuild, folder, made: join(home, "w"), bases, linesOf: () => [] }, () =>
      Buffer.from(emptySlot(SLOT_BYTES)),
    );
    return new TextDecoder().decode(contentOf(component)).includes("Date.now");
  };
  // The package's own time does not count: a base evaluates it once.
  assert.equal(await bundles("calm", `import { part } from "modern"; export const a = part;`), false);
  assert.equal(await bundles("busy", `import { work } from "modern"; export const a = work();`), true);
});

test("a folder keeps few bases", async () => {
  const folder = project("few", { ...FILES, "plugin.mjs": `import { part } from "modern"; export const a = part;` });
  const bases = join(home, "few-bases");
  for (let number = 0; number < 11; number += 1) {
    write(folder, "node_modules/modern/part.js", `export const part = ${number};`);
    const packages = packagesOf(await inputsOf(folder), folder);
    const source = { entry: ENTRY, kinds: [], interfaces: [], capabilities: [], packages };
    await quickComponent(source, { esbuild, folder, made: join(home, "f"), bases, linesOf: () => [] }, () =>
      Buffer.from(emptySlot(SLOT_BYTES)),
    );
  }
  const ends = readdirSync(bases).map((name) => name.split(".")[1]);
  assert.deepEqual(ends.sort(), [...Array(8).fill("js"), ...Array(8).fill("wasm")]);
});

test("packages that share classes with the author's files are not in a base", async () => {
  const shared = { "node_modules/modern/part.js": `import { Tool } from "@gymkhana/sdk"; export const part = Tool;` };
  const plugin = `import { part } from "modern"; export const a = part;`;
  const folder = project("shared", { ...FILES, ...shared, "plugin.mjs": plugin });
  assert.equal(packagesOf(await inputsOf(folder), folder), undefined);
  const alone = project("alone", { "plugin.mjs": "export const a = 1;" });
  assert.equal(packagesOf(await inputsOf(alone), alone), undefined);
});
