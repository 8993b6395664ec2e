//! Loading and launching of compiled kernels by CUDA's driver.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;

use super::library::Library;

/// The driver's library, which belongs to the system.
const DRIVER: &str = "libcuda.so.1";

/// Attributes of cuda.h: parts of the compute capability.
const CAPABILITY: [c_int; 2] = [75, 76];

type CudaModule = *mut c_void;
type LaunchFunction = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// The driver's functions.
#[derive(Debug, Clone, Copy)]
pub(super) struct CudaDriver {
    launch: LaunchFunction,
    get_device: unsafe extern "C" fn(*mut c_int) -> c_int,
    get_attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    load: unsafe extern "C" fn(*mut CudaModule, *const c_void) -> c_int,
    get_function: unsafe extern "C" fn(*mut *mut c_void, CudaModule, *const c_char) -> c_int,
    describe: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
}

/// A kernel of a loaded module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    driver: CudaDriver,
    function: *mut c_void,
}

// SAFETY: the driver's handles may be used by all threads.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// A value that is passed to a kernel by its bytes.
pub(super) trait Argument {
    fn place(&mut self) -> *mut c_void;
}

macro_rules! arguments {
    ($($kind:ty),*) => { $(impl Argument for $kind {
        fn place(&mut self) -> *mut c_void {
            std::ptr::from_mut(self).cast()
        }
    })* };
}
arguments!(i64, f32, *mut c_void);

impl CudaDriver {
    pub fn load() -> Result<Self, String> {
        let library = Library::load(Path::new(DRIVER))?;
        // SAFETY: the types are those of cuda.h.
        unsafe {
            Ok(Self {
                launch: library.function(c"cuLaunchKernel")?,
                get_device: library.function(c"cuCtxGetDevice")?,
                get_attribute: library.function(c"cuDeviceGetAttribute")?,
                load: library.function(c"cuModuleLoadData")?,
                get_function: library.function(c"cuModuleGetFunction")?,
                describe: library.function(c"cuGetErrorString")?,
            })
        }
    }

    fn check(&self, what: &str, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: the driver sets the pointer to a constant text, or to null for an unknown code.
        let text = unsafe {
            (self.describe)(code, &raw mut text);
            if text.is_null() { c"unknown error" } else { CStr::from_ptr(text) }
        };
        Err(format!("{what}: {} (CUDA error {code})", text.to_string_lossy()))
    }

    /// Compute capability of this thread's device, such as 90.
    pub fn capability(&self) -> Result<i32, String> {
        let (mut device, mut capability) = (0, [0; 2]);
        // SAFETY: the driver writes an integer to each place.
        unsafe {
            self.check("cannot find the GPU of the thread", (self.get_device)(&raw mut device))?;
            for (place, attribute) in capability.iter_mut().zip(CAPABILITY) {
                self.check("cannot read the GPU's capability", (self.get_attribute)(place, attribute, device))?;
            }
        }
        Ok(10 * capability[0] + capability[1])
    }

    /// Loads a compiled module for the rest of the process.
    pub fn module(&self, binary: &[u8]) -> Result<impl Fn(&str) -> Result<Kernel, String> + use<>, String> {
        let (driver, mut module) = (*self, std::ptr::null_mut());
        // SAFETY: the binary is a complete one, from NVRTC.
        let code = unsafe { (self.load)(&raw mut module, binary.as_ptr().cast()) };
        self.check("cannot load the kernels", code)?;
        Ok(move |name: &str| {
            let text = CString::new(name).map_err(|error| error.to_string())?;
            let mut function = std::ptr::null_mut();
            // SAFETY: the module is loaded, and the name is NUL-terminated.
            let code = unsafe { (driver.get_function)(&raw mut function, module, text.as_ptr()) };
            driver.check(&format!("cannot find the kernel {name}"), code)?;
            Ok(Kernel { driver, function })
        })
    }
}

impl Kernel {
    /// Starts the kernel on the default stream, on which libtorch works, after everything that was started before.
    ///
    /// # Safety
    /// The arguments must be those of the kernel, and pointers among them must be valid for what it reads and writes.
    pub unsafe fn launch(&self, blocks: i64, threads: u32, arguments: &mut [&mut dyn Argument]) -> Result<(), String> {
        if blocks == 0 {
            return Ok(());
        }
        let blocks = c_uint::try_from(blocks).map_err(|_| format!("cannot start {blocks} blocks"))?;
        let mut places: Vec<*mut c_void> = arguments.iter_mut().map(|argument| argument.place()).collect();
        let none = std::ptr::null_mut();
        // SAFETY: the caller answers for the arguments; the driver copies them before it returns.
        let code = unsafe {
            (self.driver.launch)(self.function, blocks, 1, 1, threads, 1, 1, 0, none, places.as_mut_ptr(), none.cast())
        };
        self.driver.check("cannot start a kernel", code)
    }
}
