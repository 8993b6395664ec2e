// Random numbers and clocks of the JavaScript engine, including a number drawn at build time.

import { Tool, clock, fn, random } from "@gymkhana/sdk";

const MADE = Math.random();

/** Tool whose answers are numbers, as JSON. */
export class Engine extends Tool {
  static summary = "Random numbers and clocks of the JavaScript engine";

  static functions() {
    return [fn("draw", "Three random numbers."), fn("time", "Clocks, before and after some work.")];
  }

  call(call) {
    if (call.name === "draw") return JSON.stringify([Math.random(), Math.random(), String(random.next()), MADE]);
    const clocks = () => [Date.now(), performance.now(), Number(clock.now())];
    return JSON.stringify([clocks(), clocks()]);
  }
}
