//! A model's tensors by name. Trained ones are views of one flat buffer.
//!
//! With one buffer, the optimiser, the gradient norm and copies need a handful of operations, whatever the number of
//! tensors. Tensors that are not trained may have a number format each.

use gymkhana_algorithm::ParameterKind;
use tch::{Device, Kind, TchError, Tensor, no_grad_guard};

/// Alignment of views in elements: for vector code, and the size of the blocks of an optimiser's coded state.
pub(crate) const ALIGNMENT: i64 = 256;

/// Position of a tensor in the flat buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TensorPosition {
    name: String,
    shape: Vec<i64>,
    offset: i64,
}

/// Part of the flat buffer within a parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParameterSlice {
    pub offset: i64,
    pub length: i64,
}

/// Gradient of one parameter.
#[derive(Debug)]
pub(crate) struct Gradient {
    /// Offset of the parameter in the flat buffer.
    pub offset: i64,
    /// Kind of the parameter.
    pub kind: ParameterKind,
    /// The gradient, `[N]`.
    pub values: Tensor,
}

impl TensorPosition {
    fn kind(&self) -> ParameterKind {
        let kinds = [
            ("embed_tokens.weight", ParameterKind::Embeddings),
            ("lm_head.weight", ParameterKind::OutputLayer),
            ("lora_A.weight", ParameterKind::LoraA),
            ("lora_B.weight", ParameterKind::LoraB),
            ("value_head.weight", ParameterKind::ValueHead),
            (".bias", ParameterKind::Biases),
        ];
        let named = kinds.into_iter().find(|(ending, _)| self.name.ends_with(ending)).map(|(_, kind)| kind);
        // The only vectors that are not biases are the scales of norms.
        named.unwrap_or(if self.shape.len() > 1 { ParameterKind::Matrices } else { ParameterKind::Norms })
    }

    fn view(&self, flat: &Tensor) -> Result<Tensor, TchError> {
        flat.f_narrow(0, self.offset, self.shape.iter().product())?.f_view(&self.shape[..])
    }
}

/// Named tensors.
#[derive(Debug)]
pub struct Parameters {
    places: Vec<TensorPosition>,
    /// All values in float32, `[N]`; empty if the tensors are frozen.
    flat: Tensor,
    tensors: Vec<Tensor>,
}

