// Builds a plugin from a folder: `node node_modules/@gymkhana/sdk/build.mjs DIR --out FILE`.
//
// The folder contains `package.json` and the files that it names. esbuild bundles them with the SDK into one module and
// removes TypeScript types; componentize-js bundles the module with a JavaScript engine. With `--quick FOLDER` the latter
// is called rarely: see `quick.mjs`.

import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { argv, exit, pid } from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { bundle, linkedHost } from "./bundle.mjs";
import { FOLDER, files, world } from "./contract.mjs";
import { authorLines, nodeFrames } from "./lines.mjs";
import { BuildError, FREE, manifestOf, readProject, stamp } from "./manifest.mjs";
import { packagesOf } from "./packages.mjs";
import { quickComponent } from "./quick.mjs";
import { uncaught } from "./src/component/uncaught.mjs";
import { Environment, Reward, Tool, interfacesOf, lacking, offers } from "./src/kinds.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const WORLD = "plugin-to-build";
const BASES = { environment: Environment, tool: Tool, reward: Reward };

/**
 * Builds the project in `folder` into the component `out`. With `bases`, a folder of bundles of earlier builds, it is a
 * quick build where that is possible. Throws `BuildError` for mistakes of the author.
 */
export async function build(folder, out, bases) {
  const project = readProject(folder);
  const esbuild = await find("esbuild", folder);
  const made = mkdtempSync(join(tmpdir(), "gymkhana-"));
  try {
    const { interfaces, range, inputs } = await abilities(project, folder, esbuild, made);
    const manifest = manifestOf(project, range);
    const capabilities = [...FREE, ...project.capabilities];
    const bundled = (sourcePath) => componentOf(sourcePath, interfaces, capabilities, folder, made);
    const packages = bases ? packagesOf(inputs, realpathSync(folder)) : undefined;
    const kinds = Object.keys(project.classes);
    const source = { entry: entryOf(project, interfaces), kinds, interfaces, capabilities, packages };
    const quickly = { esbuild, folder, made, bases, linesOf: (path) => linesOf(path, folder) };
    const quick = bases ? await quickComponent(source, quickly, bundled) : undefined;
    const component = quick ?? (await whole());
    mkdirSync(dirname(out), { recursive: true });
    // The rename is atomic: a concurrent reader sees the old or the new component, never a partial one.
    writeFileSync(`${out}.${pid}.tmp`, stamp(component, quick ? { ...manifest, quick: true } : manifest));
    renameSync(`${out}.${pid}.tmp`, out);

    async function whole() {
      const sourcePath = join(made, "plugin.js");
      await bundle(esbuild, folder, source.entry, sourcePath, { host: linkedHost(capabilities) });
      // So that an uncaught exception names the author's lines.
      appendFileSync(sourcePath, `\nglobalThis.gymkhanaLines = ${JSON.stringify(linesOf(sourcePath, folder))};\n`);
      return bundled(sourcePath);
    }
  } finally {
    rmSync(made, { recursive: true });
  }
}

/** Component of a bundle, with a JavaScript engine. */
async function componentOf(sourcePath, interfaces, capabilities, folder, made) {
  const { componentize } = await find("@bytecodealliance/componentize-js", folder);
  const wit = join(made, "wit");
  mkdirSync(wit, { recursive: true });
  files().forEach((name) => writeFileSync(join(wit, name), readFileSync(new URL(name, FOLDER))));
  writeFileSync(join(wit, `${WORLD}.wit`), world(WORLD, ["types", ...capabilities], interfaces));
  // These features would add imports that a sandbox rejects.
  const disableFeatures = ["http", "fetch-event"];
  const { component } = await componentize({ sourcePath, witPath: wit, worldName: WORLD, disableFeatures });
  return component;
}

/** Imports a package that the build requires, found from the SDK or from the author's folder. */
async function find(name, folder) {
  for (let place of [HERE, resolve(folder)]) {
    for (; ; place = dirname(place)) {
      const home = join(place, "node_modules", name);
      if (existsSync(join(home, "package.json"))) {
        const { exports, main } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
        return import(pathToFileURL(join(home, exports?.import ?? main)));
      }
      if (place === dirname(place)) break;
    }
  }
  throw new BuildError(`the package \`${name}\`, which builds plugins, is missing; run \`npm install\` in \`${folder}\``);
}

