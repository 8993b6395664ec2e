// Lines of an author's files in the bundle of a plugin, read from the bundle's source map.

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Numbers of one segment of a source map, in base64 VLQ. */
export function numbersOf(segment) {
  const numbers = [];
  let [value, shift] = [0, 0];
  for (const digit of segment) {
    const bits = DIGITS.indexOf(digit);
    value += (bits & 31) << shift;
    shift += 5;
    if (bits & 32) continue;
    numbers.push(value & 1 ? -(value >> 1) : value >> 1);
    [value, shift] = [0, 0];
  }
  return numbers;
}

/**
 * Runs of consecutive lines, as `[line, count, file, fileLine]`: `count` lines of the bundle from `line` are those of
 * `file` from `fileLine`. Lines count from 1. `nameOf` returns the name of a source that is the author's.
 */
export function authorLines({ sources, mappings }, nameOf) {
  const names = sources.map(nameOf);
  const runs = [];
  let [source, fileLine] = [0, 1];
  mappings.split(";").forEach((segments, index) => {
    let first;
    for (const segment of segments.split(",")) {
      // A segment without a source has one number.
      const [, bySource, byLine] = numbersOf(segment);
      if (bySource === undefined) continue;
      source += bySource;
      fileLine += byLine;
      first ??= [names[source], fileLine];
    }
    if (!first?.[0]) return;
    const line = index + 1;
    const last = runs.at(-1);
    const follows = last && last[2] === first[0] && line === last[0] + last[1] && first[1] === last[3] + last[1];
    if (follows) last[1] += 1;
    else runs.push([line, 1, ...first]);
  });
  return runs;
}

/**
 * Frames of a file in a stack of Node.js, in the form of the component's engine: `function@file:line:column`. `url` is
 * the file's.
 */
export function nodeFrames(stack, url) {
  return stack.split("\n").flatMap((frame) => {
    const [, name = "", line] = /^ +at (?:(.*) \()?\S+:(\d+):\d+\)?$/.exec(frame) ?? [];
    return line !== undefined && frame.includes(`${url}:`) ? [`${name}@${url}:${line}:1`] : [];
  });
}
