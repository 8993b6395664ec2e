//! Moving average of the trained weights, which a checkpoint holds as a model of its own.

use tch::TchError;

use crate::TrainerError;
use crate::model::Model;
use crate::parameters::Parameters;

/// Moving average of the trained weights: the adapters if there are any, else all weights.
#[derive(Debug, Default)]
pub(crate) struct Average {
    /// The average, or the weights themselves while [`Average::exchange`] has put the average in their place. Absent
    /// before the first optimiser step of a stage that averages.
    parameters: Option<Parameters>,
    is_exchanged: bool,
}

impl Average {
    /// The averaged parameters, if there are any.
    pub fn parameters(&self) -> Option<&Parameters> {
        self.parameters.as_ref()
    }

    /// Starts at the model's weights, unless it has begun.
    ///
    /// # Errors
    /// If libtorch cannot allocate the copy.
    pub fn begin(&mut self, model: &Model) -> Result<(), TrainerError> {
        if self.parameters.is_none() {
            self.parameters = Some(model.trained_copy()?);
        }
        Ok(())
    }

    /// Moves towards the weights after an optimiser step.
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn follow(&mut self, model: &Model, decay: f64) -> Result<(), TrainerError> {
        let Some(parameters) = &mut self.parameters else { return Ok(()) };
        parameters.approach(model.trained(), 1.0 - decay).map_err(torch())
    }

    /// Replaces the model's weights by the average if `average`, else restores them. Returns whether the
    /// model changed.
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn exchange(&mut self, model: &mut Model, average: bool) -> Result<bool, TrainerError> {
        let Some(parameters) = self.parameters.as_mut().filter(|_| self.is_exchanged != average) else {
            return Ok(false);
        };
        model.trained_mut().exchange(parameters).map_err(torch())?;
        self.is_exchanged = average;
        Ok(true)
    }
}

fn torch() -> impl FnOnce(TchError) -> TrainerError {
    TrainerError::torch("averaged the weights")
}
