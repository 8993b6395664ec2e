//! A smallest run file for each number and each table of the schema, with a gap where a test puts a value.

use std::rc::Rc;

use serde_json::{Map, Value, json};

/// A function that puts a value into a run file.
type Fill = Rc<dyn Fn(Value) -> Value>;

/// A place in a run file.
pub struct Place {
    /// Dotted key; `:` precedes the kind of a table that has several.
    pub path: String,
    /// Schema of the key, or of the table.
    pub schema: Value,
    fill: Fill,
}

/// Settings without which a key is refused whatever its value is, by the beginning of its path.
const COMPANIONS: [(&str, &str, &str); 74] = [
    ("plugins.x.mcp.start_seconds", "plugins.x.mcp.command", "[\"program\"]"),
    ("plugins.x.mcp.seconds", "plugins.x.mcp.command", "[\"program\"]"),
    ("plugins.x.mcp.max_kib", "plugins.x.mcp.command", "[\"program\"]"),
    ("agent", "agent.command", "[\"program\"]"),
    ("policy.server", "policy.checkpoint", "\"model\""),
    ("trainer", "policy.checkpoint", "\"model\""),
    ("policy.tiny", "policy.tiny.heads", "1"),
    ("policy.tiny", "policy.tiny.kv_heads", "1"),
    ("models.x", "plugins.x.model", "\"x\""),
    ("sampler:difficulty.min", "sampler.max", "1"),
    ("sampler:staged.phases.0", "sampler.phases.0.steps", "1"),
    ("sampler:staged.phases.0", "sampler.phases.1", "{}"),
    ("environments.0.sampler:difficulty.min", "environments.0.sampler.max", "1"),
    ("environments.0.sampler:staged.phases.0", "environments.0.sampler.phases.0.steps", "1"),
    ("environments.0.sampler:staged.phases.0", "environments.0.sampler.phases.1", "{}"),
    ("stages.0.source.0.weight", "stages.0.source.0.oracle", "true"),
    ("stages.0.source.0.skip_bad", "stages.0.source.0.chat", "[\"x.jsonl\"]"),
    ("stages.0.recorded", "stages.0.algorithm", "\"dpo\""),
    ("stages.0.recorded", "stages.0.recorded.runs", "[\"run\"]"),
    ("stages.0.recorded.skip_bad", "stages.0.recorded.files", "[\"x.jsonl\"]"),
    ("stages.0.recorded.skip_bad", "stages.0.recorded.runs", "[]"),
    ("stages.0.seats.x", "seats.x.policy", "\"separate\""),
    ("stages.0.alternate_every", "seats.x.policy", "\"separate\""),
    ("stages.0.group_size", "stages.0.algorithm", "\"ppo\""),
    ("models.x", "models.x.script", "[\"reply\"]"),
    ("plugins.x.http_requests", "plugins.x.http", "[{ \"allow\": \"https://a.example\" }]"),
    ("environment.schedule.every", "environment.schedule.shape", "\"steps\""),
    ("environments.0.schedule.every", "environments.0.schedule.shape", "\"steps\""),
    ("environments.0.plugins.x.schedule.every", "environments.0.plugins.x.schedule.shape", "\"steps\""),
    ("environments.0.context:window.most", "environments.0.context.keep", "1"),
    ("environments.0.context:summary", "stages.0.kind", "\"rl\""),
    ("environments.0.advantage.reward_clip", "environments.0.advantage.reward_clip.high", "2"),
    ("plugins.x.schedule.every", "plugins.x.schedule.shape", "\"steps\""),
    ("context:window.most", "context.keep", "1"),
    ("context:summary", "stages.0.kind", "\"rl\""),
    ("stages.0.optimizer.total_steps", "stages.0.optimizer.schedule", "\"cosine\""),
    ("stages.0.optimizer.decay_steps", "stages.0.optimizer.schedule", "\"warmup-stable-decay\""),
    ("stages.0.optimizer.decay_steps", "stages.0.optimizer.total_steps", "1000000000"),
    ("stages.0.optimizer.floor", "stages.0.optimizer.schedule", "\"linear\""),
    ("stages.0.optimizer.floor", "stages.0.optimizer.total_steps", "1000000000"),
    ("evaluation.patience", "evaluation.every", "1"),
    ("stages.0.optimizer.total_steps", "stages.0.steps", "1"),
    ("stages.0.settings.shared_turns", "stages.0.plan", r#"{"kind": "branch", "roots": 4, "threshold": 0.5}"#),
    ("stages.0.settings.whiten_floor", "stages.0.settings.whiten", "\"tokens\""),
    ("stages.0.settings.average_decay", "stages.0.settings.baseline", "\"seat-average\""),
    ("stages.0.settings.critic", "stages.0.settings.baseline", "\"critic\""),
    ("stages.0.settings.constant_tokens", "stages.0.settings.aggregation", "\"constant\""),
    ("stages.0.settings.entropy_band", "stages.0.settings.entropy_bonus", "1"),
    ("stages.0.settings.entropy_band", "stages.0.settings.entropy_band.high", "2"),
    ("stages.0.settings.covariance_clip", "stages.0.settings.covariance_clip.high", "2"),
    ("stages.0.settings.reward_clip", "stages.0.settings.reward_clip.high", "2"),
    ("stages.0.settings.advantage_clip", "stages.0.settings.advantage_clip.high", "2"),
    ("stages.0.settings.kl.schedule.every", "stages.0.settings.kl.schedule.shape", "\"steps\""),
    ("stages.0.settings.critic.schedule.every", "stages.0.settings.critic.schedule.shape", "\"steps\""),
    ("stages.0.settings.entropy_schedule.every", "stages.0.settings.entropy_schedule.shape", "\"steps\""),
    ("stages.0.settings.reference", "stages.0.settings.kl", r#"{"beta": 0.1, "estimator": "k3", "place": "loss"}"#),
    ("stages.0.settings.surrogate:regression", "stages.0.settings.baseline", "\"none\""),
    ("stages.0.settings.surrogate:regression", "stages.0.settings.aggregation", "\"constant\""),
    ("stages.0.settings.surrogate:regression", "stages.0.settings.constant_tokens", "1"),
    ("stages.0.settings.surrogate:regression", "stages.0.settings.ratio", "\"off\""),
    ("stages.0.settings.surrogate:preference", "stages.0.settings.baseline", "\"none\""),
    ("stages.0.settings.surrogate:preference", "stages.0.settings.aggregation", "\"constant\""),
    ("stages.0.settings.surrogate:preference", "stages.0.settings.constant_tokens", "1"),
    ("stages.0.settings.surrogate:preference", "stages.0.settings.ratio", "\"off\""),
    ("stages.0.settings.surrogate:unpaired-preference", "stages.0.settings.baseline", "\"none\""),
    ("stages.0.settings.surrogate:unpaired-preference", "stages.0.settings.aggregation", "\"constant\""),
    ("stages.0.settings.surrogate:unpaired-preference", "stages.0.settings.constant_tokens", "1"),
    ("stages.0.settings.surrogate:unpaired-preference", "stages.0.settings.ratio", "\"off\""),
    ("stages.0.settings.surrogate:unpaired-preference.desirable", "stages.0.settings.surrogate.undesirable", "1"),
    ("stages.0.settings.surrogate:unpaired-preference.undesirable", "stages.0.settings.surrogate.desirable", "1"),
    ("stages.0.settings.surrogate:distillation", "stages.0.settings.baseline", "\"none\""),
    ("stages.0.settings.surrogate:distillation", "stages.0.settings.ratio", "\"off\""),
    ("stages.0.settings.surrogate:distillation", "stages.0.teacher", "\"model\""),
    ("stages.0.demonstrations.schedule.every", "stages.0.demonstrations.schedule.shape", "\"steps\""),
];

/// Tables of a stage that its seats have as well, with the same companions.
const TABLES_OF_SEATS: [&str; 2] = ["stages.0.optimizer.", "stages.0.settings."];

/// Flags of a seat that must be the stage's.
const FLAGS_OF_ALL_SEATS: [&str; 3] = [
    "stages.0.seats.x.settings.replay",
    "stages.0.seats.x.settings.surrogate:preference",
    "stages.0.seats.x.settings.surrogate:regression",
];

/// Keys of a flag's tables that exclude others or require them.
const LEFT_OUT: [&str; 4] = ["schedule", "adaptive", "every", "ema"];

impl Place {
    /// Whether the parser refuses numbers that the schema accepts: flags and rewards share the type of a schedule, and
    /// rewards may be negative. The share of the only environment may not be 0.
    pub fn is_stricter(&self, value: &Value) -> bool {
        if self.path == "environments.0.share" && value.as_f64() == Some(0.0) {
            return true;
        }
        let of_stage = ["stages.0.settings.", "stages.0.seats.x.settings.", "stages.0.demonstrations."];
        let in_flag = of_stage.iter().any(|table| self.path.starts_with(table)) && self.path.ends_with("schedule.to");
        in_flag && value.as_f64().is_some_and(|number| number < 0.0)
    }

    /// The text of the run file with this value, and with the companions of the key.
    pub fn with(&self, value: Value) -> String {
        let mut file = (self.fill)(value);
        let kind = |part: &str| part.split(':').next().unwrap_or_default().to_owned();
        let path = self.path.split('.').map(kind).collect::<Vec<_>>().join(".");
        let of_seats = COMPANIONS.iter().filter_map(|(owner, key, value)| {
            Some((of_seat(owner)?, of_seat(key).unwrap_or_else(|| (*key).to_owned()), value))
        });
        let all = COMPANIONS.iter().map(|(owner, key, value)| ((*owner).to_owned(), (*key).to_owned(), value));
        for (_, key, value) in
            all.chain(of_seats).filter(|(owner, key, _)| self.path.starts_with(owner) && path != *key)
        {
            set(&mut file, &key, serde_json::from_str(value).expect(value));
        }
        if FLAGS_OF_ALL_SEATS.iter().any(|flag| self.path.starts_with(flag)) {
            let own = file["stages"][0]["seats"]["x"]["settings"].clone();
            set(&mut file, "stages.0.settings", own);
        }
        toml::to_string(&file).expect("TOML")
    }
}

/// The key of a seat's table that has the name of a stage's key.
fn of_seat(key: &str) -> Option<String> {
    let is_shared = TABLES_OF_SEATS.iter().any(|table| key.starts_with(table));
    is_shared.then(|| key.replacen("stages.0", "stages.0.seats.x", 1))
}

fn set(file: &mut Value, path: &str, value: Value) {
    let mut place = file;
    for part in path.split('.') {
        place = match part.parse::<usize>() {
            Ok(index) => {
                if place.is_null() {
                    *place = json!([]);
                }
                if let Some(list) = place.as_array_mut().filter(|list| list.len() == index) {
                    list.push(json!({}));
                }
                &mut place[index]
            }
            Err(_) => &mut place[part],
        };
    }
    *place = value;
}

/// The places of all numbers, and those of all tables with fixed keys, where the value is an unknown key's.
pub fn places(schema: &Value) -> (Vec<Place>, Vec<Place>) {
    let mut walk = Walk { definitions: &schema["$defs"], numbers: vec![], tables: vec![] };
    walk.visit(schema, "", &(Rc::new(|value| value) as Fill));
    (walk.numbers, walk.tables)
}

struct Walk<'a> {
    definitions: &'a Value,
    numbers: Vec<Place>,
    tables: Vec<Place>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value, path: &str, fill: &Fill) {
        let schema = self.resolved(schema);
        for choice in choices(schema) {
            self.visit(choice, path, fill);
        }
        match schema["type"].as_str() {
            Some("integer" | "number") => {
                self.numbers.push(Place { path: path.to_owned(), schema: schema.clone(), fill: fill.clone() });
            }
            Some("array") => {
                let fill = fill.clone();
                self.visit(
                    &schema["items"],
                    &format!("{path}.0"),
                    &(Rc::new(move |value| fill(json!([value]))) as Fill),
                );
            }
            Some("object") => self.visit_table(schema, path, fill),
            _ => {}
        }
    }

    fn visit_table(&mut self, schema: &'a Value, path: &str, fill: &Fill) {
        if schema["additionalProperties"].is_object() {
            let fill = fill.clone();
            let entry: Fill = Rc::new(move |value| fill(json!({ "x": value })));
            self.visit(&schema["additionalProperties"], &format!("{path}.x"), &entry);
        }
        let Some(properties) = schema["properties"].as_object() else { return };
        let kind = properties.values().find_map(|key| key["const"].as_str());
        let path = kind.map_or(path.to_owned(), |kind| format!("{path}:{kind}"));
        let own = self.sample(schema, &path, "");
        let with = |key: &str| -> Fill {
            let (own, key, fill) = (own.clone(), key.to_owned(), fill.clone());
            Rc::new(move |value| {
                let mut table = own.clone();
                table[key.as_str()] = value;
                fill(table)
            })
        };
        // The other keys of a wrapper are options of its plugin.
        if !path.ends_with(".wrap.0") {
            self.tables.push(Place { path: path.clone(), schema: schema.clone(), fill: with("unheard-of") });
        }
        for (key, inner) in properties {
            self.visit(inner, format!("{path}.{key}").trim_start_matches('.'), &with(key));
        }
    }

    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
        name.map_or(schema, |name| &self.definitions[name])
    }

    /// The smallest value of a schema. The schema requires no key of a flag's table, since the preset may give it, so
    /// those tables have all keys here but [`LEFT_OUT`].
    fn sample(&self, schema: &'a Value, path: &str, name: &str) -> Value {
        let schema = self.resolved(schema);
        if let Some(word) = schema.get("const").or(schema["enum"].get(0)) {
            return word.clone();
        }
        if let Some(choice) = choices(schema).next() {
            return self.sample(choice, path, name);
        }
        match schema["type"].as_str() {
            Some("object") => {
                let required: Vec<&str> =
                    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let wanted = |key: &str, inner: &Value| {
                    let is_flag = path.contains(".settings.") && !LEFT_OUT.contains(&key);
                    required.contains(&key) || inner.get("const").is_some() || is_flag
                };
                let keys = schema["properties"].as_object().into_iter().flatten();
                let keys = keys.filter(|(key, inner)| wanted(key, inner));
                Value::Object(
                    keys.map(|(key, inner)| (key.clone(), self.sample(inner, path, key))).collect::<Map<_, _>>(),
                )
            }
            Some("array") => json!([self.sample(&schema["items"], path, name)]),
            Some("boolean") => json!(false),
            Some("string") => json!(match name {
                "success" => "environment.success",
                "hub" => "owner/name",
                "url" => "http://127.0.0.1:8000",
                "allow" => "https://a.example",
                _ => "x",
            }),
            _ => number(schema),
        }
    }
}

