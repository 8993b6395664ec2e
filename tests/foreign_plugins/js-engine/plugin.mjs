// What the engine draws and measures by itself, and what it drew while the component was made.

import { Tool, clock, fn, random } from "gymkhana";

const MADE = Math.random();

/** Answers with numbers, as JSON. */
export class Engine extends Tool {
  static summary = "Shows what a JavaScript engine draws and measures by itself";

  static functions() {
    return [fn("draw", "Three random numbers."), fn("time", "Clocks, before and after some work.")];
  }

  call(call) {
    if (call.name === "draw") return JSON.stringify([Math.random(), Math.random(), String(random.next()), MADE]);
    const clocks = () => [Date.now(), performance.now(), Number(clock.now())];
    return JSON.stringify([clocks(), clocks()]);
  }
}
