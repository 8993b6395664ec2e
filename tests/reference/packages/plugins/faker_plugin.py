"""Invented names and addresses."""

from faker import Faker
from gymkhana_sdk import Call, Function, Mistake, Parameter, Tool


class Proof(Tool):
    """Keeps no state."""

    summary = "Invented data"

    @classmethod
    def functions(cls, options):
        return [
            Function("member", "Data of a kind, a locale and a seed", {"member": Parameter(str, "KIND LOCALE SEED")})
        ]

    def call(self, call: Call):
        try:
            kind, locale, seed = call.text("member").split()
            faker = Faker(locale)
            faker.seed_instance(int(seed))
            found = getattr(faker, kind)()
        except (AttributeError, ValueError, TypeError) as error:
            raise Mistake(f"write for example `name en_US 7`: {error}") from None
        return str(found).replace("\n", "; ")
