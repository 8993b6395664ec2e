// Errors of the contract, reported to the host, and mistakes of an agent, reported to the agent.

/** Reason why a plugin could not serve a request of the host. Any other exception ends the plugin's instance. */
export class PluginError extends Error {
  /** Name of the case in the contract. */
  tag = "other";
}

/** Unknown or out-of-range option or task. */
export class Invalid extends PluginError {
  tag = "invalid";
}

/** Unknown split, task, handle or function. */
export class NotFound extends PluginError {
  tag = "not-found";

  /** Error for an unknown split; `known` lists the existing ones. */
  static split(task, known) {
    return new NotFound(`unknown split \`${task.split}\`; known: ${known.join(", ")}`);
  }
}

/** Bytes passed to `restore` are not a snapshot of this plugin. */
export class BadSnapshot extends PluginError {
  tag = "bad-snapshot";
}

/** Capability not declared or not granted. */
export class Denied extends PluginError {
  tag = "denied";
}

/** Error for a case of the contract. */
export function errorOf({ tag, val }) {
  const kinds = { invalid: Invalid, "not-found": NotFound, "bad-snapshot": BadSnapshot, denied: Denied };
  return new (kinds[tag] ?? PluginError)(val);
}

/**
 * Error of an agent, with a message that helps the agent. Thrown from `Tool.call`, it becomes a failed answer. Thrown
 * from `Environment.step` before any state changed, it becomes an observation of the acting seat.
 */
export class Mistake extends Error {}
