// What the engine draws by itself, tied to the host: what it drew while the component was made would be the same in every
// instance.

import { random } from "../imports.mjs";

/** 53 random bits of the host's stream, as a number in 0..1. */
Math.random = () => Number(random.next() >> 11n) / 2 ** 53;
