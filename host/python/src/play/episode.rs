//! The classes `Episode` and `Segment`: a finished episode of a rollout, with its tokens.

use std::sync::Arc;

use gymkhana_record::{EpisodeRecord, Segment, Turn, text_of};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::convert::{array, from_json, from_named};
use crate::errors::FunctionFault;

/// A finished episode. It is plain data: it pickles, and forked children may use it.
#[pyclass(frozen, module = "gymkhana_rl")]
pub struct Episode {
    record: EpisodeRecord,
    /// First message of the conversation.
    system: Option<Arc<str>>,
}

/// Tokens that a policy saw and extended.
#[pyclass(name = "Segment", frozen, module = "gymkhana_rl")]
pub struct PySegment {
    segment: Segment,
}

impl Episode {
    /// An episode whose conversation began with this system prompt.
    pub fn new(record: EpisodeRecord, system: Option<Arc<str>>) -> Self {
        Self { record, system }
    }

    fn json(&self) -> Result<Vec<u8>, FunctionFault> {
        serde_json::to_vec(&self.record).map_err(|error| FunctionFault::Internal(error.to_string()))
    }

    /// The last message, if it is one of the policy that `list` ends with; else a new one.
    fn assistant<'py>(py: Python<'py>, list: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(last) = list.iter().next_back() {
            let last = last.cast_into::<PyDict>()?;
            let role = last.get_item(intern!(py, "role"))?;
            if role.is_some_and(|role| role.eq("assistant").unwrap_or(false)) {
                return Ok(last);
            }
        }
        let message = message(py, "assistant", "")?;
        list.append(&message)?;
        Ok(message)
    }
}

fn message<'py>(py: Python<'py>, role: &str, content: &str) -> PyResult<Bound<'py, PyDict>> {
    let message = PyDict::new(py);
    message.set_item(intern!(py, "role"), role)?;
    message.set_item(intern!(py, "content"), content)?;
    Ok(message)
}

/// Adds text to a message.
fn add_text(message: &Bound<'_, PyDict>, text: &str) -> PyResult<()> {
    let key = intern!(message.py(), "content");
    let before: String = message.get_item(key)?.map(|before| before.extract()).transpose()?.unwrap_or_default();
    message.set_item(key, before + text)
}

/// Adds a call to a message of the policy.
fn add_call(message: &Bound<'_, PyDict>, id: &str, name: &str, arguments: &str) -> PyResult<()> {
    let (py, key) = (message.py(), intern!(message.py(), "tool_calls"));
    let calls = match message.get_item(key)? {
        Some(calls) => calls.cast_into::<PyList>()?,
        None => {
            let calls = PyList::empty(py);
            message.set_item(key, &calls)?;
            calls
        }
    };
    let function = PyDict::new(py);
    function.set_item(intern!(py, "name"), name)?;
    function.set_item(intern!(py, "arguments"), arguments)?;
    let call = PyDict::new(py);
    call.set_item(intern!(py, "id"), id)?;
    call.set_item(intern!(py, "type"), intern!(py, "function"))?;
    call.set_item(intern!(py, "function"), function)?;
    calls.append(call)
}

#[pymethods]
impl Episode {
    /// Reads the bytes of `record_bytes`.
    #[staticmethod]
    #[pyo3(signature = (record, system=None))]
    fn from_bytes(record: &[u8], system: Option<&str>) -> PyResult<Self> {
        let record = serde_json::from_slice(record);
        let record =
            record.map_err(|error| FunctionFault::Option(format!("the bytes are not an episode record: {error}")))?;
        Ok(Self::new(record, system.map(Arc::from)))
    }

    /// Id: stage, phase, step, group, member and attempt.
    #[getter]
    fn id(&self) -> String {
        self.record.id.to_string()
    }

    /// Number of the group, whose episodes play one task.
    #[getter]
    fn group(&self) -> u32 {
        self.record.id.group
    }

    /// Number among the episodes of the group.
    #[getter]
    fn member(&self) -> u32 {
        self.record.id.member
    }

    /// Split of the task.
    #[getter]
    fn split(&self) -> &str {
        &self.record.task.split
    }

    /// Place of the task in its split.
    #[getter]
    fn task(&self) -> u64 {
        self.record.task.index
    }

    /// Seed, with which `Env.reset` begins the same episode.
    #[getter]
    fn seed(&self) -> u64 {
        self.record.seed.0
    }

    /// Reason of the end, such as "terminated" or "turn-limit".
    #[getter]
    fn ending(&self) -> String {
        self.record.ending.to_string()
    }

    /// Whether the success rule holds.
    #[getter]
    fn success(&self) -> bool {
        self.record.success
    }

    /// Reward of the first seat.
    #[getter]
    fn reward(&self) -> f64 {
        self.record.rewards.first().copied().unwrap_or(0.0)
    }

