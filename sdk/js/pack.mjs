// Prepares the folder for `npm pack`, which leaves symbolic links out: `copy` replaces each link to a file or folder of
// the repository by a copy, and `link` restores the links.

import { cpSync, rmSync, symlinkSync } from "node:fs";
import { argv, exit } from "node:process";
import { fileURLToPath } from "node:url";

const LINKS = ["wit", "LICENSE"];
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const STEPS = {
  copy: (name) => cpSync(here(`../../${name}`), here(name), { recursive: true }),
  link: (name) => symlinkSync(`../../${name}`, here(name)),
};

const step = STEPS[argv[2]];
if (!step) {
  console.error("usage: node pack.mjs copy|link");
  exit(2);
}
for (const name of LINKS) {
  rmSync(here(name), { recursive: true, force: true });
  step(name);
}
