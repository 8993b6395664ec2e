"""A notebook: what the agent writes in one call it can read in a later one of the same episode."""

import json

from gymkhana_sdk import Function, Invalid, Mistake, Option, Parameter, Tool


class Notes(Tool):
    """One session: its notes by their names."""

    summary = "A notebook for one episode"
    options = (Option("most", "How many notes there may be", 100, within=(1, 10_000)),)

    @classmethod
    def functions(cls, options):
        name, text = Parameter(str, "the note's name"), Parameter(str, "what to remember")
        return [
            Function("write", "Writes a note, over an old one of that name.", {"name": name, "text": text}),
            Function("read", "Reads a note.", {"name": name}),
        ]

    def open(self, setup, options, seed):
        # What the environment prepared for this tool, if anything: notes to begin with.
        try:
            self.notes = {str(name): str(text) for name, text in json.loads(setup or b"{}").items()}
        except (ValueError, AttributeError) as error:
            raise Invalid(f"the setup must be a JSON object of notes: {error}") from error
        self.most = options["most"]

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

    # What follows is optional: the class offers what it defines.

    def snapshot(self):
        return json.dumps([self.most, self.notes]).encode()

    def restore(self, snapshot):
        most, notes = json.loads(snapshot)
        self.most, self.notes = int(most), {str(name): str(text) for name, text in notes.items()}

    def final_view(self):
        return {"notes": len(self.notes)}
