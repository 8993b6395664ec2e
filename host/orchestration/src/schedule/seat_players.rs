//! Players of an episode's seats.

use gymkhana_rollout::SeatPlayer;

/// Policies of the seats, shared by all episodes in flight.
pub trait SeatPlayers: Send + Sync + 'static {
    /// Player of each seat.
    fn players(&self) -> Vec<SeatPlayer<'_>>;
}
