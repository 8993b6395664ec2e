// Quick builds: a component that was bundled before receives the author's files.
//
// componentize-js takes six seconds of CPU time, and almost nothing of it depends on the author's text. A base is bundled
// once for each combination of interfaces, capabilities and packages of npm. It has a slot in its memory, into which a build writes the
// bundle; it is evaluated at the first call (`src/component/late.mjs`). Published components are bundled whole.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { cpuUsage, pid } from "node:process";
import { fileURLToPath } from "node:url";
import { createContext, runInContext } from "node:vm";

import { bundle, hostLinks, linkedHost } from "./bundle.mjs";
import { BuildError } from "./manifest.mjs";
import { importsOf, named } from "./packages.mjs";
import { SLOT_BYTES, emptySlot, fill, fits } from "./src/component/slot.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));

/** Bases that a folder keeps, of 12 to 50 MB each; the one unused for longest is removed. */
const MOST_BASES = 8;

/** Source that replaces `src/host.mjs` in the bundle of a quick build. */
const LATE_HOST = "export const host = globalThis.gymkhanaHost;\nexport const HOSTED = true;";

/** Most processor time of the author's files in Node.js, in seconds, with packages in the base; see `secondsOf`. */
const MOST_SECONDS = 0.02;

/** Bytes of an empty slot that are compared to find it. */
const BEGIN = 256;

/**
 * Component with the bundle of a `source` of `entry`, `kinds`, `interfaces`, `capabilities` and `packages`. `bundled` makes
 * a component from a file. Undefined if the bundle does not fit into the slot, or if a base cannot hold it.
 */
export async function quickComponent(source, quickly, bundled) {
  if (!source.packages) return filledBase(source, quickly, bundled);
  const packages = await withNames(source, quickly);
  if (!packages) return undefined;
  source = { ...source, packages };
  const path = pathOf(quickly.bases, source);
  const withoutPackages = () => filledBase({ ...source, packages: undefined }, quickly, bundled);
  // A file without content says that the packages of this base cannot be evaluated before the author's files.
  if (read(path)?.length === 0) return withoutPackages();
  let component;
  try {
    const content = await contentOf(source, quickly);
    if (!content || (await secondsOf(content, source, quickly)) > MOST_SECONDS) return withoutPackages();
    component = await filledBase(source, quickly, bundled);
  } catch {
    // The reason is reported if it remains without packages in the base.
    component = await withoutPackages();
    keep(path, "");
  }
  return component;
}

/**
 * Processor time of the author's files in Node.js, without that of the packages, in seconds. Infinite if they need what
 * only a component has. Their evaluation is repeated by each instance, much slower.
 */
async function secondsOf(content, source, { esbuild, folder, made, bases }) {
  const path = pathOf(bases, source).replace(/wasm$/, "js");
  let packages = read(path);
  if (!packages) {
    const file = join(made, "packages.js");
    await bundle(esbuild, folder, importsOf(source.packages).join("\n"), file, { format: "iife" });
    packages = readFileSync(file);
    keep(path, packages);
  }
  const { console, TextDecoder, TextEncoder, URL, structuredClone } = globalThis;
  const context = createContext({ console, TextDecoder, TextEncoder, URL, structuredClone });
  try {
    runInContext(packages.toString(), context);
    const before = cpuUsage();
    runInContext(content.toString(), context);
    const { user, system } = cpuUsage(before);
    return (user + system) / 1e6;
  } catch {
    return Infinity;
  }
}

/** Packages of a source with the names that it imports; undefined if its files cannot be bundled. */
async function withNames({ entry, packages }, { esbuild, folder, made }) {
  const file = join(made, "links.mjs");
  try {
    await bundle(esbuild, folder, entry, file, { host: LATE_HOST, packages: { ...packages, asLinks: true } });
  } catch (error) {
    if (error instanceof BuildError) return undefined;
    throw error;
  }
  return named(packages, readFileSync(file, "utf8"));
}

