//! What one rendering has used of its limits, and which sources it has looked into.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::error::Fault;
use crate::text::Str;

/// Limits of one rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderLimits {
    /// Most steps: evaluated expressions and statements, and items and pieces of 64 bytes that functions work on.
    pub steps: u64,
    /// Most bytes of the rendering.
    pub written_bytes: usize,
    /// Most bytes of all strings and collections that the rendering makes on its way, together.
    pub held_bytes: usize,
    /// Most nested expressions, statements and calls during the rendering. In an optimised build,
    /// 400 levels take up to 512 KiB of the stack; without optimisation, 2 MiB.
    pub depth: u32,
}

impl Default for RenderLimits {
    fn default() -> Self {
        // Instrumented code is slower, and a target has seconds for an input.
        let steps = if cfg!(fuzzing) { 1_000_000 } else { 10_000_000 };
        Self { steps, written_bytes: 8 << 20, held_bytes: 256 << 20, depth: 400 }
    }
}

/// A part of a rendering that may refer to itself, and is emptied at the end.
pub(crate) trait Clear {
    fn clear(&self);
}

/// The state of one rendering.
pub(crate) struct Context {
    limits: RenderLimits,
    steps: Cell<u64>,
    held: Cell<usize>,
    depth: Cell<u32>,
    line: Cell<u32>,
    last: Cell<Option<u32>>,
    inspected: RefCell<BTreeSet<u32>>,
    cyclic: RefCell<Vec<Rc<dyn Clear>>>,
}

impl Context {
    pub(crate) fn new(limits: RenderLimits) -> Self {
        Self {
            limits,
            steps: Cell::new(0),
            held: Cell::new(0),
            depth: Cell::new(0),
            line: Cell::new(1),
            last: Cell::new(None),
            inspected: RefCell::default(),
            cyclic: RefCell::default(),
        }
    }

    /// Takes some steps.
    pub(crate) fn steps(&self, steps: usize) -> Result<(), Fault> {
        let taken = self.steps.get().saturating_add(steps as u64);
        self.steps.set(taken);
        if taken > self.limits.steps {
            return Err(Fault::Limit(format!("takes more than {} steps", self.limits.steps)));
        }
        Ok(())
    }

    /// Takes the steps of work on some bytes.
    pub(crate) fn work(&self, bytes: usize) -> Result<(), Fault> {
        self.steps(1 + bytes / 64)
    }

    /// Makes strings or collections of this size.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Fault> {
        let held = self.held.get().saturating_add(bytes);
        if held > self.limits.held_bytes {
            return Err(Fault::Limit(format!("makes values of more than {} bytes", self.limits.held_bytes)));
        }
        self.held.set(held);
        self.work(bytes)
    }

    /// Checks the size of the rendering.
    pub(crate) fn write(&self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.limits.written_bytes {
            return Err(Fault::Limit(format!("writes more than {} bytes", self.limits.written_bytes)));
        }
        Ok(())
    }

    /// Checks the size of a text that is being made.
    pub(crate) fn write_part(&self, bytes: usize) -> Result<(), Fault> {
        match self.held.get().saturating_add(bytes) > self.limits.held_bytes {
            true => self.hold(bytes),
            false => Ok(()),
        }
    }

    /// Goes one level deeper until [`Context::leave`].
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        self.steps(1)?;
        let depth = self.depth.get() + 1;
        if depth > self.limits.depth {
            return Err(Fault::Limit(format!("nests more than {} levels deep", self.limits.depth)));
        }
        self.depth.set(depth);
        Ok(())
    }

    pub(crate) fn leave(&self) {
        self.depth.set(self.depth.get().saturating_sub(1));
    }

    pub(crate) fn set_line(&self, line: u32) {
        self.line.set(line);
    }

    pub(crate) fn line(&self) -> u32 {
        self.line.get()
    }

    /// Notes that the rendering depends on the contents of a text, not only on the classes of its sources.
    pub(crate) fn inspect(&self, text: &Str) {
        let mut runs: u64 = 0;
        for source in text.sources() {
            runs += 1;
            if self.last.replace(Some(source)) != Some(source) {
                self.inspected.borrow_mut().insert(source);
            }
        }
        self.steps.set(self.steps.get().saturating_add(runs));
    }

    /// Sources whose contents the rendering depends on.
    pub(crate) fn take_inspected(&self) -> BTreeSet<u32> {
        self.inspected.take()
    }

    /// Empties this part at the end of the rendering, since it may refer to itself.
    pub(crate) fn clear_at_end(&self, part: Rc<dyn Clear>) {
        self.cyclic.borrow_mut().push(part);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        for part in self.cyclic.get_mut().iter() {
            part.clear();
        }
    }
}
