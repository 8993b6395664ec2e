//! The workflow: roles as nodes, and who moves after whom. It is read from an option of the run.

use std::collections::BTreeMap;

use gymkhana_sdk::Error;
use serde::Deserialize;

/// Names of all roles, which are those of the seats.
pub const NAMES: [&str; 8] = ["planner", "executor", "verifier", "answerer", "router", "critic", "adviser", "searcher"];

/// A planner writes a plan, and an executor acts until the environment ends the episode.
pub const DEFAULT: &str = r#"[{"role":"planner","next":"executor"},{"role":"executor","actions":1}]"#;

/// Origin of an entry in the shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// First observations of the environment.
    Task,
    /// Later observations of the environment.
    Environment,
    /// Messages and calls of the role with this seat.
    Role(u32),
}

/// The move to another role.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Handover {
    /// Index of the role that moves next.
    pub to: usize,
    /// Price, subtracted from the rewards of the role that hands over.
    pub price: f64,
}

/// A role of the workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Role {
    /// Seat of the role.
    pub seat: u32,
    /// Text before what the role reads.
    pub instruction: String,
    /// What the role reads.
    pub reads: Vec<Source>,
    /// Actions in the environment before the next role moves; 0 for a role that only writes.
    pub actions: u64,
    /// The next role. A role without one keeps the move.
    pub next: Option<Handover>,
    /// Words that lead to other roles: of those in a message, the last one decides.
    pub on: Vec<(String, Handover)>,
    /// Price of a turn, subtracted from the role's rewards.
    pub price: f64,
    /// Share of the environment's rewards that the role earns.
    pub earns: f64,
}

/// A workflow whose first role moves first.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Roles in their order.
    pub roles: Vec<Role>,
    /// Turns of all roles; 0 without a limit.
    pub turns: u64,
    /// JSON of the option, for snapshots.
    pub source: String,
}

/// A role as the run file writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    role: String,
    #[serde(default)]
    instruction: String,
    reads: Option<Vec<String>>,
    #[serde(default)]
    actions: u64,
    next: Option<Target>,
    #[serde(default)]
    on: BTreeMap<String, Target>,
    #[serde(default)]
    price: f64,
    #[serde(default = "all")]
    earns: f64,
}

/// A role to hand over to, as the run file writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Target {
    Role(String),
    Priced { role: String, price: f64 },
}

impl Target {
    fn parts(&self) -> (&str, f64) {
        match self {
            Self::Role(role) => (role, 0.0),
            Self::Priced { role, price } => (role, *price),
        }
    }
}

fn all() -> f64 {
    1.0
}

impl Workflow {
    /// Reads a workflow.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for anything that is not a workflow, and for a cycle of roles without a limit of turns.
    pub fn read(source: &str, turns: u64) -> Result<Self, Error> {
        let written: Vec<Written> =
            serde_json::from_str(source).map_err(|error| wrong(&format!("is not a list of roles: {error}")))?;
        if written.is_empty() {
            return Err(wrong("has no role"));
        }
        let names: Vec<&str> = written.iter().map(|role| role.role.as_str()).collect();
        for (index, name) in names.iter().enumerate() {
            seat_of(name)?;
            if names[..index].contains(name) {
                return Err(wrong(&format!("has role `{name}` twice")));
            }
        }
        let roles = written.iter().map(|role| role.read(&names)).collect::<Result<Vec<Role>, Error>>()?;
        let workflow = Self { roles, turns, source: source.to_owned() };
        workflow.check(&names)?;
        Ok(workflow)
    }

    /// The handover after a message of the role at `index`; `None` if it keeps the move.
    pub fn after(&self, index: usize, message: &str) -> Option<Handover> {
        let message = message.to_lowercase();
        let role = &self.roles[index];
        let said = role.on.iter().filter_map(|(word, target)| Some((message.rfind(word)?, *target)));
        said.max_by_key(|(place, _)| *place).map(|(_, target)| target).or(role.next)
    }

    /// A message of the role at `index` on the shortest way to a role that acts.
    pub fn way_to_action(&self, index: usize) -> String {
        let role = &self.roles[index];
        let distance = |target: usize| self.distance_to_action(target).unwrap_or(usize::MAX);
        let ahead = role.next.map_or(usize::MAX, |next| distance(next.to));
        match role.on.iter().min_by_key(|(_, target)| distance(target.to)) {
            Some((word, target)) if distance(target.to) < ahead => word.clone(),
            _ => {
                let neutral = ["Continue.", "Go on.", "-"].into_iter().find(|words| {
                    let words = words.to_lowercase();
                    role.on.iter().all(|(word, _)| !words.contains(word))
                });
                neutral.unwrap_or_default().to_owned()
            }
        }
    }

