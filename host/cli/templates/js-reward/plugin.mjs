// Reward for correct answers that prefers short ones.

import { Invalid, Option, Reward, evidenceAt } from "@gymkhana/sdk";

/** Compares the last message of a seat with the environment's privileged `answer`. */
export class Brief extends Reward {
  static summary = "Short correct answers";
  static range = [0, 1];
  static components = {
    right: "1 if the last message contains the answer, else 0",
    length: "length of the last message in characters",
  };
  static options = [Option.integer("free", "Length without penalty, in characters", 40, { within: [0, 10_000] })];

  score(trajectory, seat, options) {
    const { answer } = trajectory.privileged;
    if (typeof answer !== "string" || answer === "") {
      throw new Invalid("the environment has no privileged text `answer`: use an environment that has one");
    }
    const last = trajectory.lastMessage(seat);
    if (!last) return { total: 0, components: { right: 0, length: 0 } };
    const place = last.text.indexOf(answer);
    // UTF-16 units: walking over the characters of a very long message would use up the fuel of a call.
    const length = last.text.length;
    const components = { right: place < 0 ? 0 : 1, length };
    if (place < 0) return { total: 0, components };
    const evidence = [evidenceAt(last.turn, last.text, place, place + answer.length, "the answer")];
    return { total: 1 / (1 + Math.max(0, length - options.free) / 100), components, evidence };
  }
}