/// 1, or the number of the range that is nearest to it.
fn number(schema: &Value) -> Value {
    match (&schema["minimum"], &schema["exclusiveMinimum"]) {
        (least, _) if least.as_f64().is_some_and(|least| least > 1.0) => least.clone(),
        (_, below) if below.as_f64().is_some_and(|below| below >= 1.0) => json!(2),
        _ => json!(1),
    }
}

fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    ["oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten()
}

/// The limits of a number's range with `true`, and the next numbers outside with `false`.
pub fn limits(schema: &Value) -> Vec<(Value, bool)> {
    let whole = schema["type"] == "integer";
    let beside = |bound: &Value, sign: i64| match bound.as_i64() {
        Some(bound) if whole => json!(bound + sign),
        _ => {
            let bound = bound.as_f64().expect("a number");
            json!(bound + sign as f64 * if bound == 0.0 { 1e-9 } else { bound.abs() * 1e-3 })
        }
    };
    let exact = |bound: &Value| if whole { bound.clone() } else { json!(bound.as_f64()) };
    let mut values = Vec::new();
    for (key, open, outside) in
        [("minimum", false, -1), ("maximum", false, 1), ("exclusiveMinimum", true, -1), ("exclusiveMaximum", true, 1)]
    {
        let Some(bound) = schema.get(key) else { continue };
        if open {
            values.extend([(exact(bound), false), (beside(bound, -outside), true)]);
        } else {
            values.extend([(exact(bound), true), (beside(bound, outside), false)]);
        }
    }
    values
}