/** Component of a base and the bundle in its slot. */
async function filledBase(source, { esbuild, folder, made, bases, linesOf }, bundled) {
  const content = await contentOf(source, { esbuild, folder, made, linesOf });
  // A base is made only if it is used.
  if (!content || !fits(content)) return undefined;
  const path = pathOf(bases, source);
  let base = read(path);
  if (!base) {
    const sourcePath = join(made, "base.js");
    await bundle(esbuild, folder, baseOf(source), sourcePath, { host: linkedHost(source.capabilities) });
    base = await bundled(sourcePath);
    keep(path, base);
  }
  const empty = Buffer.from(emptySlot(SLOT_BYTES));
  const component = Buffer.from(base);
  const place = component.indexOf(empty.subarray(0, BEGIN));
  const isSlot = place >= 0 && component.subarray(place, place + SLOT_BYTES).equals(empty);
  const isOnly = isSlot && component.indexOf(empty.subarray(0, BEGIN), place + SLOT_BYTES) < 0;
  return isOnly && fill(component, place, content) ? component : undefined;
}

/** Text to evaluate: the author's files and the SDK. Undefined if they are not the whole plugin. */
async function contentOf(source, { esbuild, folder, made, linesOf }) {
  const file = join(made, "late.js");
  const { packages } = source;
  let files;
  try {
    const options = { host: LATE_HOST, packages, format: "iife", globalName: "gymkhanaPlugin" };
    files = await bundle(esbuild, folder, source.entry, file, options);
  } catch (error) {
    // A module may use what a script cannot, such as `await` at the top level. Other mistakes fail again.
    if (error instanceof BuildError) return undefined;
    throw error;
  }
  const links = Object.values(files.inputs).flatMap(({ imports }) => imports);
  // A link to the host cannot be made late. esbuild's own helpers are no file either.
  if (links.some(({ path, external }) => external && path !== "<runtime>")) return undefined;
  const lines = `globalThis.gymkhanaLines = ${JSON.stringify(linesOf(file))};`;
  return Buffer.from(`${readFileSync(file, "utf8")}\n${lines}\n`);
}

/** Source of the module that a base exports. */
function baseOf({ kinds, interfaces, capabilities, packages }) {
  const exported = interfaces.map((name) => {
    const camel = name.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase());
    return `export const ${camel} = late("${camel}", of_${name.split("-")[0]}.${camel});`;
  });
  return [
    // Before the packages, as in a component that is bundled whole.
    `import "gymkhana-component/engine.mjs";`,
    `import { late } from "gymkhana-component/late.mjs";`,
    ...kinds.map((kind) => `import { ${kind}Exports } from "gymkhana-component/${kind}.mjs";`),
    hostLinks(capabilities),
    "globalThis.gymkhanaHost = host;",
    ...(packages ? importsOf(packages) : []),
    // Only the names of the functions are used.
    ...kinds.map((kind) => `const of_${kind} = ${kind}Exports(class {});`),
    ...exported,
  ].join("\n");
}

/** File of the base for a source. */
function pathOf(bases, source) {
  return join(bases, `${digestOf(source)}.wasm`);
}

/** SHA-256 in hexadecimal of everything that a base is made from. */
function digestOf({ kinds, interfaces, capabilities, packages }) {
  const hash = createHash("sha256").update(JSON.stringify([kinds, interfaces, capabilities, packages?.digest]));
  const { dependencies } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));
  hash.update(JSON.stringify(dependencies));
  for (const folder of ["", "wit", "src", "src/component"]) {
    for (const name of readdirSync(join(HERE, folder)).filter((name) => /\.(wit|mjs)$/.test(name)).sort()) {
      hash.update(`\0${name}\0`).update(readFileSync(join(HERE, folder, name)));
    }
  }
  return hash.digest("hex");
}

/** Base of an earlier build; notes that it was used. */
function read(path) {
  try {
    utimesSync(path, new Date(), new Date());
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/** Writes a base for later builds; without space, they bundle again. */
function keep(path, base) {
  const temporary = `${path}.${pid}.tmp`;
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(temporary, base);
    renameSync(temporary, path);
    for (const end of [".wasm", ".js"]) {
      const kept = readdirSync(dirname(path))
        .filter((name) => name.endsWith(end))
        .map((name) => join(dirname(path), name))
        .sort((one, other) => statSync(other).mtimeMs - statSync(one).mtimeMs);
      kept.slice(MOST_BASES).forEach((old) => rmSync(old, { force: true }));
    }
  } catch {
    rmSync(temporary, { force: true });
  }
}
