//! Classification of a call that did not return: the engine's error becomes a typed failure.

use gymkhana_record::FailureKind;
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Result as EngineResult, Store, Trap};
use wasmtime_wasi::I32Exit;

use super::budget::Budget;
use super::inner::InnerFailure;
use super::panic_message::PanicMessage;
use super::store_data::{StoreData, TooManyBytes};
use super::timer::{BudgetSpent, DeadlinePassed};
use crate::{CallError, Limits, OutboundError};

/// Result of a guest call before classification.
pub(crate) type TimedResult<R> = Result<EngineResult<R>, DeadlinePassed>;

/// Returns the failure of a call that did not return, with the guest's own account of it.
#[cold]
pub(crate) fn call_failure<R>(
    outcome: TimedResult<R>,
    store: &mut Store<StoreData>,
    limits: &Limits,
    budget: &Budget,
) -> CallError {
    let data = store.data_mut();
    let out_of_memory = data.memory.was_refused();
    let words = data.end_failed_call();
    match outcome {
        Ok(Err(error)) => classify(&error, limits, budget, out_of_memory, words.as_ref()),
        Ok(Ok(_)) | Err(DeadlinePassed) => CallError::new(
            FailureKind::Deadline,
            format!("the call took longer than the wall-clock limit of {} ms", limits.wall.as_millis()),
        ),
    }
}

/// Classifies the engine's error. `out_of_memory` states that the guest was refused memory during the call.
fn classify(
    error: &wasmtime::Error,
    limits: &Limits,
    budget: &Budget,
    out_of_memory: bool,
    words: Option<&PanicMessage>,
) -> CallError {
    if let Some(InnerFailure(failure)) = error.downcast_ref() {
        return failure.clone();
    }
    let mut failure = if error.is::<BudgetSpent>() {
        budget.out_of_time(limits)
    } else if error.downcast_ref() == Some(&Trap::OutOfFuel) {
        budget.out_of_fuel(limits)
    } else if out_of_memory {
        let (bytes, elements) = (limits.memory_bytes, limits.table_elements);
        let limit = format!("{bytes} bytes of memory or {elements} elements of a table");
        CallError::new(FailureKind::Memory, format!("the plugin exceeded its limit of {limit}"))
    } else if is_copy_limit(error) {
        let message =
            format!("the plugin passed more than its limit of {} bytes to the host at once", limits.result_bytes);
        CallError::new(FailureKind::ResultSize, message)
    } else if error.is::<PoolConcurrencyLimitError>() {
        CallError::new(FailureKind::Capacity, format!("the pool of live plugins is full: {error}"))
    } else if let Some(OutboundError(why)) = error.downcast_ref() {
        return CallError::new(FailureKind::Fault, format!("an outbound call of the plugin failed: {why}"));
    } else if let Some(trap) = error.downcast_ref::<Trap>() {
        CallError::new(FailureKind::Trap, format!("the plugin trapped: {trap}"))
    } else if let Some(I32Exit(status)) = error.downcast_ref() {
        CallError::new(FailureKind::Trap, format!("the plugin exited with status {status}"))
    } else if let Some(full) = error.downcast_ref::<ResourceTableError>() {
        let message = format!("the plugin misused its handles of streams and pollables: {full}");
        CallError::new(FailureKind::Trap, message)
    } else {
        return CallError::malformed(error.root_cause());
    };
    let (told, is_whole) = match words {
        Some(PanicMessage::Exception(exception)) => (format!("uncaught exception: {exception}"), true),
        Some(PanicMessage::Panic(panic)) => (format!("the plugin panicked at {panic}"), true),
        Some(PanicMessage::LastLines(lines)) => (format!("standard error: {lines}"), false),
        None => return failure,
    };
    // The guest's account replaces the engine's words of a trap. A limit stays the cause.
    failure.message =
        if is_whole && failure.kind == FailureKind::Trap { told } else { format!("{}; {told}", failure.message) };
    failure
}

