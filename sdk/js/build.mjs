// Builds a plugin from a folder: `node node_modules/@gymkhana/sdk/build.mjs DIR --out FILE`.
//
// The folder contains `package.json` and the files that it names. esbuild bundles them with the SDK into one module and
// removes TypeScript types; componentize-js bundles the module with a JavaScript engine.

import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { argv, exit, pid } from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";

import { FOLDER, VERSION, files, world } from "./contract.mjs";
import { authorLines, nodeFrames } from "./lines.mjs";
import { BuildError, FREE, manifestOf, readProject, stamp } from "./manifest.mjs";
import { uncaught } from "./src/component/uncaught.mjs";
import { Environment, Reward, Tool, interfacesOf, lacking, offers } from "./src/kinds.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const WORLD = "plugin-to-build";
const BASES = { environment: Environment, tool: Tool, reward: Reward };

/** Builds the project in `folder` into the component `out`. Throws `BuildError` for mistakes of the author. */
export async function build(folder, out) {
  const project = readProject(folder);
  const [esbuild, { componentize }] = await Promise.all([
    find("esbuild", folder),
    find("@bytecodealliance/componentize-js", folder),
  ]);
  const made = mkdtempSync(join(tmpdir(), "gymkhana-"));
  try {
    const { interfaces, range } = await abilities(project, folder, esbuild, made);
    const manifest = manifestOf(project, range);
    const wit = join(made, "wit");
    mkdirSync(wit);
    files().forEach((name) => writeFileSync(join(wit, name), readFileSync(new URL(name, FOLDER))));
    const imports = [...FREE, ...project.capabilities];
    writeFileSync(join(wit, `${WORLD}.wit`), world(WORLD, ["types", ...imports], interfaces));
    const sourcePath = join(made, "plugin.js");
    await bundle(esbuild, folder, entryOf(project, interfaces), sourcePath, imports);
    // So that an uncaught exception names the author's lines.
    appendFileSync(sourcePath, `\nglobalThis.gymkhanaLines = ${JSON.stringify(linesOf(sourcePath, folder))};\n`);
    // These features would add imports that a sandbox rejects.
    const disableFeatures = ["http", "fetch-event"];
    const { component } = await componentize({ sourcePath, witPath: wit, worldName: WORLD, disableFeatures });
    mkdirSync(dirname(out), { recursive: true });
    // The rename is atomic: a concurrent reader sees the old or the new component, never a partial one.
    writeFileSync(`${out}.${pid}.tmp`, stamp(component, manifest));
    renameSync(`${out}.${pid}.tmp`, out);
  } finally {
    rmSync(made, { recursive: true });
  }
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

/** Interfaces that the classes export together, and the reward's range, found by importing the classes in Node.js. */
async function abilities(project, folder, esbuild, made) {
  const interfaces = [];
  let range;
  for (const [kind, place] of Object.entries(project.classes)) {
    const [file, name] = place.split("#");
    const path = join(made, `${kind}.mjs`);
    await bundle(esbuild, folder, `export * from ${JSON.stringify(file)}; export { ${BASES[kind].name} as Base } from "@gymkhana/sdk";`, path);
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
  return { interfaces, range };
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

/** Bundles an entry with its imports into one file. `imports` lists the host interfaces to link. */
async function bundle(esbuild, folder, contents, outfile, imports) {
  const source = join(HERE, "src");
  const sdk = {
    name: "gymkhana-sdk",
    setup(build) {
      build.onResolve({ filter: /^@gymkhana\/sdk$/ }, () => ({ path: join(source, "index.mjs") }));
      build.onResolve({ filter: /^gymkhana-component\// }, ({ path }) => ({
        path: join(source, "component", path.slice("gymkhana-component/".length)),
      }));
      build.onResolve({ filter: /^gymkhana:plugin\// }, ({ path }) => ({ path, external: true }));
      // Only the SDK's own `host.mjs` is replaced, not an author's file of the same name.
      const ofSdk = ({ path }) => (path === join(source, "host.mjs") ? { contents: hostOf(imports) } : undefined);
      if (imports) build.onLoad({ filter: /[\\/]host\.mjs$/ }, ofSdk);
    },
  };
  try {
    await esbuild.build({
      stdin: { contents, resolveDir: resolve(folder), sourcefile: "entry.mjs" },
      bundle: true,
      format: "esm",
      platform: "neutral",
      mainFields: ["module", "main"],
      target: "es2022",
      keepNames: true,
      sourcemap: "external",
      sourcesContent: false,
      logLevel: "silent",
      plugins: [sdk],
      outfile,
    });
  } catch (error) {
    const said = (error.errors ?? [error]).map(({ text, message, location }) =>
      location ? `${location.file}:${location.line}: ${text}` : (text ?? message),
    );
    throw new BuildError(`cannot bundle the plugin's files:\n${said.join("\n")}`);
  }
}

/** Source that replaces `src/host.mjs` in a component. */
function hostOf(imports) {
  const lines = imports.map((name) => `import * as ${name} from "gymkhana:plugin/${name}@${VERSION}";`);
  return [...lines, `export const host = { ${imports.join(", ")} };`, "export const HOSTED = true;"].join("\n");
}

async function main() {
  const usage = "usage: node build.mjs DIR [--out FILE]";
  const [folder, flag, file, ...rest] = argv.slice(2);
  if (!folder || rest.length > 0 || (flag !== undefined && (flag !== "--out" || !file))) throw new BuildError(usage);
  const out = resolve(file ?? join(folder, `${readProject(folder).name}.wasm`));
  await build(folder, out);
  console.log(out);
}

// True when started as a program, also through a link in `node_modules`.
if (argv[1] && realpathSync(argv[1]) === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    console.error(`error: ${error instanceof BuildError ? error.message : error.stack}`);
    exit(error instanceof BuildError ? 2 : 1);
  });
}
