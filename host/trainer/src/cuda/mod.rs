//! The project's own CUDA kernels, for what libtorch would compute as several operations over the same numbers: softmax
//! with what is read from it, its gradient, sampling, the parts of a generated token's layers between their products, and
//! the optimiser's update.
//!
//! `kernels.cu` is compiled when a GPU is opened. With `GYMKHANA_CUDA_KERNELS=0` in the environment, libtorch's
//! operations compute the same instead.
#![allow(non_snake_case)]

mod compiler;
mod driver;
mod generation;
pub(crate) mod library;

use std::ffi::c_void;
use std::sync::OnceLock;

use tch::{Device, Kind, TchError, Tensor};

use driver::{CudaDriver, Kernel};
pub(crate) use generation::{Heads, NewTokens};

/// Text of the kernels.
const SOURCE: &str = include_str!("kernels.cu");

/// Threads of a block, as in the source.
const THREADS: u32 = 512;

/// Blocks that add to one sum.
const MAX_BLOCKS: i64 = 1024;

/// Environment variable that, set to 0, leaves out the kernels.
const SWITCH: &str = "GYMKHANA_CUDA_KERNELS";

/// The process's kernels; `None` if they are switched off.
static KERNELS: OnceLock<Option<Kernels>> = OnceLock::new();

/// The kernels for numbers on a device; `None` for a processor, or if the kernels are switched off.
pub(crate) fn kernels(device: Device) -> Option<&'static Kernels> {
    if device.is_cuda() { KERNELS.get()?.as_ref() } else { None }
}

/// Compiles and loads the kernels for the GPU, once.
///
/// # Errors
/// If the compiler is missing, or the driver refuses the kernels.
pub(crate) fn load(device: Device) -> Result<(), String> {
    if KERNELS.get().is_some() {
        return Ok(());
    }
    let switched_off = std::env::var_os(SWITCH).is_some_and(|value| value == "0");
    let kernels = if switched_off { None } else { Some(Kernels::compile(device)?) };
    // Another thread may have been faster, with the same kernels.
    let _ = KERNELS.set(kernels);
    Ok(())
}

/// A kernel for each number format.
#[derive(Debug)]
struct KernelByFormat {
    float: Kernel,
    bfloat16: Kernel,
}

impl KernelByFormat {
    fn of(&self, kind: Kind) -> Result<&Kernel, TchError> {
        match kind {
            Kind::Float => Ok(&self.float),
            Kind::BFloat16 => Ok(&self.bfloat16),
            other => Err(TchError::Kind(format!("no kernel for numbers of {other:?}"))),
        }
    }
}

/// The loaded kernels.
#[derive(Debug)]
pub(crate) struct Kernels {
    log_probs: KernelByFormat,
    gradient: KernelByFormat,
    sample: KernelByFormat,
    add_norm: KernelByFormat,
    gated: KernelByFormat,
    rotate: KernelByFormat,
    attend: KernelByFormat,
    squares: Kernel,
    adamw: Kernel,
}

/// Numbers of the targets of some logits.
#[derive(Debug)]
pub(crate) struct TargetNumbers {
    /// Log-probabilities, logarithms of the sums of exponentials, and entropies, in nats, `[3, N]`.
    numbers_3N: Tensor,
}

impl TargetNumbers {
    /// Log-probability of each target in nats, `[N]`.
    pub fn log_probs_N(&self) -> Tensor {
        self.numbers_3N.get(0)
    }

    /// Entropy of each distribution in nats, `[N]`.
    pub fn entropies_N(&self) -> Tensor {
        self.numbers_3N.get(2)
    }
}

/// Factors of an update by AdamW.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Update {
    /// Factor of the gradient, from clipping its norm.
    pub shorten: f64,
    /// Weights of the gradient in the mean, and of its square in the mean of squares: 1 minus beta.
    pub new: [f64; 2],
    pub epsilon: f64,
    /// 1 minus the decay.
    pub keep: f64,
    /// Learning rate, divided by the correction of the mean's bias.
    pub rate: f64,
    /// Square root of the correction of the square's bias.
    pub deviation: f64,
}