/**
 * Interfaces that the classes export together, and the reward's range, found by importing the classes in Node.js; and
 * esbuild's description of the plugin's files.
 */
async function abilities(project, folder, esbuild, made) {
  const interfaces = [];
  const inputs = {};
  let range;
  for (const [kind, place] of Object.entries(project.classes)) {
    const [file, name] = place.split("#");
    const path = join(made, `${kind}.mjs`);
    const entry = `export * from ${JSON.stringify(file)}; export { ${BASES[kind].name} as Base } from "@gymkhana/sdk";`;
    Object.assign(inputs, (await bundle(esbuild, folder, entry, path)).inputs);
    const module = await load(path, folder);
    const found = module[name];
    if (!found) throw new BuildError(`\`${file}\` does not export \`${name}\`, named by "${kind}" in "gymkhana": export it or correct the name`);
    // The bundle contains its own copy of the base classes.
    if (!(found.prototype instanceof module.Base)) throw new BuildError(`\`${place}\` does not extend \`${module.Base.name}\` of "@gymkhana/sdk"`);
    if (!found.summary) throw new BuildError(`\`${place}\` lacks \`static summary\`: add a one-line description`);
    const lacks = lacking(kind, found, module.Base);
    if (lacks) throw new BuildError(`\`${place}\` does not define ${lacks.map((method) => `\`${method}\``).join(" or ")}: define it`);
    if (kind !== "reward" && offers(found, "snapshot") !== offers(found, "restore")) {
      throw new BuildError(`\`${place}\` defines only one of \`snapshot\` and \`restore\`: define both or neither`);
    }
    interfaces.push(...interfacesOf(kind, found));
    if (kind === "reward") range = found.range;
  }
  return { interfaces, range, inputs };
}

/** Imports a bundle in Node.js. An exception of the author's code becomes a `BuildError` with the author's frames. */
async function load(path, folder) {
  const url = pathToFileURL(path);
  try {
    return await import(url);
  } catch (error) {
    const frames = nodeFrames(String(error?.stack ?? ""), url);
    const said = uncaught(error, linesOf(path, folder), frames.join("\n"));
    throw new BuildError(`cannot load the plugin's files: ${said.slice("Uncaught ".length)}`);
  }
}

/** Source of the module whose exports become the component's exports. */
function entryOf(project, interfaces) {
  const lines = Object.entries(project.classes).flatMap(([kind, place]) => {
    const [file, name] = place.split("#");
    const make = `${kind}Exports`;
    return [
      `import { ${name} as ${kind}Class } from ${JSON.stringify(file)};`,
      `import { ${make} } from "gymkhana-component/${kind}.mjs";`,
      `const of_${kind} = ${make}(${kind}Class);`,
    ];
  });
  const exported = interfaces.map((name) => {
    const camel = name.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase());
    return `export const ${camel} = of_${name.split("-")[0]}.${camel};`;
  });
  return [`import "gymkhana-component/engine.mjs";`, ...lines, ...exported].join("\n");
}

/** The author's lines in a bundle; see `authorLines`. */
function linesOf(path, folder) {
  const home = realpathSync(folder);
  const nameOf = (source) => {
    const name = relative(home, resolve(dirname(path), source));
    const outside = name.startsWith("..") || isAbsolute(name) || name.split(sep).includes("node_modules");
    return outside ? undefined : name;
  };
  return authorLines(JSON.parse(readFileSync(`${path}.map`, "utf8")), nameOf);
}

async function main() {
  const usage = "usage: node build.mjs DIR [--out FILE] [--quick FOLDER]";
  const options = { out: { type: "string" }, quick: { type: "string" } };
  const { values, positionals } = parsed(usage, { args: argv.slice(2), options, allowPositionals: true });
  if (positionals.length !== 1) throw new BuildError(usage);
  const [folder] = positionals;
  const out = resolve(values.out ?? join(folder, `${readProject(folder).name}.wasm`));
  await build(folder, out, values.quick);
  console.log(out);
}

function parsed(usage, config) {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new BuildError(`${error.message}\n${usage}`);
  }
}

// True when started as a program, also through a link in `node_modules`.
if (argv[1] && realpathSync(argv[1]) === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    console.error(`error: ${error instanceof BuildError ? error.message : error.stack}`);
    exit(error instanceof BuildError ? 2 : 1);
  });
}
