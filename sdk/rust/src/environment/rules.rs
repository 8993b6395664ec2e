//! Rules that all environments share: seats in turn, offered functions alone, a final end.

use super::{Action, ResetResult, StepResult};
use crate::snapshot::{Reader, Writer};
use crate::{Error, Function};

/// State of an episode that its rules need.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Seat to move.
    seat: u32,
    over: bool,
    /// Offered functions, as pairs of seat and name.
    offered: Vec<(u32, String)>,
}

impl Rules {
    /// Rules of an episode that has started.
    pub fn of(result: &ResetResult) -> Self {
        let names = |seat: u32, functions: &[Function]| -> Vec<(u32, String)> {
            functions.iter().map(|function| (seat, function.name.clone())).collect()
        };
        let offered = result.functions.iter().flat_map(|offer| names(offer.seat, &offer.functions)).collect();
        Self { seat: result.next_seat, over: false, offered }
    }

    /// Checks that the episode is running, that the seat is to move and that its function was offered.
    pub fn check(&self, action: &Action) -> Result<(), Error> {
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
        Ok(())
    }

    /// Follows a step.
    pub fn follow(&mut self, result: &StepResult) {
        self.over = result.terminated || result.truncated;
        self.seat = result.next_seat;
    }

    /// Adds the rules to a snapshot.
    pub fn write(&self) -> Writer {
        let head = Writer::new().flag(self.over).integer(self.seat.into()).integer(self.offered.len() as u64);
        let offered = |writer: Writer, (seat, name): &(u32, String)| writer.integer((*seat).into()).text(name);
        self.offered.iter().fold(head, offered)
    }

    /// Reads the rules from a snapshot.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let over = reader.flag()?;
        let seat = read_seat(reader)?;
        let offered = (0..reader.integer()?)
            .map(|_| Ok((read_seat(reader)?, reader.text()?.to_owned())))
            .collect::<Result<_, Error>>()?;
        Ok(Self { seat, over, offered })
    }
}

fn read_seat(reader: &mut Reader<'_>) -> Result<u32, Error> {
    u32::try_from(reader.integer()?).map_err(|_| Error::bad_snapshot("a seat of the snapshot is out of range"))
}