impl Kernels {
    fn compile(device: Device) -> Result<Self, String> {
        // The first tensor makes the GPU's context that of this thread.
        let whole = |error: TchError| error.to_string().lines().next().unwrap_or_default().to_owned();
        let _ = Tensor::f_zeros([1], (Kind::Float, device)).map_err(whole)?;
        let driver = CudaDriver::load()?;
        let binary = compiler::compile(SOURCE, driver.capability()?)?;
        let kernel = driver.module(&binary)?;
        let by_kind = |name: &str| {
            Ok::<_, String>(KernelByFormat {
                float: kernel(&format!("{name}_float"))?,
                bfloat16: kernel(&format!("{name}_bfloat16"))?,
            })
        };
        Ok(Self {
            log_probs: by_kind("log_probs")?,
            gradient: by_kind("gradient")?,
            sample: by_kind("sample")?,
            add_norm: by_kind("add_norm")?,
            gated: by_kind("gated")?,
            rotate: by_kind("rotate")?,
            attend: by_kind("attend")?,
            squares: kernel("squares")?,
            adamw: kernel("adamw")?,
        })
    }

    /// Numbers of targets `[N]` under logits `[N, V]` divided by the temperature. The numbers of a target outside of the
    /// vocabulary are not numbers.
    ///
    /// # Errors
    /// If the shapes do not fit, or the kernel cannot be started.
    pub fn log_probs(
        &self,
        logits_NV: &Tensor,
        temperature: f64,
        targets_N: &Tensor,
    ) -> Result<TargetNumbers, TchError> {
        let [N, V] = rows_of(logits_NV)?;
        fits("targets", targets_N, N, Kind::Int64)?;
        let numbers_3N = Tensor::f_zeros([3, N], (Kind::Float, logits_NV.device()))?;
        let kernel = self.log_probs.of(logits_NV.kind())?;
        let (mut V, mut scale) = (V, temperature.recip() as f32);
        let [mut logits, mut targets, mut numbers] = [logits_NV, targets_N, &numbers_3N].map(address);
        // SAFETY: the tensors are contiguous, and have the kernel's shapes and number formats.
        unsafe { kernel.launch(N, THREADS, &mut [&mut logits, &mut V, &mut scale, &mut targets, &mut numbers]) }
            .map_err(TchError::Torch)?;
        Ok(TargetNumbers { numbers_3N })
    }

    /// Replaces the logits `[N, V]` by the gradient of a function of the targets' log-probabilities and entropies, given
    /// its gradient by them, `[N]` each. `numbers` are those of [`Kernels::log_probs`].
    ///
    /// # Errors
    /// If the shapes do not fit, or the kernel cannot be started.
    pub fn gradient(
        &self,
        logits_NV: &Tensor,
        temperature: f64,
        targets_N: &Tensor,
        numbers: &TargetNumbers,
        by_log_probs_N: &Tensor,
        by_entropies_N: Option<&Tensor>,
    ) -> Result<(), TchError> {
        let [N, V] = rows_of(logits_NV)?;
        fits("targets", targets_N, N, Kind::Int64)?;
        fits("numbers", &numbers.numbers_3N, 3 * N, Kind::Float)?;
        for by in std::iter::once(by_log_probs_N).chain(by_entropies_N) {
            fits("gradients", by, N, Kind::Float)?;
        }
        let kernel = self.gradient.of(logits_NV.kind())?;
        let (mut V, mut scale) = (V, temperature.recip() as f32);
        let [mut logits, mut targets, mut numbers, mut by_log_probs] =
            [logits_NV, targets_N, &numbers.numbers_3N, by_log_probs_N].map(address);
        let mut by_entropies = by_entropies_N.map_or(std::ptr::null_mut(), address);
        // SAFETY: the tensors are contiguous, and have the kernel's shapes and number formats.
        unsafe {
            let arguments: &mut [&mut dyn driver::Argument] = &mut [
                &mut logits,
                &mut V,
                &mut scale,
                &mut targets,
                &mut numbers,
                &mut by_log_probs,
                &mut by_entropies,
            ];
            kernel.launch(N, THREADS, arguments)
        }
        .map_err(TchError::Torch)
    }

