//! Libraries that are loaded at run time, and their functions.

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{self, RTLD_GLOBAL, RTLD_NOW};

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
        // SAFETY: the constructors are those of libtorch's CUDA part and of NVIDIA's libraries, which do the same in a
        // program that is linked with them.
        let library = unsafe { unix::Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        Ok(Self { handle: library.map_err(|error| message(&error))?.into_raw() })
    }

    /// A function of the library.
    ///
    /// # Errors
    /// If the library has no such symbol.
    ///
    /// # Safety
    /// `F` must be a pointer to a function of the symbol's type.
    pub unsafe fn function<F: Copy>(self, name: &CStr) -> Result<F, String> {
        // SAFETY: the handle is that of a library that stays loaded; it is given up again below.
        let library = unsafe { unix::Library::from_raw(self.handle) };
        // SAFETY: the caller answers for the type.
        let function = unsafe { library.get::<F>(name.to_bytes_with_nul()) }.map(|symbol| *symbol);
        let _ = library.into_raw();
        function.map_err(|error| message(&error))
    }
}

/// The loader's own words, which the error keeps as its source.
fn message(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
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
