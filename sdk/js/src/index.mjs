// SDK for environments, tools and rewards of Gymkhana. `index.d.ts` documents each name.

export { Call, Float, Json, fn, parameter, textOf } from "./content.mjs";
export { BadSnapshot, Denied, Invalid, Mistake, NotFound, PluginError } from "./errors.mjs";
export { Environment, Reward, Tool } from "./kinds.mjs";
export { Option } from "./options.mjs";
export { Rng, hash64 } from "./rng.mjs";
export { Trajectory, Turn, evidenceAt } from "./trajectory.mjs";
export { assets, clock, http, log, model, random, tools } from "./imports.mjs";
