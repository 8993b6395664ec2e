//! Compilation of CUDA C++ by NVRTC, which every libtorch with CUDA brings along.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use super::library::{Library, loaded};

/// Beginnings of the names of NVRTC and of the library with its built-in functions, which it loads itself, but only from
/// the usual folders.
const NVRTC: &str = "libnvrtc.";
const BUILTINS: &str = "libnvrtc-builtins.";

/// Libraries beside one of which NVRTC lies: libtorch's own archive has it in its folder, its Python package in that of
/// CUDA's libraries.
const NEIGHBOURS: [&str; 3] = ["libtorch_cuda.so", "libcublas.so", "libcudart.so"];

type Program = *mut c_void;
type SizeOf = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type CopyOf = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// NVRTC's functions.
struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    log: (SizeOf, CopyOf),
    cubin: (SizeOf, CopyOf),
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    describe: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Nvrtc {
    fn load(folders: &[PathBuf]) -> Result<Self, String> {
        let path = find(folders, NVRTC);
        if let Some(builtins) = find(folders, BUILTINS) {
            Library::load(&builtins)?;
        }
        let library = Library::load(path.as_deref().unwrap_or(Path::new("libnvrtc.so")))?;
        // SAFETY: the types are those of nvrtc.h, the same in CUDA 11 to 13.
        unsafe {
            Ok(Self {
                create: library.function(c"nvrtcCreateProgram")?,
                compile: library.function(c"nvrtcCompileProgram")?,
                log: (library.function(c"nvrtcGetProgramLogSize")?, library.function(c"nvrtcGetProgramLog")?),
                cubin: (library.function(c"nvrtcGetCUBINSize")?, library.function(c"nvrtcGetCUBIN")?),
                destroy: library.function(c"nvrtcDestroyProgram")?,
                describe: library.function(c"nvrtcGetErrorString")?,
            })
        }
    }

    fn check(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NVRTC returns a constant text for every code.
        Err(unsafe { CStr::from_ptr((self.describe)(code)) }.to_string_lossy().into_owned())
    }

    /// A text or binary of a program.
    fn read(&self, program: Program, (size_of, copy): (SizeOf, CopyOf)) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the program exists, and the buffer has the size that NVRTC asks for.
        unsafe {
            self.check(size_of(program, &raw mut size))?;
            let mut bytes = vec![0_u8; size];
            self.check(copy(program, bytes.as_mut_ptr().cast()))?;
            Ok(bytes)
        }
    }

    fn compiled(&self, program: Program, architecture: &str) -> Result<Vec<u8>, String> {
        let options = [format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
        let options =
            options.map(CString::new).into_iter().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program exists, and the options are NUL-terminated texts that outlive the call.
        let code = unsafe { (self.compile)(program, pointers.len() as c_int, pointers.as_ptr()) };
        self.check(code).map_err(|error| {
            let log = self.read(program, self.log).unwrap_or_else(|error| error.into_bytes());
            format!("{error}: {}", String::from_utf8_lossy(&log).trim_end_matches('\0').trim())
        })?;
        self.read(program, self.cubin)
    }
}

/// A library in one of the folders, by the beginning of its name.
fn find(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    let files = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    // NVRTC's second variant, `libnvrtc.alt.so.13`, is for other drivers.
    let found = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(name) && file.contains(".so") && !file.contains(".alt.")
    };
    files.map(|file| file.path()).find(found)
}

/// Compiles a program for an architecture such as `sm_90`.
///
/// # Errors
/// If NVRTC is missing, or with its messages.
pub(super) fn compile(source: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let folders: Vec<PathBuf> =
        NEIGHBOURS.iter().filter_map(|name| Some(loaded(name)?.parent()?.to_path_buf())).collect();
    compile_with(&Nvrtc::load(&folders)?, source, architecture)
}

fn compile_with(nvrtc: &Nvrtc, source: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let source = CString::new(source).map_err(|error| error.to_string())?;
    let mut program: Program = std::ptr::null_mut();
    // SAFETY: the texts are NUL-terminated, and there are no headers.
    let created = unsafe {
        (nvrtc.create)(&raw mut program, source.as_ptr(), c"kernels.cu".as_ptr(), 0, std::ptr::null(), std::ptr::null())
    };
    nvrtc.check(created)?;
    let binary = nvrtc.compiled(program, architecture);
    // SAFETY: the program was created above and is not used afterwards.
    unsafe { (nvrtc.destroy)(&raw mut program) };
    binary
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles the kernels where the tests find an NVRTC: in the folder of `GYMKHANA_NVRTC`.
    #[test]
    fn kernels_compile_for_all_architectures() {
        let Some(folder) = std::env::var_os("GYMKHANA_NVRTC") else { return };
        let nvrtc = Nvrtc::load(&[PathBuf::from(folder)]).expect("NVRTC");
        for architecture in ["sm_75", "sm_80", "sm_90", "sm_100"] {
            let binary = compile_with(&nvrtc, super::super::SOURCE, architecture).expect("a binary");
            assert_eq!(&binary[1..4], b"ELF", "{architecture}");
        }
        let error = compile_with(&nvrtc, "__global__ void broken(", "sm_90").expect_err("not a program");
        assert!(error.contains("kernels.cu"), "{error}");
    }
}
