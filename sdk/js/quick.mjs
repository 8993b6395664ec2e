// Quick builds: a component that was bundled before receives the author's files.
//
// componentize-js takes six seconds of CPU time, and almost nothing of it depends on the author's text. A base is bundled
// once for each combination of interfaces and capabilities. It has a slot in its memory, into which a build writes the
// bundle; it is evaluated at the first call (`src/component/late.mjs`). Published components are bundled whole.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pid } from "node:process";
import { fileURLToPath } from "node:url";

import { bundle, hostLinks } from "./bundle.mjs";
import { BuildError } from "./manifest.mjs";
import { SLOT_BYTES, emptySlot, fill } from "./src/component/slot.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));

/** Bases that a folder keeps, of 12 MB each; the one unused for longest is removed. */
const MOST_BASES = 8;

/** Bytes of an empty slot that are compared to find it. */
const BEGIN = 256;

/**
 * Component with the bundle of a `source` of `entry`, `kinds`, `interfaces` and `capabilities`. `bundled` makes a component
 * from a file. Undefined if the bundle does not fit into the slot, or if a base cannot hold it.
 */
export async function quickComponent(source, { esbuild, folder, made, bases, linesOf }, bundled) {
  const content = await contentOf(source, { esbuild, folder, made, linesOf });
  if (!content) return undefined;
  const path = join(bases, `${digestOf(source)}.wasm`);
  let base = read(path);
  if (!base) {
    const sourcePath = join(made, "base.js");
    await bundle(esbuild, folder, baseOf(source), sourcePath);
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
  const host = "export const host = globalThis.gymkhanaHost;\nexport const HOSTED = true;";
  let files;
  try {
    files = await bundle(esbuild, folder, source.entry, file, { host, format: "iife", globalName: "gymkhanaPlugin" });
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
function baseOf({ kinds, interfaces, capabilities }) {
  const exported = interfaces.map((name) => {
    const camel = name.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase());
    return `export const ${camel} = late("${camel}", of_${name.split("-")[0]}.${camel});`;
  });
  return [
    `import { late } from "gymkhana-component/late.mjs";`,
    ...kinds.map((kind) => `import { ${kind}Exports } from "gymkhana-component/${kind}.mjs";`),
    hostLinks(capabilities),
    "globalThis.gymkhanaHost = host;",
    // Only the names of the functions are used.
    ...kinds.map((kind) => `const of_${kind} = ${kind}Exports(class {});`),
    ...exported,
  ].join("\n");
}

/** SHA-256 in hexadecimal of everything that a base is made from. */
function digestOf({ kinds, interfaces, capabilities }) {
  const hash = createHash("sha256").update(JSON.stringify([kinds, interfaces, capabilities]));
  const { dependencies } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));
  hash.update(JSON.stringify(dependencies));
  for (const folder of ["wit", "src", "src/component"]) {
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
    const kept = readdirSync(dirname(path))
      .filter((name) => name.endsWith(".wasm"))
      .map((name) => join(dirname(path), name))
      .sort((one, other) => statSync(other).mtimeMs - statSync(one).mtimeMs);
    kept.slice(MOST_BASES).forEach((old) => rmSync(old, { force: true }));
  } catch {
    rmSync(temporary, { force: true });
  }
}
