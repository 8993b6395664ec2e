"""Dates and recurring events."""

from datetime import datetime

from dateutil import parser, relativedelta, rrule
from dateutil.zoneinfo import get_zonefile_instance
from gymkhana_sdk import Call, Function, Mistake, Parameter, Tool

DATE = Parameter(str, "a date")
# Read once, while the component is built: it unpacks hundreds of files.
ZONES = get_zonefile_instance()


class Proof(Tool):
    """Keeps no state."""

    summary = "Calculate with dates"

    @classmethod
    def functions(cls, options):
        return [
            Function("shift", "Adds years to a date", {"date": DATE, "years": Parameter(int, "number of years")}),
            Function("offset", "Hours ahead of UTC", {"date": DATE, "zone": Parameter(str, "a time zone")}),
            Function("count", "Number of events", {"rule": Parameter(str, "of iCalendar"), "start": DATE, "end": DATE}),
        ]

    def call(self, call: Call):
        try:
            return str(self.answer(call))
        except (ValueError, OverflowError, TypeError, AttributeError) as error:
            raise Mistake(f"wrong argument: {error}") from None

    def answer(self, call):
        """Answer to a call."""
        if call.name == "count":
            start, end = parser.parse(call.text("start")), parser.parse(call.text("end"))
            return sum(1 for _ in rrule.rrulestr(call.text("rule"), dtstart=start).between(start, end, inc=True))
        date = parser.parse(call.text("date"), default=datetime(2000, 1, 1))
        if call.name == "shift":
            return (date + relativedelta.relativedelta(years=call.integer("years"))).date()
        zone = ZONES.get(call.text("zone"))
        return date.replace(tzinfo=zone).utcoffset().total_seconds() / 3600
