// Replaces the engine's random numbers by the host's stream. Numbers drawn at build time would be equal in all
// instances.

import { random } from "../imports.mjs";

/** Uniform number in [0, 1) from 53 random bits of the host's stream. */
Math.random = () => Number(random.next() >> 11n) / 2 ** 53;
