//! Libraries that are loaded at run time, and their functions.

use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};

/// A loaded library; it stays loaded until the process ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library {
    handle: *mut c_void,
}

impl Library {
    /// Loads a library by its path, or by its name from the usual folders, and runs its constructors. Its symbols become
    /// those of the process.
    ///
    /// # Errors
    /// With the loader's message.
    pub fn load(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the path is NUL-terminated. The constructors are those of libtorch's CUDA part and of NVIDIA's
        // libraries, which do the same in a program that is linked with them.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            Err(message().unwrap_or_else(|| format!("cannot load `{}`", path.display())))
        } else {
            Ok(Self { handle })
        }
    }

    /// A function of the library.
    ///
    /// # Errors
    /// If the library has no such symbol.
    ///
    /// # Safety
    /// `F` must be a pointer to a function of the symbol's type.
    pub unsafe fn function<F: Copy>(self, name: &CStr) -> Result<F, String> {
        // SAFETY: the handle is that of a loaded library, and the name is NUL-terminated.
        let symbol = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if symbol.is_null() || size_of::<F>() != size_of::<*mut c_void>() {
            return Err(message().unwrap_or_else(|| format!("the function {} is missing", name.to_string_lossy())));
        }
        // SAFETY: the caller answers for the type, and the size is that of a pointer.
        Ok(unsafe { std::mem::transmute_copy(&symbol) })
    }
}

/// Description of this thread's last failure of the loader.
fn message() -> Option<String> {
    // SAFETY: the text belongs to libc and is valid until this thread's next call of a `dl` function.
    let message = unsafe { libc::dlerror().as_ref().map(|message| CStr::from_ptr(message)) };
    message.map(|message| message.to_string_lossy().into_owned())
}

/// Path of a library that this process has loaded, by the beginning of its file name.
pub(crate) fn loaded(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    paths
        .into_iter()
        .find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)))
        .map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_loaded_libraries_are_found_and_others_refused() {
        let library = Library::load(Path::new("libm.so.6")).expect("the library of the C standard");
        // SAFETY: `cos` of the C standard takes and returns a double.
        let cos: extern "C" fn(f64) -> f64 = unsafe { library.function(c"cos") }.expect("a function");
        assert_eq!(cos(0.0), 1.0);
        // SAFETY: as above; the library lacks this function.
        let missing: Result<extern "C" fn(f64) -> f64, String> = unsafe { library.function(c"cosinus") };
        assert!(missing.is_err_and(|error| error.contains("cosinus")));
        assert!(Library::load(Path::new("/none/libnone.so")).is_err_and(|error| error.contains("libnone")));
        assert!(loaded("libtorch_cpu.so").is_some_and(|path| path.is_absolute()) && loaded("libnone").is_none());
    }
}
