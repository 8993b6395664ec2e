//! Limits on the linear memories, tables and core instances of one live instance.

use wasmtime::{ResourceLimiter, Result};

use crate::Limits;

/// Counts the memory of a store and records whether growth was refused during a call.
pub(crate) struct MemoryLimiter {
    total: usize,
    left: usize,
    table_elements: usize,
    instances: usize,
    refused: bool,
}

impl MemoryLimiter {
    /// Creates a limiter.
    pub fn new(limits: &Limits) -> Self {
        Self {
            total: limits.memory_bytes,
            left: limits.memory_bytes,
            table_elements: limits.table_elements,
            instances: limits.instances,
            refused: false,
        }
    }

    /// Bytes of linear memory in use.
    pub fn held_bytes(&self) -> usize {
        self.total - self.left
    }

    /// Returns whether growth was refused during this call. Most guests then abort.
    pub fn was_refused(&self) -> bool {
        self.refused
    }

    /// Resets [`MemoryLimiter::was_refused`] at the start of a call.
    pub fn begin_call(&mut self) {
        self.refused = false;
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let more = desired.saturating_sub(current);
        let fits = more <= self.left;
        if fits {
            self.left -= more;
        } else {
            self.refused = true;
        }
        Ok(fits)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let fits = desired <= self.table_elements;
        self.refused |= !fits;
        Ok(fits)
    }

    fn instances(&self) -> usize {
        self.instances
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Module, Store};

    use super::*;
    use crate::engine::code_form::{CodeForm, Weight};
    use crate::engine::engine_config;
    use crate::{CompilerEffort, ProcessOwner};

    #[test]
    fn tables_and_memories_grow_up_to_their_limits() {
        let limits = Limits { table_elements: 1000, memory_bytes: 4 << 16, ..Limits::default() };
        let (effort, owner) = (CompilerEffort::Optimised, ProcessOwner::Host);
        let form = CodeForm { weight: Weight::Light, effort, count_fuel: false, owner };
        let engine = Engine::new(&engine_config(form, &limits, 4)).unwrap();
        let bomb = wat::parse_str(
            r#"(module (table 10 funcref) (memory 1)
                (func (export "table") (param i32) (result i32) (table.grow (ref.null func) (local.get 0)))
                (func (export "memory") (param i32) (result i32) (memory.grow (local.get 0))))"#,
        );
        let module = Module::new(&engine, bomb.unwrap()).unwrap();
        // The guest receives the size before the growth, or -1 if it is refused.
        for (grows, steps) in [("table", [(900, 10), (90, 910), (1, -1)]), ("memory", [(2, 1), (1, 3), (1, -1)])] {
            let mut store = Store::new(&engine, MemoryLimiter::new(&limits));
            store.limiter(|memory| memory);
            store.set_epoch_deadline(1_000_000);
            let instance = Instance::new(&mut store, &module, &[]).unwrap();
            let grow = instance.get_typed_func::<i32, i32>(&mut store, grows).unwrap();
            for (more, answered) in steps {
                assert!(!store.data().was_refused(), "{grows} by {more}");
                assert_eq!(grow.call(&mut store, more).unwrap(), answered, "{grows} by {more}");
            }
            assert!(store.data().was_refused());
        }
    }
}
