//! Compilation of CUDA C++ by NVRTC, which every libtorch with CUDA brings along.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use super::library::{Library, loaded};

/// Names of NVRTC and of the library with its built-in functions up to the version; NVRTC loads the latter itself, but
/// only from the usual folders.
const NVRTC: &str = "libnvrtc";
const BUILTINS: &str = "libnvrtc-builtins";

/// Names under which the system's loader may find NVRTC.
const USUAL: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// Libraries near one of which NVRTC lies: libtorch's own archive has it in its folder, the Python packages of CUDA 13 in
/// one folder with all libraries, and those of CUDA 12 in a folder of its own.
const NEIGHBOURS: [&str; 3] = ["libtorch_cuda.so", "libcublas", "libcudart"];

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
    supported: (unsafe extern "C" fn(*mut c_int) -> c_int, unsafe extern "C" fn(*mut c_int) -> c_int),
}

impl Nvrtc {
    fn load(folders: &[PathBuf]) -> Result<Self, String> {
        if let Some(builtins) = find(folders, BUILTINS) {
            Library::load(&builtins)?;
        }
        let paths = find(folders, NVRTC).into_iter().chain(USUAL.map(PathBuf::from));
        let mut found = Err("NVRTC was not found".to_owned());
        for path in paths {
            found = Library::load(&path);
            if found.is_ok() {
                break;
            }
        }
        let library = found?;
        // SAFETY: the types are those of nvrtc.h, the same in CUDA 11 to 13.
        unsafe {
            Ok(Self {
                create: library.function(c"nvrtcCreateProgram")?,
                compile: library.function(c"nvrtcCompileProgram")?,
                log: (library.function(c"nvrtcGetProgramLogSize")?, library.function(c"nvrtcGetProgramLog")?),
                cubin: (library.function(c"nvrtcGetCUBINSize")?, library.function(c"nvrtcGetCUBIN")?),
                destroy: library.function(c"nvrtcDestroyProgram")?,
                describe: library.function(c"nvrtcGetErrorString")?,
                supported: (
                    library.function(c"nvrtcGetNumSupportedArchs")?,
                    library.function(c"nvrtcGetSupportedArchs")?,
                ),
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

    /// Compute capabilities that it compiles for, such as 90.
    fn supported(&self) -> Result<Vec<i32>, String> {
        let (count_of, list) = self.supported;
        let mut count = 0;
        // SAFETY: NVRTC writes as many numbers as it has counted.
        unsafe {
            self.check(count_of(&raw mut count))?;
            let mut all = vec![0; usize::try_from(count).unwrap_or(0)];
            self.check(list(all.as_mut_ptr()))?;
            Ok(all)
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

/// A library in one of the folders, by the name before its version or before the checksum that libtorch's archive adds.
fn find(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    let files = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    files
        .map(|file| file.path())
        .find(|path| is_version_of(name, &path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Whether a file name is the library's, such as `NAME.so.13` or `NAME-b51b459d.so.12`. `NAME.alt.so.13` is a variant for
/// other drivers.
fn is_version_of(name: &str, file: &str) -> bool {
    let Some(rest) = file.strip_prefix(name) else { return false };
    let rest =
        rest.strip_prefix('-').map_or(rest, |rest| rest.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
    rest == ".so" || rest.starts_with(".so.")
}

/// Folders in which NVRTC may lie, near the libraries that the process has loaded.
fn folders() -> Vec<PathBuf> {
    let own = NEIGHBOURS.iter().filter_map(|name| Some(loaded(name)?.parent()?.to_path_buf()));
    own.flat_map(|folder| near(&folder)).collect()
}

/// A folder, and those beside it: `…/nvidia/NAME/lib` for `…/nvidia/cublas/lib` and for `…/torch/lib`.
fn near(folder: &Path) -> Vec<PathBuf> {
    let above = folder.parent().and_then(Path::parent);
    let packages = above.into_iter().flat_map(|above| [above.to_path_buf(), above.join("nvidia")]);
    let beside = packages.filter_map(|packages| packages.read_dir().ok()).flatten().flatten();
    std::iter::once(folder.to_path_buf()).chain(beside.map(|package| package.path().join("lib"))).collect()
}

/// The architecture to compile for: that of the GPU, or the newest one that it also runs.
fn architecture(own: i32, supported: &[i32]) -> String {
    let runs = supported.iter().copied().filter(|known| *known <= own && known / 10 == own / 10);
    format!("sm_{}", runs.max().unwrap_or(own))
}

/// Compiles a program for a GPU of a compute capability such as 90.
///
/// # Errors
/// If NVRTC is missing, or with its messages.
pub(super) fn compile(source: &str, capability: i32) -> Result<Vec<u8>, String> {
    let nvrtc = Nvrtc::load(&folders())?;
    let architecture = architecture(capability, &nvrtc.supported()?);
    compile_with(&nvrtc, source, &architecture)
}

fn compile_with(nvrtc: &Nvrtc, source: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let source = CString::new(source).map_err(|error| error.to_string())?;
    let mut program: Program = std::ptr::null_mut();
    // SAFETY: the texts are NUL-terminated, and the lists of headers are empty.
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

    /// File names of PyTorch's packages for CUDA 12 and 13 and of its archive.
    #[test]
    fn nvrtc_is_found_where_libtorch_has_it() {
        for (name, file, is) in [
            (NVRTC, "libnvrtc.so.13", true),
            (NVRTC, "libnvrtc-b51b459d.so.12", true),
            (NVRTC, "libnvrtc.alt.so.13", false),
            (NVRTC, "libnvrtc-builtins.so.13.0", false),
            (NVRTC, "libnvrtc-builtins.alt.so.13.0", false),
            (NVRTC, "libcublas.so.13", false),
            (BUILTINS, "libnvrtc-builtins.so.13.0", true),
            (BUILTINS, "libnvrtc-builtins-07fb3db5.so.12.6", true),
            (BUILTINS, "libnvrtc-builtins.alt.so.13.0", false),
        ] {
            assert_eq!(is_version_of(name, file), is, "{file}");
        }
        let site = tempfile::tempdir().expect("a folder");
        for part in ["torch/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cublas/lib"] {
            std::fs::create_dir_all(site.path().join(part)).expect("a folder");
        }
        let library = site.path().join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        std::fs::write(&library, "").expect("a file");
        for part in ["torch/lib", "nvidia/cublas/lib", "nvidia/cuda_nvrtc/lib"] {
            assert_eq!(find(&near(&site.path().join(part)), NVRTC), Some(library.clone()), "{part}");
        }
    }

    #[test]
    fn a_newer_gpu_gets_the_code_of_an_older_one_of_its_generation() {
        let supported = [75, 80, 86, 90, 120];
        for (own, chosen) in [(90, "sm_90"), (89, "sm_86"), (121, "sm_120"), (103, "sm_103")] {
            assert_eq!(architecture(own, &supported), chosen);
        }
    }

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
