//! Domains of databases. In each, actors and objects are tables, and so are the events between them.

/// Family of schemas. Every name has alternatives, from which a schema takes one.
pub struct Domain {
    /// Actors, such as customers.
    pub who: Entity,
    /// Objects, such as products.
    pub what: Entity,
    /// Events between the two, such as purchases.
    pub deed: Deed,
}

/// Table of named entities.
pub struct Entity {
    /// Singular and plural.
    pub names: &'static [(&'static str, &'static str)],
    /// Column with the unique name of each entity.
    pub label: &'static [&'static str],
    /// Parts of a name.
    pub halves: [&'static [&'static str]; 2],
    /// Categorical column.
    pub category: (&'static [&'static str], &'static [&'static str]),
    /// Integer column, with inclusive bounds.
    pub number: (&'static [&'static str], i64, i64),
    /// Optional integer column, which may be absent from a schema and NULL in some rows.
    pub extra: (&'static str, i64, i64),
}

/// Table of events.
pub struct Deed {
    /// Singular and plural.
    pub names: &'static [(&'static str, &'static str)],
    /// Column with the date.
    pub day: &'static [&'static str],
    /// Categorical column.
    pub category: (&'static [&'static str], &'static [&'static str]),
    /// Integer column, with inclusive bounds.
    pub count: (&'static [&'static str], i64, i64),
    /// Optional column with an amount, with inclusive bounds in hundredths.
    pub amount: (&'static str, i64, i64),
}

const FIRST: &[&str] = &[
    "Ada", "Bo", "Carl", "Dana", "Elif", "Finn", "Gita", "Hugo", "Ines", "Jan", "Kira", "Liam", "Mara", "Nils", "Olga",
    "Paul", "Rosa", "Sami", "Tove", "Uma", "Vera", "Wim", "Yara", "Zeno",
];
const LAST: &[&str] = &[
    "Abel", "Brandt", "Costa", "Dahl", "Egger", "Fischer", "Greco", "Holm", "Ito", "Jansen", "Kovac", "Lund", "Moser",
    "Novak", "Okafor", "Petit", "Quist", "Rossi", "Silva", "Tanaka", "Ueda", "Vogel", "Weber", "Zhou",
];
const TONES: &[&str] = &[
    "Amber", "Blue", "Cedar", "Dawn", "Ember", "Frost", "Golden", "Hollow", "Iron", "Jade", "Lunar", "Misty", "North",
    "Opal", "Quiet", "Red", "Silver", "Tidal", "Velvet", "White",
];
const TOWNS: &[&str] = &["Arden", "Belmar", "Corvo", "Delphi", "Elster", "Fjordby"];

const fn people(
    names: &'static [(&'static str, &'static str)],
    number: (&'static [&'static str], i64, i64),
    extra: (&'static str, i64, i64),
) -> Entity {
    Entity {
        names,
        label: &["name", "full_name"],
        halves: [FIRST, LAST],
        category: (&["city", "town", "home_town"], TOWNS),
        number,
        extra,
    }
}

