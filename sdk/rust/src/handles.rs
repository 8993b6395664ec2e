//! Open episodes and sessions of this instance, by handle.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::Error;

/// A component has one thread and its calls never nest, so a borrow never conflicts.
#[derive(Default)]
struct Open {
    things: BTreeMap<u32, Box<dyn Any>>,
    /// Handles are never reused, so a closed handle stays invalid.
    next: u32,
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

/// Stores an object and returns its handle.
pub fn open<T: 'static>(thing: T) -> u32 {
    OPEN.with_borrow_mut(|open| {
        let handle = open.next;
        open.next += 1;
        open.things.insert(handle, Box::new(thing));
        handle
    })
}

/// Applies a function to the object behind a handle.
pub fn with<T: 'static, R>(handle: u32, act: impl FnOnce(&mut T) -> R) -> Result<R, Error> {
    OPEN.with_borrow_mut(|open| {
        let thing = open.things.get_mut(&handle).and_then(|thing| thing.downcast_mut::<T>());
        thing.map(act).ok_or_else(|| Error::NotFound(format!("handle {handle} is not open")))
    })
}

/// Removes the object behind a handle; an unknown handle is ignored.
pub fn close<T: 'static>(handle: u32) {
    OPEN.with_borrow_mut(|open| {
        if open.things.get(&handle).is_some_and(|thing| thing.is::<T>()) {
            open.things.remove(&handle);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_name_one_thing_until_closed() {
        let (first, second) = (open(1_u8), open(2_u8));
        assert_ne!(first, second);
        assert_eq!(with(second, |thing: &mut u8| *thing), Ok(2));
        close::<u8>(first);
        assert!(matches!(with(first, |thing: &mut u8| *thing), Err(Error::NotFound(_))));
        assert_ne!(open(3_u8), first);
    }

    #[test]
    fn a_handle_of_another_kind_is_not_found() {
        let handle = open(1_u8);
        assert!(matches!(with(handle, |thing: &mut u16| *thing), Err(Error::NotFound(_))));
        close::<u16>(handle);
        assert_eq!(with(handle, |thing: &mut u8| *thing), Ok(1));
    }
}
