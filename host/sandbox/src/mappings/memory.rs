//! Linear memories of instances.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use rustix::param::page_size;
use wasmtime::{LinearMemory, MemoryCreator, MemoryType, Result};

use super::pages::{MAX_PAGES, PageMap};
use super::{FreeList, Mapping};

/// Largest mapping that is kept, in bytes. Plugins with more memory spend more time on filling it than on mapping it.
const MAX_KEPT: usize = 4 << 20;

/// Bytes of a kept mapping that stay resident, to avoid page faults in the next instance.
const KEPT_RESIDENT: usize = 256 << 10;

/// Creator of linear memories from mappings of ended instances.
pub(crate) struct Memories {
    kept: Arc<Kept>,
    growth: usize,
}

/// Mappings of ended instances.
struct Kept {
    free: FreeList,
    /// `None` where the kernel does not report which pages hold data. All pages are then returned to it.
    pages: Option<PageMap>,
}

impl Memories {
    /// Creates a creator. A memory begins with `growth` bytes of addresses beside those that it needs, and moves when it
    /// outgrows them.
    pub fn new(growth: usize) -> Self {
        Self { kept: Arc::new(Kept { free: FreeList::default(), pages: PageMap::open() }), growth }
    }
}

// SAFETY: a memory owns its mapping, which is zero: a new one by the kernel, and a kept one because its former owner
// cleaned all pages that an instance could reach. The engine compiles a check of the bounds into each access, since it
// asks for no guard.
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _ty: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        if reserved.is_some_and(|bytes| bytes > 0) || guard > 0 {
            return Err("memories of this engine have no reservation and no guard".to_owned());
        }
        let bytes = minimum.saturating_add(self.growth);
        let mapping = self.kept.free.take_or(bytes, || Mapping::new(bytes));
        let mapping = mapping.map_err(|error| format!("cannot map {minimum} bytes of memory: {error}"))?;
        let mapping = ManuallyDrop::new(mapping);
        Ok(Box::new(Memory { mapping, size: minimum, growth: self.growth, kept: Arc::clone(&self.kept) }))
    }
}

/// The linear memory of one instance.
struct Memory {
    /// Taken when this is dropped.
    mapping: ManuallyDrop<Mapping>,
    /// Bytes that the instance can reach. A memory never shrinks, so that all others are zero.
    size: usize,
    growth: usize,
    kept: Arc<Kept>,
}

// SAFETY: the base is that of a mapping that this owns, of at least `size` bytes. Only growth beyond the capacity moves it.
unsafe impl LinearMemory for Memory {
    fn byte_size(&self) -> usize {
        self.size
    }

    fn byte_capacity(&self) -> usize {
        self.mapping.bytes
    }

    fn grow_to(&mut self, size: usize) -> Result<()> {
        if size > self.mapping.bytes {
            self.mapping.resize(size.saturating_add(self.growth))?;
        }
        self.size = size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.mapping.base.as_ptr()
    }
}

impl Drop for Memory {
    /// Keeps the mapping for another instance if it can be cleaned.
    fn drop(&mut self) {
        // SAFETY: the mapping is not used after this.
        let mut mapping = unsafe { ManuallyDrop::take(&mut self.mapping) };
        if mapping.bytes <= MAX_KEPT && clean(&mut mapping, self.size, self.kept.pages.as_ref()).is_ok() {
            self.kept.free.put(mapping);
        }
    }
}