    /// Number of handovers from a role to one that acts.
    fn distance_to_action(&self, from: usize) -> Option<usize> {
        let mut reached = vec![false; self.roles.len()];
        let mut front = vec![from];
        for distance in 0..self.roles.len() {
            if front.iter().any(|index| self.roles[*index].actions > 0) {
                return Some(distance);
            }
            let next: Vec<usize> = front.iter().flat_map(|index| self.targets(*index)).collect();
            front = next.into_iter().filter(|index| !std::mem::replace(&mut reached[*index], true)).collect();
        }
        None
    }

    fn targets(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let role = &self.roles[index];
        role.next.iter().chain(role.on.iter().map(|(_, target)| target)).map(|target| target.to)
    }

    fn check(&self, names: &[&str]) -> Result<(), Error> {
        for (role, name) in self.roles.iter().zip(names) {
            if role.actions == 0 && role.next.is_none() {
                return Err(wrong(&format!("has role `{name}`, which has neither `actions` nor `next`")));
            }
        }
        let mut reached = vec![false; names.len()];
        self.visit(0, &mut vec![], &mut reached, names)?;
        if let Some(index) = reached.iter().position(|reached| !reached) {
            return Err(wrong(&format!("has role `{}`, to which no other role leads", names[index])));
        }
        match (0..names.len()).find(|index| self.distance_to_action(*index).is_none()) {
            Some(index) => Err(wrong(&format!("has role `{}`, from which no role that acts is reached", names[index]))),
            None => Ok(()),
        }
    }

    /// Marks the roles that are reached from a role; refuses a cycle without a limit.
    fn visit(&self, index: usize, path: &mut Vec<usize>, reached: &mut [bool], names: &[&str]) -> Result<(), Error> {
        if let Some(start) = path.iter().position(|known| *known == index) {
            if self.turns > 0 {
                return Ok(());
            }
            let cycle: Vec<&str> = path[start..].iter().chain([&index]).map(|index| names[*index]).collect();
            return Err(wrong(&format!("has the cycle {} and no limit: set option `turns`", cycle.join(" → "))));
        }
        if std::mem::replace(&mut reached[index], true) && self.turns > 0 {
            return Ok(());
        }
        path.push(index);
        for target in self.targets(index) {
            self.visit(target, path, reached, names)?;
        }
        path.pop();
        Ok(())
    }
}

impl Written {
    fn read(&self, names: &[&str]) -> Result<Role, Error> {
        let share = |key: &str, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(value),
            false => Err(wrong(&format!("has {key} = {value} for `{}`; it must be from 0 to 1", self.role))),
        };
        let target = |target: &Target| {
            let (name, price) = target.parts();
            let unknown =
                || wrong(&format!("leads from `{}` to `{name}`; its roles are {}", self.role, names.join(", ")));
            let to = names.iter().position(|known| *known == name).ok_or_else(unknown)?;
            Ok(Handover { to, price: share("price", price)? })
        };
        if self.on.keys().any(String::is_empty) {
            return Err(wrong(&format!("has an empty word in `on` of `{}`: use `next`", self.role)));
        }
        let reads = match &self.reads {
            Some(reads) => reads.iter().map(|name| self.source(name, names)).collect::<Result<_, Error>>()?,
            None => {
                let roles = names.iter().map(|name| Ok(Source::Role(seat_of(name)?)));
                [Ok(Source::Task), Ok(Source::Environment)].into_iter().chain(roles).collect::<Result<_, Error>>()?
            }
        };
        let on = self.on.iter().map(|(word, name)| Ok((word.to_lowercase(), target(name)?)));
        Ok(Role {
            seat: seat_of(&self.role)?,
            instruction: self.instruction.clone(),
            reads,
            actions: self.actions,
            next: self.next.as_ref().map(target).transpose()?,
            on: on.collect::<Result<_, Error>>()?,
            price: share("price", self.price)?,
            earns: share("earns", self.earns)?,
        })
    }

    fn source(&self, name: &str, names: &[&str]) -> Result<Source, Error> {
        match name {
            "task" => Ok(Source::Task),
            "environment" => Ok(Source::Environment),
            role if names.contains(&role) => Ok(Source::Role(seat_of(role)?)),
            other => Err(wrong(&format!(
                "has `{other}` in `reads` of `{}`; it must be task, environment, {}",
                self.role,
                names.join(", ")
            ))),
        }
    }
}

/// Seat of a role.
fn seat_of(name: &str) -> Result<u32, Error> {
    let seat = NAMES.iter().position(|known| *known == name);
    let seat = seat.ok_or_else(|| wrong(&format!("has a role `{name}`; roles are {}", NAMES.join(", "))))?;
    Ok(seat as u32)
}

fn wrong(reason: &str) -> Error {
    Error::Invalid(format!("option `workflow` {reason}"))
}