/// All domains.
pub const DOMAINS: [Domain; 6] = [
    Domain {
        who: people(
            &[("customer", "customers"), ("client", "clients")],
            (&["age", "points"], 18, 80),
            ("discount", 0, 30),
        ),
        what: Entity {
            names: &[("product", "products"), ("article", "articles")],
            label: &["title", "product_name"],
            halves: [TONES, &["Chair", "Clock", "Desk", "Kettle", "Lamp", "Mirror", "Rug", "Shelf", "Stool", "Vase"]],
            category: (&["category", "department"], &["kitchen", "bedroom", "office", "garden", "bath"]),
            number: (&["price", "list_price"], 5, 400),
            extra: ("weight", 1, 60),
        },
        deed: Deed {
            names: &[("purchase", "purchases"), ("sale", "sales")],
            day: &["day", "sold_on"],
            category: (&["status", "state"], &["paid", "shipped", "returned", "cancelled"]),
            count: (&["quantity", "pieces"], 1, 12),
            amount: ("total_price", 500, 90_000),
        },
    },
    Domain {
        who: people(
            &[("member", "members"), ("reader", "readers")],
            (&["age", "visits"], 10, 90),
            ("member_since", 1990, 2024),
        ),
        what: Entity {
            names: &[("book", "books"), ("volume", "volumes")],
            label: &["title", "book_title"],
            halves: [
                TONES,
                &["Bridge", "Garden", "Harbour", "Letters", "Night", "Orchard", "River", "Song", "Tower", "Winter"],
            ],
            category: (&["genre", "section"], &["novel", "poetry", "travel", "history", "science"]),
            number: (&["pages", "length_in_pages"], 60, 900),
            extra: ("edition", 1, 9),
        },
        deed: Deed {
            names: &[("loan", "loans"), ("borrowing", "borrowings")],
            day: &["day", "lent_on"],
            category: (&["outcome", "return_state"], &["returned", "late", "lost", "open"]),
            count: (&["days", "duration_days"], 1, 60),
            amount: ("fee", 0, 2_500),
        },
    },
    Domain {
        who: people(
            &[("doctor", "doctors"), ("physician", "physicians")],
            (&["experience", "years_of_service"], 1, 40),
            ("room", 1, 300),
        ),
        what: Entity {
            names: &[("patient", "patients")],
            label: &["name", "patient_name"],
            halves: [LAST, FIRST],
            category: (&["insurance", "insurer"], &["basic", "full", "family", "none"]),
            number: (&["age", "age_in_years"], 1, 99),
            extra: ("height", 60, 200),
        },
        deed: Deed {
            names: &[("visit", "visits"), ("appointment", "appointments")],
            day: &["day", "visited_on"],
            category: (&["kind", "visit_type"], &["check-up", "emergency", "follow-up", "vaccination"]),
            count: (&["minutes", "length_in_minutes"], 5, 90),
            amount: ("cost", 2_000, 60_000),
        },
    },
    Domain {
        who: Entity {
            names: &[("band", "bands"), ("ensemble", "ensembles")],
            label: &["name", "band_name"],
            halves: [
                TONES,
                &["Comets", "Drummers", "Echoes", "Foxes", "Giants", "Larks", "Pilots", "Strings", "Voices", "Wolves"],
            ],
            category: (&["style", "genre"], &["jazz", "folk", "rock", "choral", "electronic"]),
            number: (&["founded", "founding_year"], 1960, 2020),
            extra: ("musicians", 2, 40),
        },
        what: Entity {
            names: &[("venue", "venues"), ("hall", "halls")],
            label: &["name", "venue_name"],
            halves: [
                TONES,
                &["Arena", "Barn", "Cellar", "Dome", "Garden", "House", "Pavilion", "Stage", "Theatre", "Yard"],
            ],
            category: (&["city", "town"], TOWNS),
            number: (&["capacity", "seats"], 80, 5_000),
            extra: ("built", 1880, 2015),
        },
        deed: Deed {
            names: &[("concert", "concerts"), ("show", "shows")],
            day: &["day", "played_on"],
            category: (&["programme", "kind"], &["tour", "festival", "benefit", "private"]),
            count: (&["tickets", "tickets_sold"], 20, 4_000),
            amount: ("ticket_price", 500, 15_000),
        },
    },
    Domain {
        who: people(
            &[("student", "students"), ("learner", "learners")],
            (&["age", "semesters"], 17, 45),
            ("credits", 0, 240),
        ),
        what: Entity {
            names: &[("course", "courses"), ("seminar", "seminars")],
            label: &["title", "course_title"],
            halves: [
                &["Advanced", "Applied", "Basic", "Early", "General", "Global", "Modern", "Practical", "Pure", "Rural"],
                &[
                    "Algebra",
                    "Botany",
                    "Chemistry",
                    "Drawing",
                    "Ethics",
                    "Geology",
                    "Logic",
                    "Music",
                    "Optics",
                    "Rhetoric",
                ],
            ],
            category: (&["faculty", "school"], &["arts", "science", "law", "medicine"]),
            number: (&["hours", "weekly_hours"], 1, 12),
            extra: ("places", 10, 200),
        },
        deed: Deed {
            names: &[("enrolment", "enrolments"), ("registration", "registrations")],
            day: &["day", "registered_on"],
            category: (&["result", "outcome"], &["passed", "failed", "withdrawn", "running"]),
            count: (&["score", "final_score"], 0, 100),
            amount: ("tuition", 10_000, 200_000),
        },
    },
    Domain {
        who: people(
            &[("driver", "drivers"), ("courier", "couriers")],
            (&["licence_years", "trips_before"], 1, 45),
            ("locker", 1, 99),
        ),
        what: Entity {
            names: &[("truck", "trucks"), ("vehicle", "vehicles")],
            label: &["nickname", "call_sign"],
            halves: [TONES, &["Badger", "Bison", "Crane", "Falcon", "Heron", "Lynx", "Otter", "Raven", "Stag", "Swan"]],
            category: (&["fuel", "engine"], &["diesel", "electric", "gas", "hybrid"]),
            number: (&["payload", "load_limit"], 500, 20_000),
            extra: ("build_year", 1998, 2024),
        },
        deed: Deed {
            names: &[("delivery", "deliveries"), ("trip", "trips")],
            day: &["day", "driven_on"],
            category: (&["weather", "road"], &["dry", "rain", "snow", "fog"]),
            count: (&["kilometres", "distance_km"], 3, 900),
            amount: ("fuel_cost", 300, 40_000),
        },
    },
];
