// Plugin contract of this SDK: its WIT files, version and digest.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";

/** Folder of the contract's WIT files. */
export const FOLDER = new URL("./wit/", import.meta.url);

/** Version of the WIT package `gymkhana:plugin`. */
export const VERSION = "0.2.0";

/** Names of the contract's files, sorted. */
export function files() {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".wit"))
    .sort();
}

/**
 * SHA-256 in hexadecimal over, per file: name, zero byte, lines with LF line ends, zero byte. Empty lines and comments do
 * not count.
 */
export function digest() {
  const hash = createHash("sha256");
  for (const name of files()) {
    const lines = readFileSync(new URL(name, FOLDER), "utf8").split(/\r?\n/);
    const counted = lines.filter((line) => line.trim() && !line.trim().startsWith("//"));
    hash.update(`${name}\0${counted.map((line) => `${line}\n`).join("")}\0`);
  }
  return hash.digest("hex");
}

/** WIT text of a world with exactly these imports and exports. */
export function world(name, imports, exports) {
  const lines = [...imports.map((each) => `    import ${each};`), ...exports.map((each) => `    export ${each};`)];
  return [`package gymkhana:plugin@${VERSION};`, "", `world ${name} {`, ...lines, "}", ""].join("\n");
}
