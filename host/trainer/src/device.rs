//! Device of a model. The program is linked with the CPU part of libtorch only. The CUDA part is loaded at run time, so
//! that one binary runs on machines with and without it.

use gymkhana_algorithm::{Accelerator, Precision};
use tch::{Cuda, Device, Kind};

use crate::TrainerError;
use crate::cuda;
use crate::cuda::library::{Library, loaded};

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
            let library = loaded(CPU_LIBRARY).map(|cpu| cpu.with_file_name(CUDA_LIBRARY));
            let library = library.ok_or_else(|| unusable(format!("{CPU_LIBRARY} is not loaded")))?;
            if !library.is_file() {
                return Err(unusable(format!("`{}` is missing", library.display())));
            }
            // It registers itself with the loaded CPU part.
            Library::load(&library).map_err(unusable)?;
            // Queried only after the load, because libtorch caches a negative answer.
            if !Cuda::is_available() {
                return Err(unusable("libtorch finds no GPU".to_owned()));
            }
            let device = Device::Cuda(0);
            cuda::load(device).map_err(|problem| TrainerError::Kernels { problem })?;
            Ok(device)
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
