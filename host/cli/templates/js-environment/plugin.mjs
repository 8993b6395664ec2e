// Guessing game: the environment says whether a guess is too low or too high.

import { Environment, Mistake, NotFound, Option, Rng, hash64 } from "@gymkhana/sdk";

const SPLITS = { train: 1000, test: 100 };

/**
 * Secret of a task. The task alone determines it, so attempts at one task are comparable. Every third number is a secret
 * of `test` only, so splits share no task.
 */
function secretOf(task, highest) {
  const rng = new Rng(hash64(`${task.split}/${task.index}`));
  for (;;) {
    const secret = rng.between(1, highest);
    if ((secret % 3 === 0) === (task.split === "test")) return secret;
  }
}

/** Episode: the secret number and the range that the guesses leave. */
export class Guess extends Environment {
  static summary = "Guess a number from hints";
  static rewardRange = [0, 1];
  static options = [
    Option.integer("highest", "Largest possible secret", 100, { within: [3, 1_000_000] }),
    Option.integer("guesses", "Maximum number of guesses", 7, { within: [1, 100] }),
  ];

  static splits() {
    return Object.entries(SPLITS).map(([name, tasks]) => ({ name, tasks }));
  }

  reset(task, options) {
    if (!Object.hasOwn(SPLITS, task.split)) throw NotFound.split(task, Object.keys(SPLITS));
    if (task.index >= SPLITS[task.split]) throw new NotFound(`split \`${task.split}\` has ${SPLITS[task.split]} tasks`);
    this.secret = secretOf(task, options.highest);
    [this.low, this.high, this.left] = [1, options.highest, options.guesses];
    return { observations: `I think of a number from 1 to ${this.high}. You have ${this.left} guesses.` };
  }

  step(action) {
    if (!/^\s*-?\d{1,15}\s*$/.test(action.text)) throw new Mistake("Answer with a whole number and nothing else.");
    const guess = Number(action.text);
    this.left -= 1;
    if (guess === this.secret) {
      return { observations: "Right!", reward: 1, terminated: true, extras: { success: true } };
    }
    if (guess < this.secret) this.low = Math.max(this.low, guess + 1);
    else this.high = Math.min(this.high, guess - 1);
    const hint = guess < this.secret ? "Too low." : "Too high.";
    if (this.left === 0) {
      return { observations: `${hint} No guess is left.`, reward: 0, terminated: true, extras: { success: false } };
    }
    return { observations: `${hint} ${this.left} left.`, reward: 0 };
  }

  // Optional methods: the plugin exports the ones that the class defines.

  snapshot() {
    return new TextEncoder().encode(JSON.stringify([this.secret, this.low, this.high, this.left]));
  }

  restore(snapshot) {
    const numbers = JSON.parse(new TextDecoder().decode(snapshot));
    if (numbers.length !== 4 || !numbers.every(Number.isInteger)) throw new Error("it does not contain four integers");
    [this.secret, this.low, this.high, this.left] = numbers;
  }

  stateKey() {
    return this.snapshot();
  }

  privileged() {
    return { answer: String(this.secret) };
  }

  advise() {
    return String(Math.floor((this.low + this.high) / 2));
  }

  guidance() {
    return `The number is ${this.secret % 2 === 0 ? "even" : "odd"}.`;
  }

  render() {
    return `${this.low} <= secret <= ${this.high}, ${this.left} guesses left`;
  }
}
