"""Notebook: the agent writes notes and reads them in later calls of the same episode."""

import json

from gymkhana_sdk import Function, Invalid, Mistake, Options, Parameter, Tool, option


class NotesOptions(Options):
    """Options that a run file may set."""

    most: int = option("Maximum number of notes", 100, within=(1, 10_000))


class Notes(Tool):
    """Session: notes by name."""

    summary = "A notebook for one episode"
    options = NotesOptions

    @classmethod
    def functions(cls, options):
        name, text = Parameter(str, "the note's name"), Parameter(str, "what to remember")
        return [
            Function("write", "Writes a note, over an old one of that name.", {"name": name, "text": text}),
            Function("read", "Reads a note.", {"name": name}),
        ]

    def open(self, setup, options, seed):
        # Set-up data of the environment, if any: initial notes.
        try:
            self.notes = {str(name): str(text) for name, text in json.loads(setup or b"{}").items()}
        except (ValueError, AttributeError) as error:
            raise Invalid(f"the setup must be a JSON object of notes: {error}") from error
        self.most = options.most

    def call(self, call):
        name = call.text("name")
        if call.name == "write":
            if name not in self.notes and len(self.notes) >= self.most:
                raise Mistake(f"the notebook is full: there are {self.most} notes; write over one of them")
            self.notes[name] = call.text("text")
            return "Noted."
        if name not in self.notes:
            raise Mistake(f"there is no note `{name}`; there are: {', '.join(self.notes) or 'none'}")
        return self.notes[name]

    # Optional methods: the plugin exports the ones that the class defines.

    def snapshot(self):
        return json.dumps([self.most, self.notes]).encode()

    def restore(self, snapshot):
        most, notes = json.loads(snapshot)
        self.most, self.notes = int(most), {str(name): str(text) for name, text in notes.items()}

    def final_view(self):
        return {"notes": len(self.notes)}
