// Base classes for authors. The plugin exports the optional methods that a class defines.

const missing = (what) => {
  throw new Error(`the plugin's class must define \`${what}\``);
};

/** Environment; each instance is one episode. See `index.d.ts`. */
export class Environment {
  static summary = "";
  static seats = ["agent"];
  static rewardRange = [0, 0];
  static options = [];

  static splits() {
    return missing("static splits");
  }

  reset() {
    return missing("reset");
  }

  step() {
    return missing("step");
  }
}

/** Tool: functions that a policy may call. Each instance is one session. */
export class Tool {
  static summary = "";
  static options = [];

  static functions() {
    return missing("static functions");
  }

  open() {}

  call() {
    return missing("call");
  }

  close() {}
}

/** Reward for finished trajectories. */
export class Reward {
  static summary = "";
  static range = [0, 1];
  static components = {};
  static options = [];

  score() {
    return missing("score");
  }

  /** One `Map` from seat to score per trajectory. Override it to compare attempts. */
  scoreGroup(group, options) {
    return group.map((trajectory) => {
      const scores = trajectory.seats().map((seat) => [seat, this.score(trajectory, seat, options)]);
      return new Map(scores);
    });
  }
}

/** Optional interface of each optional method, by kind. */
export const OPTIONAL = {
  environment: {
    snapshot: "environment-snapshot",
    stateKey: "environment-state-key",
    privileged: "environment-privileged",
    advise: "environment-oracle",
    guidance: "environment-guidance",
    render: "environment-render",
  },
  tool: { snapshot: "tool-snapshot", finalView: "tool-final-view" },
  reward: {},
};

/** Whether a class defines an optional method. */
export function offers(kind, method) {
  return typeof kind.prototype[method] === "function";
}

/** Interfaces that a class of this kind exports. */
export function interfacesOf(kind, found) {
  const optional = Object.entries(OPTIONAL[kind]).filter(([method]) => offers(found, method));
  return [kind, ...optional.map(([, name]) => name)];
}

/** Methods that a class must define, by kind; one of several is enough. */
const REQUIRED = {
  environment: [["static splits"], ["reset"], ["step"]],
  tool: [["static functions"], ["call"]],
  reward: [["score", "scoreGroup"]],
};

/** First required method that a class does not define, with its alternatives; undefined if it defines all. */
export function lacking(kind, found, base) {
  const defines = (method) => {
    const name = method.replace("static ", "");
    return name === method ? found.prototype[name] !== base.prototype[name] : found[name] !== base[name];
  };
  return REQUIRED[kind].find((methods) => !methods.some(defines));
}
