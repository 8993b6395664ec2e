// One file of a plugin's files and the SDK, made by esbuild.

import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { VERSION } from "./contract.mjs";
import { BuildError } from "./manifest.mjs";
import { packagesOfBase } from "./packages.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));

/**
 * Bundles an entry with its imports into one file. `host` is the source that replaces `src/host.mjs`; `packages` are
 * those of the base that the bundle is for; `format` and `globalName` are esbuild's. Returns esbuild's description of the
 * inputs.
 */
export async function bundle(esbuild, folder, contents, outfile, { host, packages, format = "esm", globalName } = {}) {
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
      const ofSdk = ({ path }) => (path === join(source, "host.mjs") ? { contents: host } : undefined);
      if (host) build.onLoad({ filter: /[\\/]host\.mjs$/ }, ofSdk);
    },
  };
  try {
    const { metafile } = await esbuild.build({
      stdin: { contents, resolveDir: resolve(folder), sourcefile: "entry.mjs" },
      bundle: true,
      format,
      globalName,
      metafile: true,
      platform: "neutral",
      mainFields: ["module", "main"],
      target: "es2022",
      keepNames: true,
      sourcemap: "external",
      sourcesContent: false,
      logLevel: "silent",
      plugins: packages ? [sdk, packagesOfBase(packages)] : [sdk],
      outfile,
    });
    return metafile;
  } catch (error) {
    const said = (error.errors ?? [error]).map(({ text, message, location }) =>
      location ? `${location.file}:${location.line}: ${text}` : (text ?? message),
    );
    throw new BuildError(`cannot bundle the plugin's files:\n${said.join("\n")}`);
  }
}

/** Source that replaces `src/host.mjs` in a component. */
export function linkedHost(capabilities) {
  return [hostLinks(capabilities), "export { host };", "export const HOSTED = true;"].join("\n");
}

/** Source that defines `host`, the host's interfaces by name. */
export function hostLinks(capabilities) {
  const lines = capabilities.map((name) => `import * as ${name} from "gymkhana:plugin/${name}@${VERSION}";`);
  return [...lines, `const host = { ${capabilities.join(", ")} };`].join("\n");
}