/// Makes a mapping zero of which only the first `used` bytes may be something else. The first pages that hold data stay
/// resident, up to [`KEPT_RESIDENT`].
fn clean(mapping: &mut Mapping, used: usize, pages: Option<&PageMap>) -> io::Result<()> {
    let page = page_size();
    let (base, used) = (mapping.base, used.next_multiple_of(page));
    let mut left = KEPT_RESIDENT / page;
    for from in (0..used).step_by(page * MAX_PAGES) {
        let count = (used - from).min(page * MAX_PAGES) / page;
        let first = (base.as_ptr() as usize + from) / page;
        let Some(holding) = pages.and_then(|pages| pages.holding_data(first, count)) else {
            return mapping.discard(from, used);
        };
        for (number, _) in holding.enumerate().filter(|(_, holds)| *holds) {
            let at = from + number * page;
            if left == 0 {
                return mapping.discard(at, used);
            }
            left -= 1;
            // SAFETY: the page is in the mapping, which nothing refers to.
            unsafe { base.add(at).write_bytes(0, page) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Module, Store};

    use super::*;
    use crate::engine::code_form::{CodeForm, Weight, code_config};
    use crate::mappings::MAX_LISTED;
    use crate::{CompilerEffort, ProcessOwner};

    const GROWTH: usize = 1 << 20;
    const PAGE: usize = 1 << 16;

    /// An engine whose memories come from `memories`.
    fn engine(memories: Memories) -> (Engine, Arc<Kept>) {
        let kept = Arc::clone(&memories.kept);
        let (effort, owner) = (CompilerEffort::Optimised, ProcessOwner::Foreign);
        let mut config = code_config(CodeForm { weight: Weight::Light, effort, count_fuel: false, owner });
        config.with_host_memory(Arc::new(memories));
        (Engine::new(&config).unwrap(), kept)
    }

    /// A guest with this many pages of memory. `dirty` writes 170 from an offset on, `other` returns the sum of all bytes
    /// but the four of its data.
    fn guest(engine: &Engine, pages: usize) -> Module {
        let text = format!(
            r#"(module (memory (export "memory") {pages}) (data (i32.const 65532) "\01\02\03\04")
                (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
                (func (export "dirty") (param i32 i32) (memory.fill (local.get 0) (i32.const 170) (local.get 1)))
                (func (export "other") (result i64) (local $at i32) (local $sum i64)
                    (loop $next
                        (if (i32.ne (local.get $at) (i32.const 65528)) (then
                            (local.set $sum (i64.or (local.get $sum) (i64.load (local.get $at))))))
                        (local.set $at (i32.add (local.get $at) (i32.const 8)))
                        (br_if $next (i32.lt_u (local.get $at) (i32.mul (memory.size) (i32.const 65536)))))
                    (local.get $sum)))"#
        );
        Module::new(engine, wat::parse_str(text).unwrap()).unwrap()
    }

    struct Guest {
        store: Store<()>,
        instance: Instance,
    }

    impl Guest {
        fn start(module: &Module) -> Self {
            let mut store = Store::new(module.engine(), ());
            store.set_epoch_deadline(1_000_000);
            let instance = Instance::new(&mut store, module, &[]).unwrap();
            Self { store, instance }
        }

        fn grow(&mut self, pages: usize) {
            let grow = self.instance.get_typed_func::<i32, i32>(&mut self.store, "grow").unwrap();
            assert!(grow.call(&mut self.store, i32::try_from(pages).unwrap()).unwrap() > 0, "by {pages} pages");
        }

        fn dirty(&mut self, from: usize, bytes: usize) {
            let dirty = self.instance.get_typed_func::<(u32, u32), ()>(&mut self.store, "dirty").unwrap();
            let arguments = (u32::try_from(from).unwrap(), u32::try_from(bytes).unwrap());
            dirty.call(&mut self.store, arguments).unwrap();
        }

        fn check_clean(&mut self, what: &str) {
            let other = self.instance.get_typed_func::<(), i64>(&mut self.store, "other").unwrap();
            assert_eq!(other.call(&mut self.store, ()).unwrap(), 0, "{what}");
            let memory = self.instance.get_memory(&mut self.store, "memory").unwrap();
            assert_eq!(memory.data(&self.store)[65528..65536], [0, 0, 0, 0, 1, 2, 3, 4], "{what}");
        }

        fn base(&mut self) -> usize {
            let memory = self.instance.get_memory(&mut self.store, "memory").unwrap();
            memory.data_ptr(&self.store) as usize
        }
    }

    /// Each guest fills its memory and ends; the next ones, which have more or less memory, find none of it.
    #[test]
    fn the_next_instance_finds_only_its_own_data() {
        for pages in [PageMap::open(), None] {
            let reports = pages.is_some();
            let kept = Kept { free: FreeList::default(), pages };
            let (engine, kept) = engine(Memories { kept: Arc::new(kept), growth: GROWTH });
            let guests = [2, 17, 40, 70].map(|pages| (pages, guest(&engine, pages)));
            let mut reused = 0;
            for round in 0..8 {
                for (pages, module) in &guests {
                    let what = format!("round {round}, {pages} pages, page map: {reports}");
                    let listed: Vec<usize> = kept
                        .free
                        .mappings
                        .lock()
                        .unwrap()
                        .iter()
                        .map(|mapping| mapping.base.as_ptr() as usize)
                        .collect();
                    let mut guest = Guest::start(module);
                    reused += usize::from(listed.contains(&guest.base()));
                    guest.check_clean(&what);
                    // Within the mapping, beyond it, and beyond what is kept.
                    let more = [0, 3, 20, 90][round % 4];
                    guest.grow(more);
                    guest.check_clean(&what);
                    let size = (pages + more) * PAGE;
                    match round {
                        // All; the last byte; one byte of each page; the resident part and one byte more.
                        0..4 => guest.dirty(0, size),
                        4 => guest.dirty(size - 1, 1),
                        5 => (0..size).step_by(4096).for_each(|at| guest.dirty(at, 1)),
                        _ => guest.dirty(0, KEPT_RESIDENT.min(size - 1) + 1),
                    }
                }
            }
            assert!(reused >= 12, "{reused} of 32 instances began in a kept mapping");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (engine, kept) = engine(Memories::new(GROWTH));
        let (small, large) = (guest(&engine, 17), guest(&engine, 64));
        drop(Guest::start(&large));
        assert!(kept.free.mappings.lock().unwrap().is_empty(), "it is larger than what is kept");
        let mut guests: Vec<Guest> = (0..200).map(|_| Guest::start(&small)).collect();
        for guest in &mut guests {
            guest.dirty(0, 17 * PAGE);
        }
        drop(guests);
        let mappings = kept.free.mappings.lock().unwrap();
        let bytes: usize = mappings.iter().map(|mapping| mapping.bytes).sum();
        assert!((MAX_LISTED - (4 << 20)..=MAX_LISTED).contains(&bytes), "{bytes} bytes are kept");
        let Some(pages) = &kept.pages else { return };
        for mapping in &*mappings {
            let first = mapping.base.as_ptr() as usize / page_size();
            // The guest's memory has 272 pages.
            let holding = pages.holding_data(first, 272).expect("it was opened");
            assert!(holding.filter(|holds| *holds).count() * page_size() <= KEPT_RESIDENT);
        }
    }
}
