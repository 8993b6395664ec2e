// Text of an uncaught exception for the host: its message and the author's frames.

/** Place in the author's files of a line of the bundle; undefined for a line of the SDK. */
function placeOf(line, runs) {
  const run = runs.find(([first, count]) => first <= line && line < first + count);
  return run && `${run[2]}:${run[3] + line - run[0]}`;
}

/** Frames of the author, innermost first. A frame of the engine is `function@file:line:column`. */
function framesOf(stack, runs) {
  return stack.split("\n").flatMap((frame) => {
    const [, name, file, line] = /^(.*)@(.*):(\d+):\d+$/.exec(frame) ?? [];
    // The engine's own glue is another file than the bundle; in a quick build, so is the base.
    const isBundle = file?.endsWith(globalThis.gymkhanaFile ?? "") && !file.endsWith("initializer.js");
    const place = isBundle ? placeOf(Number(line), runs) : undefined;
    // A function without a name is shown as the one around it, such as `outer/<`.
    return place ? [`    at ${name.split("/")[0] || "(top level)"} (${place})`] : [];
  });
}

/**
 * An exception as text. `runs` are the author's lines in the bundle, which the build adds to it (`lines.mjs`). The host
 * reads this form: `Uncaught MESSAGE`, then `    at FUNCTION (FILE:LINE)` for each frame.
 */
export function uncaught(error, runs = globalThis.gymkhanaLines ?? [], stack = String(error?.stack ?? "")) {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return [`Uncaught ${message}`, ...framesOf(stack, runs)].join("\n");
}
