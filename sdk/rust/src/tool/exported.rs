//! From the contract's functions and handles to an author's traits.

use std::marker::PhantomData;

use super::{Answer, FinalView, Session, Snapshot, Tool};
use crate::bindings::tool::exports::gymkhana::plugin::tool as wit;
use crate::bindings::{tool_final_view as final_view, tool_snapshot as snapshot};
use crate::{Call, Error, Function, NamedValue, OptionInfo, handles};

/// What [`crate::plugin!`] exports for a tool.
pub struct Exported<T>(PhantomData<T>);

impl<T: Tool> wit::Guest for Exported<T> {
    fn describe() -> wit::Info {
        let info = T::info();
        wit::Info { summary: info.summary, options: info.options.iter().map(OptionInfo::to_wit).collect() }
    }

    fn functions(options: Vec<NamedValue>) -> Result<Vec<Function>, Error> {
        Session::<T>::functions(options)
    }

    fn open(setup: Option<Vec<u8>>, options: Vec<NamedValue>, seed: u64) -> Result<u32, Error> {
        Ok(handles::open(Session::<T>::open(setup, options, seed)?))
    }

    fn call(session: u32, call: Call) -> Result<Answer, Error> {
        handles::with(session, |session: &mut Session<T>| session.call(&call))?
    }

    fn close(session: u32) {
        handles::close::<Session<T>>(session);
    }
}

impl<T: Snapshot> snapshot::exports::gymkhana::plugin::tool_snapshot::Guest for Exported<T> {
    fn snapshot(session: u32) -> Result<Vec<u8>, Error> {
        handles::with(session, |session: &mut Session<T>| session.tool().snapshot())
    }

    fn restore(snapshot: Vec<u8>) -> Result<u32, Error> {
        Ok(handles::open(Session::<T>::restore(&snapshot)?))
    }
}

impl<T: FinalView> final_view::exports::gymkhana::plugin::tool_final_view::Guest for Exported<T> {
    fn final_view(session: u32) -> Result<Vec<NamedValue>, Error> {
        handles::with(session, |session: &mut Session<T>| session.tool().final_view())
    }
}