/// Positions of tensors in the flat buffer, and its size.
fn places(shapes: &[(String, Vec<i64>)]) -> (Vec<TensorPosition>, i64) {
    let mut places = Vec::with_capacity(shapes.len());
    let mut offset = 0;
    for (name, shape) in shapes {
        places.push(TensorPosition { name: name.clone(), shape: shape.clone(), offset });
        let size: i64 = shape.iter().product();
        offset += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    (places, offset)
}

impl Parameters {
    /// Trainable float32 tensors of these names and shapes, all zero.
    ///
    /// # Errors
    /// If libtorch cannot allocate them.
    pub fn zeros(shapes: &[(String, Vec<i64>)], device: Device) -> Result<Self, TchError> {
        let (places, size) = places(shapes);
        Self::over(places, Tensor::f_zeros([size], (Kind::Float, device))?, true)
    }

    /// Tensors of these names and shapes that are never trained, all zero. `kind` is the number format of a tensor.
    ///
    /// # Errors
    /// If libtorch cannot allocate them.
    pub fn frozen(
        shapes: &[(String, Vec<i64>)],
        device: Device,
        kind: impl Fn(&str, &[i64]) -> Kind,
    ) -> Result<Self, TchError> {
        let (places, _) = places(shapes);
        let zeros =
            |place: &TensorPosition| Tensor::f_zeros(&place.shape[..], (kind(&place.name, &place.shape), device));
        let tensors = places.iter().map(zeros).collect::<Result<_, _>>()?;
        Ok(Self { places, flat: Tensor::f_zeros([0], (Kind::Float, device))?, tensors })
    }

    fn over(places: Vec<TensorPosition>, flat: Tensor, trainable: bool) -> Result<Self, TchError> {
        let tensors = places
            .iter()
            .map(|place| place.view(&flat)?.f_detach()?.f_set_requires_grad(trainable))
            .collect::<Result<_, _>>()?;
        Ok(Self { places, flat, tensors })
    }

    /// A copy of trainable tensors that follows them without gradients, such as a moving average.
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub(crate) fn copy(&self) -> Result<Self, TchError> {
        let _guard = no_grad_guard();
        Self::over(self.places.clone(), self.flat.copy(), false)
    }

    /// A copy that is never trained. `kind` is the number format of a tensor.
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub(crate) fn frozen_copy(&self, kind: impl Fn(&str, &[i64]) -> Kind) -> Result<Self, TchError> {
        let _guard = no_grad_guard();
        let copy = |(place, tensor): (&TensorPosition, &Tensor)| {
            tensor.f_detach()?.f_to_dtype(kind(&place.name, &place.shape), false, true)
        };
        let tensors = self.places.iter().zip(&self.tensors).map(copy).collect::<Result<_, _>>()?;
        Ok(Self { places: self.places.clone(), flat: Tensor::f_zeros([0], (Kind::Float, self.device()))?, tensors })
    }

    /// Moves every value towards that of another copy: `share` 0 changes nothing, and 1 takes the other's values.
    ///
    /// # Errors
    /// If the sizes differ.
    pub(crate) fn approach(&mut self, other: &Self, share: f64) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        self.flat.f_lerp_(&other.flat, share).map(drop)
    }

    /// Exchanges all values with those of another copy.
    ///
    /// # Errors
    /// If the sizes differ.
    pub(crate) fn exchange(&mut self, other: &mut Self) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        let own = self.flat.copy();
        self.flat.f_copy_(&other.flat)?;
        other.flat.f_copy_(&own)
    }

    /// Tensor of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        let index = self.places.iter().position(|place| place.name == name)?;
        Some(&self.tensors[index])
    }

    /// Names and tensors in their fixed order.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.places.iter().map(|place| place.name.as_str()).zip(&self.tensors)
    }

    /// Number of elements.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.places.iter().map(|place| place.shape.iter().product::<i64>()).sum()
    }

    /// Overwrites one tensor's values.
    ///
    /// # Errors
    /// If the name is unknown, or the shape differs.
    pub fn set(&self, name: &str, values: &Tensor) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        let tensor = self.get(name).ok_or_else(|| TchError::Shape(format!("unknown tensor `{name}`")))?;
        if tensor.size() != values.size() {
            let problem = format!("`{name}` has shape {:?}, but the values have {:?}", tensor.size(), values.size());
            return Err(TchError::Shape(problem));
        }
        tensor.shallow_clone().f_copy_(values)
    }

    /// Device of the tensors.
    pub(crate) fn device(&self) -> Device {
        self.flat.device()
    }

    /// The whole buffer of trainable tensors, `[N]`, including gaps between them.
    pub(crate) fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// Gradients of the last backward passes.
    pub(crate) fn gradients(&self) -> Result<Vec<Gradient>, TchError> {
        let _guard = no_grad_guard();
        let mut gradients = Vec::with_capacity(self.places.len());
        for (place, tensor) in self.places.iter().zip(&self.tensors) {
            let gradient = tensor.f_grad()?;
            if gradient.defined() {
                let values = gradient.f_reshape([-1])?;
                gradients.push(Gradient { offset: place.offset, kind: place.kind(), values });
            }
        }
        Ok(gradients)
    }

    /// Drops gradients. New handles of the same data make the next backward pass store its gradients instead of adding
    /// them to zeros.
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn forget_gradients(&mut self) -> Result<(), TchError> {
        for (place, tensor) in self.places.iter().zip(&mut self.tensors) {
            *tensor = place.view(&self.flat)?.f_detach()?.f_set_requires_grad(tensor.requires_grad())?;
        }
        Ok(())
    }

    /// The parameters in the flat buffer.
    pub(crate) fn parts(&self) -> impl Iterator<Item = ParameterSlice> {
        self.places.iter().map(|place| ParameterSlice { offset: place.offset, length: place.shape.iter().product() })
    }

    /// Named views of a buffer with one number for each block of the flat buffer.
    pub(crate) fn blocks_of(&self, flat: &Tensor, block: i64) -> Result<Vec<(String, Tensor)>, TchError> {
        let view = |place: &TensorPosition| {
            let count = (place.shape.iter().product::<i64>() + block - 1) / block;
            Ok((place.name.clone(), flat.f_narrow(0, place.offset / block, count)?))
        };
        self.places.iter().map(view).collect()
    }

    /// Named views of another buffer with this layout, such as an optimiser's moments.
    pub(crate) fn views_of(&self, flat: &Tensor) -> Result<Vec<(String, Tensor)>, TchError> {
        self.places.iter().map(|place| Ok((place.name.clone(), place.view(flat)?))).collect()
    }
}