    /// Reward of each seat.
    #[getter]
    fn rewards<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.record.rewards)
    }

    /// Parts of the rewards before weights: "environment", "REWARD" and "REWARD.COMPONENT".
    #[pyo3(signature = (seat=0))]
    fn components<'py>(&self, py: Python<'py>, seat: u32) -> PyResult<Bound<'py, PyDict>> {
        let components = PyDict::new(py);
        if let Some(own) = self.record.environment_rewards.iter().find(|own| own.seat == seat) {
            components
                .set_item(intern!(py, "environment"), own.rewards.iter().fold(0.0, |sum, reward| sum + reward))?;
        }
        for plugin in &self.record.scores {
            for score in plugin.scores.iter().filter(|score| score.seat == seat) {
                components.set_item(&plugin.plugin, score.total)?;
                for part in &score.components {
                    components.set_item(format!("{}.{}", plugin.plugin, part.name), part.value)?;
                }
            }
        }
        Ok(components)
    }

    /// Failures of plugins, the model and the host, in order.
    #[getter]
    fn failures(&self) -> Vec<String> {
        self.record.failures.iter().map(ToString::to_string).collect()
    }

    /// Facts of the environment at the end.
    #[getter]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        from_named(py, &self.record.extras)
    }

    /// Number of replies of all policies.
    #[getter]
    fn turns(&self) -> usize {
        self.record.policy_turns.len()
    }

    /// Token sequences of all seats, in the order in which they began.
    #[getter]
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.record.segments.iter().map(|segment| PySegment { segment: segment.clone() }))
    }

    /// Conversation of a seat as messages in OpenAI's form.
    #[pyo3(signature = (seat=0))]
    fn messages<'py>(&self, py: Python<'py>, seat: u32) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        if let Some(system) = &self.system {
            list.append(message(py, "system", system)?)?;
        }
        // Whether the last turn holds the seat's thoughts: its message follows.
        let mut thought = false;
        for turn in &self.record.turns {
            match turn {
                Turn::Observation { seat: own, content } if *own == seat => {
                    list.append(message(py, "user", &text_of(content))?)?;
                }
                Turn::Thought { seat: own, text } if *own == seat => {
                    let thinking = message(py, "assistant", "")?;
                    thinking.set_item(intern!(py, "reasoning_content"), text)?;
                    list.append(thinking)?;
                    thought = true;
                    continue;
                }
                Turn::Message { content, .. } if thought => {
                    add_text(&Self::assistant(py, &list)?, &text_of(content))?;
                }
                Turn::Message { seat: own, content } if *own == seat => {
                    list.append(message(py, "assistant", &text_of(content))?)?;
                }
                Turn::Call { seat: own, call, .. } if *own == seat => {
                    add_call(&Self::assistant(py, &list)?, &call.id, &call.name, &call.arguments)?;
                }
                Turn::MalformedCall { seat: own, text, .. } if *own == seat => {
                    add_text(&Self::assistant(py, &list)?, text)?;
                }
                Turn::Answer { seat: own, id, content, .. } if *own == seat => {
                    let answer = message(py, "tool", &text_of(content))?;
                    answer.set_item(intern!(py, "tool_call_id"), id)?;
                    list.append(answer)?;
                }
                _ => {}
            }
            thought = false;
        }
        Ok(list)
    }

    /// The episode's record, as in the journal of a run.
    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let record = serde_json::to_value(&self.record).map_err(|error| FunctionFault::Internal(error.to_string()))?;
        from_json(py, &record)
    }

    /// The episode's record as canonical JSON.
    fn record_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.json()?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let arguments = (PyBytes::new(py, &self.json()?), self.system.as_deref()).into_pyobject(py)?;
        Ok((py.get_type::<Self>().getattr(intern!(py, "from_bytes"))?, arguments))
    }

    /// The conversation of each seat, for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(intern!(slf.py(), "gymkhana_rl._display"))?.call_method1(intern!(slf.py(), "episode"), (slf,))
    }

    fn __repr__(&self) -> String {
        let EpisodeRecord { id, task, ending, .. } = &self.record;
        format!("<Episode {id} of {task}: {ending}, reward {}>", self.reward())
    }
}

#[pymethods]
impl PySegment {
    /// Seat whose context this is.
    #[getter]
    fn seat(&self) -> u32 {
        self.segment.seat()
    }

    /// Ids of prompt and replies: int64[T].
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes: Vec<u8> = self.segment.tokens().iter().flat_map(|token| i64::from(*token).to_ne_bytes()).collect();
        array(py, &bytes, "int64")
    }

    /// Log-probability of each sampled token in nats, 0 where not sampled: float32[T].
    #[getter]
    fn log_probs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes: Vec<u8> = self.segment.log_probs().iter().flat_map(|number| number.to_ne_bytes()).collect();
        array(py, &bytes, "float32")
    }

    /// Loss mask, true where the policy sampled the token: bool[T].
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes: Vec<u8> = self.segment.sampled().iter().map(|sampled| u8::from(*sampled)).collect();
        array(py, &bytes, "bool")
    }

    /// Number of the seat's turn during or before which each token came, from 0: int64[T].
    #[getter]
    fn turns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes: Vec<u8> = self.segment.turns().iter().flat_map(|turn| i64::from(*turn).to_ne_bytes()).collect();
        array(py, &bytes, "int64")
    }

    fn __len__(&self) -> usize {
        self.segment.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<Segment of seat {}: {} tokens, {} sampled>",
            self.seat(),
            self.segment.len(),
            self.segment.sampled_len()
        )
    }
}
