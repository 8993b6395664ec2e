// Checks the typings as an author uses them: `tsc` must accept this file and refuse each line below `@ts-expect-error`.

import {
  Call,
  Environment,
  Invalid,
  Mistake,
  Option,
  Reward,
  Rng,
  Tool,
  evidenceAt,
  fn,
  hash64,
  http,
  parameter,
  textOf,
} from "@gymkhana/sdk";
import type { Action, Content, FunctionInfo, Options, ResetResult, Score, Split, StepResult, Task, Trajectory } from "@gymkhana/sdk";
import { Play, openSession, score } from "@gymkhana/sdk/testing";

class Guess extends Environment {
  static override summary = "Guess a number";
  static override rewardRange: [number, number] = [0, 1];
  static override options = [Option.integer("highest", "Largest secret", 10, { within: [2, 100] })];
  private secret = 0;

  static override splits(_options: Options): Split[] {
    return [{ name: "train", tasks: 100 }, { name: "endless" }];
  }

  reset(task: Task, options: Options, seed: bigint): ResetResult {
    if (task.split !== "train") throw new Invalid("no such split");
    this.secret = new Rng(seed ^ hash64(task.split)).between(1, options["highest"]);
    return { observations: "Guess.", functions: [fn("guess", "Guesses.", { number: parameter("integer", "guess") })] };
  }

  step(action: Action): StepResult {
    const guess: number | undefined = action.call?.integer("number");
    if (guess === undefined) throw new Mistake("Call guess.");
    const success = guess === this.secret;
    return { observations: "Done.", reward: Number(success), terminated: true, extras: { success } };
  }

  override snapshot(): Uint8Array {
    return Uint8Array.of(this.secret);
  }

  override restore(snapshot: Uint8Array): void {
    this.secret = snapshot[0] ?? 0;
  }
}

class Echo extends Tool {
  static override summary = "Echoes";

  static override functions(_options: Options): FunctionInfo[] {
    return [fn("echo", "Returns its argument.", { text: parameter("string", "text", { optional: true }) }, { cost: 1 })];
  }

  call(call: Call): Content | { content: Content; failed: boolean } {
    return call.has("text") ? call.text("text") : { content: ["nothing"], failed: true };
  }
}

class Brevity extends Reward {
  static override components = { short: "1 for at most 20 characters, else 0" };

  override score(trajectory: Trajectory, seat: number, _options: Options): Score {
    const short = Number((trajectory.lastMessage(seat)?.text.length ?? 21) <= 20);
    return { total: short, components: { short }, evidence: [evidenceAt(0, "é", 0, 1, "an accent")] };
  }
}

const play = new Play(Guess, { split: "train", seed: 7n, options: { highest: 3 } });
play.call("guess", { number: 2 });
export const reward: number = play.over ? play.reward : play.followOracle();
export const text: string = textOf(openSession(Echo).call(Call.of("echo", { text: "hello" })).content);
export const scores: Array<Map<number, Required<Score>>> = score(Brevity, []);
export const status: number = http.send({ url: "https://example.org" }).status;

// @ts-expect-error: an environment defines `step`
class NoStep extends Environment {
  reset(): ResetResult {
    return { observations: "" };
  }
}
// @ts-expect-error: options are made by the named constructors
new Option("name");
// @ts-expect-error: the type of a parameter is one of four
parameter("text", "description");
// @ts-expect-error: a turn of play needs a string
play.say(7);
// @ts-expect-error: observations are required
export const result: ResetResult = {};
export { NoStep };
