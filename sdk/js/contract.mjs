// The contract that this SDK was made with: its files, its version and the digest of its text.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";

/** Where the contract's files are. */
export const FOLDER = new URL("./wit/", import.meta.url);

/** The version of the WIT package `gymkhana:plugin`. */
export const VERSION = "0.1.0";

/** The names of the contract's files, sorted. */
export function files() {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".wit"))
    .sort();
}

/** sha256 over each file's name, a zero byte, its text with plain line ends, and a zero byte; in hexadecimal. */
export function digest() {
  const hash = createHash("sha256");
  for (const name of files()) {
    const text = readFileSync(new URL(name, FOLDER), "utf8").replaceAll("\r\n", "\n");
    hash.update(`${name}\0${text}\0`);
  }
  return hash.digest("hex");
}

/** The text of a world of just these interfaces. */
export function world(name, imports, exports) {
  const lines = [...imports.map((each) => `    import ${each};`), ...exports.map((each) => `    export ${each};`)];
  return [`package gymkhana:plugin@${VERSION};`, "", `world ${name} {`, ...lines, "}", ""].join("\n");
}
