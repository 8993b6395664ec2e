// Packages of a plugin in a base of quick builds: found in the description of a bundle, imported by the base, and linked
// with the author's files.

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const MODULES = "node_modules";

/** Namespaces of esbuild: a package's module as the author's files import it, and the object of the base behind it. */
const [PACKAGE, OBJECT] = ["gymkhana-package", "gymkhana-package-object"];

/** End of the paths in them. esbuild would take a path that ends in `.mjs` for an ES module. */
const END = ":base";

/** What an import with this plugin data is resolved to is not replaced. */
const RESOLVING = Symbol("resolving");

/**
 * Packages that the author's files import: `entries` by path, each with its `id` in the base and whether it is an ES
 * module, and the `digest` of all their files. Undefined if there are none, or if a base cannot hold them: a package that
 * imports the SDK shares its classes with the author's files. `inputs` are those of a bundle of the whole plugin.
 */
export function packagesOf(inputs, folder) {
  const entries = new Map();
  const hash = createHash("sha256");
  const manifests = new Set();
  const paths = Object.keys(inputs).sort();
  for (const name of paths) {
    const path = resolve(name);
    const links = inputs[name].imports.filter(({ external }) => !external).map((link) => resolve(link.path));
    if (isPackage(path)) {
      if (links.some(isSdk) || inputs[name].imports.some(({ path }) => path.startsWith("gymkhana:"))) return undefined;
      hash.update(`\0${relative(folder, path)}\0`).update(digestOf(path));
      manifests.add(manifestOf(path));
    } else if (!isSdk(path)) {
      for (const link of links.filter(isPackage)) {
        const isModule = inputs[relative(process.cwd(), link)]?.format === "esm";
        entries.set(link, { id: relative(folder, link), isModule });
      }
    }
  }
  for (const path of [...manifests].sort()) {
    if (existsSync(path)) hash.update(`\0${relative(folder, path)}\0`).update(digestOf(path));
  }
  for (const { id, isModule } of entriesOf({ entries })) hash.update(JSON.stringify([id, isModule]));
  return entries.size > 0 ? { entries, digest: hash.digest("hex") } : undefined;
}

/**
 * Packages with the `names` that the author's files import from each ES module, so that a base evaluates as little of it
 * as the whole plugin would. `text` is a bundle of the files with links to the packages. A module that is imported in
 * another way has no names: all of them are needed.
 */
export function named({ entries, digest }, text) {
  const found = new Map();
  let count = 0;
  for (const [, clause, id] of text.matchAll(/^(?:import|export) ?(.*?) ?(?:from )?"gymkhana-package:(.+)";$/gm)) {
    found.set(id, [...(found.get(id) ?? []), namesOf(clause)]);
    count += 1;
  }
  // There are others, such as `import()`.
  const isComplete = count === (text.match(/"gymkhana-package:/g) ?? []).length;
  const withNames = [...entries].map(([path, entry]) => {
    const clauses = found.get(entry.id) ?? [];
    const isNamed = entry.isModule && isComplete && clauses.length > 0 && clauses.every((names) => names);
    return [path, { ...entry, names: isNamed ? [...new Set(clauses.flat())].sort() : undefined }];
  });
  const hash = createHash("sha256").update(digest);
  for (const { id, names } of entriesOf({ entries: withNames })) hash.update(JSON.stringify([id, names ?? null]));
  return { entries: new Map(withNames), digest: hash.digest("hex") };
}

/** Names in the clause of an import as esbuild prints it; undefined for other statements and for all names. */
function namesOf(clause) {
  const [, single, list] = /^(?:([\w$]+)(?:, )?)?(?:\{ (.*) \})?$/.exec(clause) ?? [];
  if (clause !== "" && single === undefined && list === undefined) return undefined;
  const listed = list === undefined ? [] : list.split(", ").map((each) => each.split(" as ")[0]);
  // A name in quotes may contain anything.
  if (listed.some((name) => !/^[\w$]+$/.test(name))) return undefined;
  return single === undefined ? listed : ["default", ...listed];
}

/** Lines of a base's source that import its packages. */
export function importsOf(packages) {
  const lines = entriesOf(packages).map(({ path, isModule, names }, index) => {
    const [from, object] = [JSON.stringify(path), `package${index}`];
    if (!isModule) return `const ${object} = require(${from});`;
    if (!names) return `import * as ${object} from ${from};`;
    const imported = names.map((name) => `${name} as ${object}_${name}`);
    // Functions, because the package may change what it exports.
    const exported = names.map((name) => `get ${name}() { return ${object}_${name}; }`);
    return `import { ${imported.join(", ")} } from ${from};\nconst ${object} = { ${exported.join(", ")} };`;
  });
  const objects = entriesOf(packages).map(({ id }, index) => `${JSON.stringify(id)}: package${index}`);
  return [...lines, `globalThis.gymkhanaPackages = { ${objects.join(", ")} };`];
}

/**
 * Plugin of esbuild that links the author's files with the packages of the base. With `asLinks`, the bundle has links to
 * the packages in the form that `named` reads.
 */
export function packagesOfBase({ entries, asLinks }) {
  return {
    name: "gymkhana-packages",
    setup(build) {
      build.onResolve({ filter: /.*/ }, async ({ path, pluginData, ...where }) => {
        if (pluginData === RESOLVING || where.namespace === PACKAGE) return undefined;
        const { importer, namespace, resolveDir, kind } = where;
        if (isSdk(importer) || kind === "entry-point") return undefined;
        const found = await build.resolve(path, { importer, namespace, resolveDir, kind, pluginData: RESOLVING });
        const entry = found.external ? undefined : entries.get(found.path);
        if (!entry) return undefined;
        return asLinks ? { path: `${PACKAGE}:${entry.id}`, external: true } : { path: entry.id + END, namespace: PACKAGE };
      });
      build.onResolve({ filter: /.*/, namespace: PACKAGE }, ({ path }) => ({ path, namespace: OBJECT }));
      const byId = new Map(entriesOf({ entries }).map((entry) => [entry.id, entry]));
      const objectOf = (path) => `globalThis.gymkhanaPackages[${JSON.stringify(idOf(path))}]`;
      build.onLoad({ filter: /.*/, namespace: PACKAGE }, ({ path }) => ({
        // The exports of a CommonJS module depend on the file that imports it, which esbuild knows.
        contents: byId.get(idOf(path)).isModule
          ? `export * from ${JSON.stringify(path)};\nexport default ${objectOf(path)}.default;`
          : `module.exports = ${objectOf(path)};`,
      }));
      build.onLoad({ filter: /.*/, namespace: OBJECT }, ({ path }) => ({ contents: `module.exports = ${objectOf(path)};` }));
    },
  };
}

function entriesOf({ entries }) {
  return [...entries].map(([path, entry]) => ({ path, ...entry })).sort((one, other) => (one.id < other.id ? -1 : 1));
}

function idOf(path) {
  return path.slice(0, -END.length);
}

function isSdk(path) {
  return path.startsWith(HERE + sep) && !path.startsWith(join(HERE, MODULES) + sep);
}

function isPackage(path) {
  return path.split(sep).includes(MODULES) && !isSdk(path);
}

/** `package.json` of the package that contains a file. */
function manifestOf(path) {
  const parts = path.split(sep);
  const start = parts.lastIndexOf(MODULES) + 1;
  const count = parts[start].startsWith("@") ? 2 : 1;
  return join(parts.slice(0, start + count).join(sep), "package.json");
}

function digestOf(path) {
  return createHash("sha256").update(readFileSync(path)).digest();
}
