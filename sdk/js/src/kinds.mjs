// The classes that authors extend. What a class defines of the optional methods it offers to the host.

const missing = (what) => {
  throw new Error(`the plugin's class must define \`${what}\``);
};

/** A world; an instance is one episode. See `index.d.ts`. */
export class Environment {
  static summary = "";
  static seats = ["agent"];
  static rewards = [0, 0];
  static options = [];

  static splits() {
    return missing("static splits");
  }

  start() {
    return missing("start");
  }

  step() {
    return missing("step");
  }
}

/** Functions that a policy may call; an instance is one session. */
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

/** Scores finished trajectories. */
export class Reward {
  static summary = "";
  static range = [0, 1];
  static components = {};
  static options = [];

  score() {
    return missing("score");
  }

  /** One `Map` from seat to score a trajectory; override it when attempts are compared. */
  scoreGroup(group, options) {
    return group.map((trajectory) => {
      const scores = trajectory.seats().map((seat) => [seat, this.score(trajectory, seat, options)]);
      return new Map(scores);
    });
  }
}

/** The optional interfaces by the method that offers them. */
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

/** Whether a class offers an optional method. */
export function offers(kind, method) {
  return typeof kind.prototype[method] === "function";
}

/** The interfaces that a class of this kind exports. */
export function interfacesOf(kind, found) {
  const optional = Object.entries(OPTIONAL[kind]).filter(([method]) => offers(found, method));
  return [kind, ...optional.map(([, name]) => name)];
}