    /// Samples a token for each row of logits `[R, V]`. `choices_3R` holds float64 numbers: factors of the logits, numbers
    /// in [0, 1) that the inverse of the cumulative distribution maps to tokens, and 1 for rows that take the most
    /// probable token. Returns tokens, log-probabilities and entropies, `[3, R]`, in float64.
    ///
    /// # Errors
    /// If the shapes do not fit, or the kernel cannot be started.
    pub fn sample(&self, logits_RV: &Tensor, choices_3R: &Tensor) -> Result<Tensor, TchError> {
        let [R, V] = rows_of(logits_RV)?;
        fits("choices", choices_3R, 3 * R, Kind::Double)?;
        let chosen_3R = Tensor::f_zeros([3, R], (Kind::Double, logits_RV.device()))?;
        let kernel = self.sample.of(logits_RV.kind())?;
        let mut V = V;
        let [mut logits, mut choices, mut chosen] = [logits_RV, choices_3R, &chosen_3R].map(address);
        // SAFETY: the tensors are contiguous, and have the kernel's shapes and number formats.
        unsafe { kernel.launch(R, THREADS, &mut [&mut logits, &mut V, &mut choices, &mut chosen]) }
            .map_err(TchError::Torch)?;
        Ok(chosen_3R)
    }

    /// Norm of all numbers of some float32 tensors.
    ///
    /// # Errors
    /// If a tensor has gaps, or the kernel cannot be started.
    pub fn norm<'a>(&self, tensors: impl Iterator<Item = &'a Tensor>, device: Device) -> Result<f64, TchError> {
        let sum = Tensor::f_zeros([1], (Kind::Double, device))?;
        let mut place = address(&sum);
        for tensor in tensors {
            let (mut numbers, mut count) = (address(tensor), tensor.numel() as i64);
            fits("gradients", tensor, count, Kind::Float)?;
            let blocks = (count / (16 * i64::from(THREADS))).clamp(1, MAX_BLOCKS);
            // SAFETY: the tensor is contiguous and has the kernel's number format.
            unsafe { self.squares.launch(blocks, THREADS, &mut [&mut numbers, &mut count, &mut place]) }
                .map_err(TchError::Torch)?;
        }
        Ok(sum.f_double_value(&[0])?.sqrt())
    }

    /// Updates parameters, means and squares by their gradients, `[N]` each, in float32.
    ///
    /// # Errors
    /// If the shapes do not fit, or the kernel cannot be started.
    pub fn adamw(
        &self,
        parameters: &Tensor,
        gradients: &Tensor,
        [means, squares]: [&Tensor; 2],
        update: &Update,
    ) -> Result<(), TchError> {
        let mut count = parameters.numel() as i64;
        for tensor in [parameters, gradients, means, squares] {
            fits("parameters", tensor, count, Kind::Float)?;
        }
        let [mut parameters, mut gradients, mut means, mut squares] =
            [parameters, gradients, means, squares].map(address);
        let Update { shorten, new: [new_mean, new_square], epsilon, keep, rate, deviation } = *update;
        let [mut shorten, mut new_mean, mut new_square, mut epsilon, mut keep, mut rate, mut deviation] =
            [shorten, new_mean, new_square, epsilon, keep, rate, deviation].map(|number| number as f32);
        let blocks = count.unsigned_abs().div_ceil(u64::from(THREADS)) as i64;
        // SAFETY: the tensors are contiguous, and have the kernel's shapes and number formats.
        unsafe {
            let arguments: &mut [&mut dyn driver::Argument] = &mut [
                &mut parameters,
                &mut gradients,
                &mut means,
                &mut squares,
                &mut count,
                &mut shorten,
                &mut new_mean,
                &mut new_square,
                &mut epsilon,
                &mut keep,
                &mut rate,
                &mut deviation,
            ];
            self.adamw.launch(blocks, THREADS, arguments)
        }
        .map_err(TchError::Torch)
    }
}

/// Size of a matrix on a GPU without gaps.
fn rows_of(logits_NV: &Tensor) -> Result<[i64; 2], TchError> {
    let (N, V) = logits_NV.size2()?;
    fits("logits", logits_NV, N * V, logits_NV.kind())?;
    Ok([N, V])
}

/// Refuses a tensor that a kernel cannot read as `count` numbers without gaps.
fn fits(what: &str, tensor: &Tensor, count: i64, kind: Kind) -> Result<(), TchError> {
    let plain = tensor.device().is_cuda() && tensor.is_contiguous() && tensor.kind() == kind;
    if plain && tensor.numel() as i64 == count {
        return Ok(());
    }
    Err(TchError::Shape(format!("{what} of a kernel: {count} numbers of {kind:?} expected, found {tensor:?}")))
}

/// Address of a tensor's numbers on the GPU.
fn address(tensor: &Tensor) -> *mut c_void {
    tensor.data_ptr()
}
