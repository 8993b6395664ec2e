//! Device of a model. The program is linked with the CPU part of libtorch only. The CUDA part is loaded at run time, so
//! that one binary runs on machines with and without it.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use gymkhana_algorithm::{Accelerator, Precision};
use tch::{Cuda, Device, Kind};

use crate::TrainerError;

const CPU_LIBRARY: &str = "libtorch_cpu.so";
const CUDA_LIBRARY: &str = "libtorch_cuda.so";

/// Device of libtorch, ready for use.
///
/// # Errors
/// If the device is a GPU, and this libtorch has no CUDA part or finds no usable GPU.
pub(crate) fn open(accelerator: Accelerator) -> Result<Device, TrainerError> {
    match accelerator {
        Accelerator::Cpu => Ok(Device::Cpu),
        Accelerator::Cuda => {
            let library = beside_loaded(CPU_LIBRARY).map(|cpu| cpu.with_file_name(CUDA_LIBRARY));
            let library = library.ok_or_else(|| unusable(format!("{CPU_LIBRARY} is not loaded")))?;
            load(&library)?;
            // Queried only after the load, because libtorch caches a negative answer.
            if Cuda::is_available() { Ok(Device::Cuda(0)) } else { Err(unusable("libtorch finds no GPU".to_owned())) }
        }
    }
}

/// Number format of libtorch.
pub(crate) fn kind(precision: Precision) -> Kind {
    match precision {
        Precision::Float32 => Kind::Float,
        Precision::Bfloat16 => Kind::BFloat16,
    }
}

fn unusable(problem: String) -> TrainerError {
    TrainerError::Device { problem }
}

/// Path of a library that this process has loaded.
fn beside_loaded(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    paths.map(Path::new).find(|path| path.file_name().is_some_and(|file| file == name)).map(Path::to_path_buf)
}

/// Loads the CUDA part of libtorch for the rest of the process. It registers itself with the loaded CPU part.
fn load(library: &Path) -> Result<(), TrainerError> {
    if !library.is_file() {
        return Err(unusable(format!("`{}` is missing", library.display())));
    }
    let path = CString::new(library.as_os_str().as_encoded_bytes()).map_err(|error| unusable(error.to_string()))?;
    // SAFETY: the path is NUL-terminated, and the library is the counterpart of the loaded CPU part; its constructors
    // do the same as in a program that is linked with it.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        // SAFETY: the text belongs to libc and is valid until this thread's next call of a `dl` function.
        let message = unsafe { libc::dlerror().as_ref().map(|message| std::ffi::CStr::from_ptr(message)) };
        let message = message.map(|message| message.to_string_lossy().into_owned());
        return Err(unusable(message.unwrap_or_else(|| format!("`{}` cannot be loaded", library.display()))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_libtorch_without_cuda_is_refused_with_a_hint() {
        let Err(error) = open(Accelerator::Cuda) else { return };
        assert!(error.to_string().contains("LIBTORCH"), "{error}");
        assert!(error.to_string().contains("cuda") || error.to_string().contains("GPU"), "{error}");
        assert_eq!(open(Accelerator::Cpu).expect("there is always one"), Device::Cpu);
    }
}
