// Notebook: the agent writes notes and reads them in later calls of the same episode.

import { Invalid, Mistake, Option, Tool, fn, parameter } from "@gymkhana/sdk";

/** Session: notes by name. */
export class Notes extends Tool {
  static summary = "A notebook for one episode";
  static options = [Option.integer("most", "Maximum number of notes", 100, { within: [1, 10_000] })];

  static functions() {
    const name = parameter("string", "the note's name");
    const text = parameter("string", "what to remember");
    return [
      fn("write", "Writes a note, over an old one of that name.", { name, text }),
      fn("read", "Reads a note.", { name }),
    ];
  }

  open(setup, options) {
    // Set-up data of the environment, if any: initial notes.
    this.notes = setup ? readNotes(setup) : new Map();
    this.most = options.most;
  }

  call(call) {
    const name = call.text("name");
    if (call.name === "write") {
      if (!this.notes.has(name) && this.notes.size >= this.most) {
        throw new Mistake(`the notebook is full: there are ${this.most} notes; write over one of them`);
      }
      this.notes.set(name, call.text("text"));
      return "Noted.";
    }
    if (!this.notes.has(name)) {
      throw new Mistake(`there is no note \`${name}\`; there are: ${[...this.notes.keys()].join(", ") || "none"}`);
    }
    return this.notes.get(name);
  }

  // Optional methods: the plugin exports the ones that the class defines.

  snapshot() {
    return new TextEncoder().encode(JSON.stringify([this.most, [...this.notes]]));
  }

  restore(snapshot) {
    const [most, notes] = JSON.parse(new TextDecoder().decode(snapshot));
    if (!Number.isInteger(most)) throw new Error("it lacks the maximum number of notes");
    [this.most, this.notes] = [most, new Map(notes)];
  }

  finalView() {
    return { notes: this.notes.size };
  }
}

function readNotes(setup) {
  try {
    const notes = Object.entries(JSON.parse(new TextDecoder().decode(setup)));
    if (notes.every(([, text]) => typeof text === "string")) return new Map(notes);
  } catch {
    // Invalid JSON is reported below.
  }
  throw new Invalid("the setup must be a JSON object of notes");
}