/// Text of wasmtime's error for a result above `set_hostcall_fuel`; the error has no public type. The test below fails
/// if a new version of wasmtime changes it.
const COPY_LIMIT_TEXT: &str = "fuel allocated for hostcalls";

fn is_copy_limit(error: &wasmtime::Error) -> bool {
    error.is::<TooManyBytes>() || error.root_cause().to_string().contains(COPY_LIMIT_TEXT)
}

#[cfg(test)]
mod tests {
    use wasmtime::component::{Component, Linker};
    use wasmtime::{Config, Engine, Store};

    use super::*;

    /// A component that returns a string of `length` bytes.
    fn returning(length: u32) -> Vec<u8> {
        let text = format!(
            r#"(component
                (core module $m
                    (memory (export "memory") 4)
                    (func (export "text") (result i32)
                        (i32.store (i32.const 0) (i32.const 16))
                        (i32.store (i32.const 4) (i32.const {length}))
                        (i32.const 0)))
                (core instance $i (instantiate $m))
                (func (export "text") (result string)
                    (canon lift (core func $i "text") (memory (core memory $i "memory")))))"#
        );
        wat::parse_str(text).unwrap()
    }

    fn text_under_limit(length: u32) -> wasmtime::Result<(String,)> {
        let engine = Engine::new(&Config::new())?;
        let component = Component::from_binary(&engine, &returning(length))?;
        let mut store = Store::new(&engine, ());
        store.set_hostcall_fuel(1 << 10);
        let instance = Linker::new(&engine).instantiate(&mut store, &component)?;
        let function = instance.get_typed_func::<(), (String,)>(&mut store, "text")?;
        function.call(&mut store, ())
    }

    #[test]
    fn an_exception_or_a_panic_replaces_the_engines_words_of_a_trap() {
        let exception = PanicMessage::Exception("plugin.py:45 in helper: KeyError: 'a'".to_owned());
        let budget = Budget::after(Default::default(), &Limits::default()).unwrap();
        let of = |trap: Trap, words: &PanicMessage| {
            classify(&trap.into(), &Limits::default(), &budget, false, Some(words)).message
        };
        let message = of(Trap::UnreachableCodeReached, &exception);
        assert_eq!(message, "uncaught exception: plugin.py:45 in helper: KeyError: 'a'");
        // A limit stays the cause.
        let message = of(Trap::OutOfFuel, &exception);
        assert!(message.ends_with("; uncaught exception: plugin.py:45 in helper: KeyError: 'a'"), "{message}");
        let panic = PanicMessage::Panic("src/lib.rs:61:26: oh".to_owned());
        assert_eq!(of(Trap::UnreachableCodeReached, &panic), "the plugin panicked at src/lib.rs:61:26: oh");
        let message = of(Trap::OutOfFuel, &panic);
        assert!(message.ends_with("; the plugin panicked at src/lib.rs:61:26: oh"), "{message}");
        // Other lines of standard error may have another cause.
        let message = of(Trap::UnreachableCodeReached, &PanicMessage::LastLines("oh".to_owned()));
        assert!(message.starts_with("the plugin trapped: ") && message.ends_with("; standard error: oh"), "{message}");
    }

    #[test]
    fn wasmtimes_text_for_a_result_above_the_limit_is_recognised() {
        let (text,) = text_under_limit(100).expect("below 1 KiB");
        assert_eq!(text.len(), 100);
        let error = text_under_limit(100_000).expect_err("above 1 KiB");
        assert!(error.root_cause().to_string().contains(COPY_LIMIT_TEXT), "{error:?}");
        let budget = Budget::after(Default::default(), &Limits::default()).unwrap();
        let failure = classify(&error, &Limits::default(), &budget, false, None);
        assert_eq!(failure.kind, FailureKind::ResultSize);
    }
}
