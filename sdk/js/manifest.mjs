// Manifest of a plugin (identity and capabilities), read from the author's `package.json`.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { VERSION, digest } from "./contract.mjs";
import { nearest } from "./src/options.mjs";

/** Name of the custom section. */
export const SECTION = "gymkhana:manifest";
/** Kinds of plugins. */
export const KINDS = ["environment", "tool", "reward"];
/** Imports that a plugin must declare, and imports that are always available. */
export const CAPABILITIES = ["assets", "model", "tools", "http"];
export const FREE = ["log", "random", "clock"];

const SCHEMA = 1;
const KEYS = ["namespace", "capabilities", "optional", "deterministic", "thoughts", ...KINDS];
const NAME = /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/;
const PLACE = /^[^#]+#[A-Za-z_$][\w$]*$/;
// Semantic versioning: numbers without leading zeros, non-empty parts between dots, ASCII only.
const NUMBER = "(0|[1-9][0-9]*)";
const PART = "(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)";
const SEMVER = new RegExp(
  `^${NUMBER}\\.${NUMBER}\\.${NUMBER}(?:-${PART}(?:\\.${PART})*)?(?:\\+[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*)?$`,
);

/** Mistake of the author; the message names it and suggests a fix. */
export class BuildError extends Error {}

/** Validated content of a folder's `package.json`. */
export function readProject(folder) {
  const path = join(folder, "package.json");
  let document;
  try {
    document = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new BuildError(`cannot read \`${path}\`: ${error.message}`);
  }
  return projectOf(document);
}

function isVersion(text) {
  const found = typeof text === "string" && SEMVER.exec(text);
  // The host stores 64-bit numbers.
  return Boolean(found) && found.slice(1).every((number) => BigInt(number) < 1n << 64n);
}

/** Validates a parsed `package.json`. */
export function projectOf(document) {
  const table = document.gymkhana;
  if (table === null || typeof table !== "object" || Array.isArray(table)) throw missing("namespace", '"your-name"');
  for (const key of Object.keys(table)) {
    if (!KEYS.includes(key)) throw new BuildError(`unknown key \`${key}\` in "gymkhana"; ${advice(key, KEYS)}`);
  }
  const { name, version } = document;
  if (!NAME.test(name ?? "")) {
    throw new BuildError(`package name \`${name}\` is not a valid plugin name: use lower-case letters, digits and inner single \`-\``);
  }
  if (!isVersion(version)) throw new BuildError(`"version" must be three numbers, such as "0.1.0", not ${version}`);
  for (const key of ["license", "description"]) {
    if (typeof document[key] !== "string" || !document[key]) {
      throw new BuildError(`\`${key}\` in package.json is missing, which the manifest requires: add "${key}": "…"`);
    }
  }
  const { namespace, capabilities = [], optional = [], deterministic = true, thoughts = false } = table;
  if (namespace === undefined) throw missing("namespace", '"your-name"');
  if (!NAME.test(namespace)) throw wrong("namespace", "a name of lower-case letters, digits and `-`", '"your-name"');
  checkCapabilities("capabilities", capabilities);
  checkCapabilities("optional", optional);
  const unasked = optional.find((name) => !capabilities.includes(name));
  if (unasked) throw new BuildError(`\`${unasked}\` is in "optional", not in "capabilities": add it to "capabilities" too`);
  if (typeof deterministic !== "boolean") throw wrong("deterministic", "true or false", "false");
  const classes = classesOf(table);
  if (typeof thoughts !== "boolean") throw wrong("thoughts", "true or false", "true");
  if (thoughts && !classes.reward) throw new BuildError('"thoughts" is for rewards, and this plugin has no reward: remove it');
  const { license, description } = document;
  return { name, version, license, description, namespace, capabilities, optional, deterministic, thoughts, classes };
}

/** Manifest as a JSON object. `rewardRange` is undefined for a plugin without a reward. */
export function manifestOf(project, rewardRange) {
  const { namespace, name, version, license, description, capabilities, optional, deterministic, thoughts, classes } = project;
  const kinds = KINDS.filter((kind) => classes[kind]);
  const contract = { version: VERSION, digest: digest() };
  const whole = { schema: SCHEMA, namespace, name, version, kinds, contract, license, description, capabilities, deterministic };
  const fields = { ...whole, ...(optional.length > 0 && { optional }), ...(thoughts && { thoughts }) };
  if (rewardRange === undefined) return fields;
  const [low, high] = rewardRange;
  if (!(Number.isFinite(low) && Number.isFinite(high) && low <= high)) {
    throw new BuildError(`\`static range\` of the reward must be two finite numbers, low first, not ${rewardRange}`);
  }
  return { ...fields, "reward-range": [low, high] };
}

/** Component with its manifest, appended as one custom section at the outermost level. */
export function stamp(component, manifest) {
  const text = Buffer.from(JSON.stringify(manifest));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  const content = Buffer.concat([leb128(SECTION.length), Buffer.from(SECTION), Buffer.from("GYMK"), length, text]);
  return Buffer.concat([component, Buffer.from([0]), leb128(content.length), content]);
}

function leb128(number) {
  const bytes = [];
  do {
    const low = number & 127;
    number >>>= 7;
    bytes.push(number ? low | 128 : low);
  } while (number);
  return Buffer.from(bytes);
}

function classesOf(table) {
  const classes = Object.fromEntries(KINDS.filter((kind) => table[kind] !== undefined).map((kind) => [kind, table[kind]]));
  if (Object.keys(classes).length === 0) throw missing("environment`, `tool` or `reward", '"./plugin.mjs#YourClass"');
  for (const [kind, place] of Object.entries(classes)) {
    if (typeof place !== "string" || !PLACE.test(place)) throw wrong(kind, "a file and a class", '"./plugin.mjs#YourClass"');
  }
  return classes;
}

function checkCapabilities(key, names) {
  if (!Array.isArray(names) || !names.every((name) => typeof name === "string")) {
    throw wrong(key, "a list of names", '["http"]');
  }
  for (const name of names) {
    if (FREE.includes(name)) throw new BuildError(`capability \`${name}\` is always available: remove it from "${key}"`);
    if (!CAPABILITIES.includes(name)) throw new BuildError(`unknown capability \`${name}\`; ${advice(name, CAPABILITIES)}`);
    if (names.indexOf(name) !== names.lastIndexOf(name)) {
      throw new BuildError(`capability \`${name}\` is listed twice in "${key}": remove one`);
    }
  }
}

function missing(key, example) {
  return new BuildError(`\`${key}\` is missing: add to package.json\n\n"gymkhana": { "${key.split("`")[0]}": ${example} }`);
}

function wrong(key, wanted, example) {
  return new BuildError(`\`${key}\` in "gymkhana" must be ${wanted}, such as ${example}`);
}

function advice(word, known) {
  return `did you mean \`${nearest(word, known)}\`? known: ${known.map((name) => `\`${name}\``).join(", ")}`;
}
