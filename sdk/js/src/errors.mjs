// What goes wrong: the contract's errors, which the host sees, and an agent's mistakes, which the agent sees.

/** Why a plugin could not do what the host asked. Any other exception ends the plugin's instance. */
export class PluginError extends Error {
  /** The contract's name of the case. */
  tag = "other";
}

/** An option or a task that this plugin does not know or that is out of range. */
export class Invalid extends PluginError {
  tag = "invalid";
}

/** There is no such split, task, handle or function. */
export class NotFound extends PluginError {
  tag = "not-found";

  /** No such task, because the split is unknown; `known` are those that there are. */
  static split(task, known) {
    return new NotFound(`there is no split \`${task.split}\`; there are: ${known.join(", ")}`);
  }
}

/** Bytes given to `restore` are not a snapshot of this plugin. */
export class BadSnapshot extends PluginError {
  tag = "bad-snapshot";
}

/** A capability that the plugin needs was refused. */
export class Denied extends PluginError {
  tag = "denied";
}

/** The error for a case of the contract. */
export function errorOf({ tag, val }) {
  const kinds = { invalid: Invalid, "not-found": NotFound, "bad-snapshot": BadSnapshot, denied: Denied };
  return new (kinds[tag] ?? PluginError)(val);
}

/**
 * What an agent did wrong, in words that help it: thrown from `Tool.call` a failed answer, thrown from
 * `Environment.step`, before anything changed, an observation of the seat that acted.
 */
export class Mistake extends Error {}
