//! Episode with the rules that all environments share: valid options, seats in turn, a final end.

use super::{Action, Environment, Snapshot, Split, Started, Stepped};
use crate::snapshot::{Reader, Writer};
use crate::{Error, NamedValue, Options, Task};

/// Episode with the checks that the host relies on, also for use in native tests.
#[derive(Debug)]
pub struct Episode<E> {
    environment: E,
    /// Seat to move.
    seat: u32,
    over: bool,
    /// Offered functions, as pairs of seat and name.
    offered: Vec<(u32, String)>,
}

impl<E: Environment> Episode<E> {
    /// Splits under these options.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for invalid options.
    pub fn splits(options: Vec<NamedValue>) -> Result<Vec<Split>, Error> {
        E::splits(&Options::new(&E::info().options, options)?)
    }

    /// Starts an episode.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for invalid options, and the environment's own errors.
    pub fn start(task: &Task, options: Vec<NamedValue>, seed: u64) -> Result<(Self, Started), Error> {
        let options = Options::new(&E::info().options, options)?;
        let (environment, started) = E::start(task, &options, seed)?;
        let names = |seat: u32, functions: &[crate::Function]| -> Vec<(u32, String)> {
            functions.iter().map(|function| (seat, function.name.clone())).collect()
        };
        let offered = started.functions.iter().flat_map(|offer| names(offer.seat, &offer.functions)).collect();
        Ok((Self { environment, seat: started.seat, over: false, offered }, started))
    }

    /// Applies an action.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] after the end of the episode or if another seat is to move, [`Error::NotFound`] for a call of
    /// a function that was not offered, and the environment's own errors.
    pub fn step(&mut self, action: Action) -> Result<Stepped, Error> {
        if self.over {
            return Err(Error::invalid("the episode is over: start another"));
        }
        if action.seat != self.seat {
            return Err(Error::Invalid(format!("it is the turn of seat {}, not of seat {}", self.seat, action.seat)));
        }
        if let Some(call) = action.call()
            && !self.offered.iter().any(|(seat, name)| (*seat, name) == (action.seat, &call.name))
        {
            return Err(Error::NotFound(format!("function `{}` was not offered to seat {}", call.name, action.seat)));
        }
        let stepped = self.environment.step(action)?;
        self.over = stepped.terminated || stepped.truncated;
        self.seat = stepped.seat;
        Ok(stepped)
    }

    /// State of the environment.
    #[must_use]
    pub fn environment(&self) -> &E {
        &self.environment
    }
}

impl<E: Snapshot> Episode<E> {
    /// Complete state.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        let head = Writer::new().flag(self.over).integer(self.seat.into()).integer(self.offered.len() as u64);
        let offered = |writer: Writer, (seat, name): &(u32, String)| writer.integer((*seat).into()).text(name);
        self.offered.iter().fold(head, offered).bytes(&self.environment.snapshot()).finish()
    }

    /// Episode with the state of a snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for invalid bytes.
    pub fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let over = reader.flag()?;
        let seat = read_seat(&mut reader)?;
        let offered = (0..reader.integer()?)
            .map(|_| Ok((read_seat(&mut reader)?, reader.text()?.to_owned())))
            .collect::<Result<_, Error>>()?;
        let environment = E::restore(reader.bytes()?)?;
        reader.end()?;
        Ok(Self { environment, seat, over, offered })
    }
}

fn read_seat(reader: &mut Reader<'_>) -> Result<u32, Error> {
    u32::try_from(reader.integer()?).map_err(|_| Error::bad_snapshot("a seat of the snapshot is out of range"))
}
