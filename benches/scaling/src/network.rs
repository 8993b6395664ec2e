//! A network of queues: processes pass through stations, whose servers take them in the order of their arrival.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// A station of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StationId(usize);

/// A process of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(usize);

/// Part of a process: a time at stations, or a delay that needs none.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Stations of which it needs a server each, taken in this order; none for a delay.
    stations: Vec<StationId>,
    /// Time, without the time in queues.
    seconds: f64,
}

impl Phase {
    /// Work at a station.
    #[must_use]
    pub fn at(station: StationId, seconds: f64) -> Self {
        Self { stations: vec![station], seconds }
    }

    /// Work that needs a server of several stations at once, such as a thread and a core. Phases that share stations name
    /// them in the same order.
    #[must_use]
    pub fn at_all(stations: &[StationId], seconds: f64) -> Self {
        Self { stations: stations.to_vec(), seconds }
    }

    /// A delay, such as an answer of another machine.
    #[must_use]
    pub fn delay(seconds: f64) -> Self {
        Self { stations: vec![], seconds }
    }

    /// Whether it takes no time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seconds <= 0.0
    }
}

#[derive(Debug)]
struct Station {
    free: usize,
    servers: usize,
    queue: VecDeque<ProcessId>,
    /// Time that servers have worked, of all together.
    worked: f64,
}

/// The end of a phase.
#[derive(Debug, PartialEq)]
struct Event {
    time: f64,
    /// Breaks ties in the order of their making.
    number: u64,
    process: ProcessId,
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The earliest event is the greatest, since the heap gives out the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.number.cmp(&self.number))
    }
}

/// A process in its current phase.
#[derive(Debug)]
struct Process {
    /// Phases that it has before it, the next one last.
    phases: Vec<Phase>,
    current: Phase,
    /// Stations of the current phase of which it has a server.
    taken: usize,
}

/// Stations, the processes in them, and the time.
#[derive(Debug, Default)]
pub struct Network {
    now: f64,
    stations: Vec<Station>,
    processes: Vec<Process>,
    events: BinaryHeap<Event>,
    events_made: u64,
}

impl Network {
    /// Adds a station with this number of servers.
    pub fn station(&mut self, servers: usize) -> StationId {
        self.stations.push(Station { free: servers, servers, queue: VecDeque::new(), worked: 0.0 });
        StationId(self.stations.len() - 1)
    }

    /// Starts a process with these phases. A process without phases ends at once.
    pub fn start(&mut self, mut phases: Vec<Phase>) -> ProcessId {
        phases.reverse();
        let current = phases.pop().unwrap_or(Phase::delay(0.0));
        self.processes.push(Process { phases, current, taken: 0 });
        let process = ProcessId(self.processes.len() - 1);
        self.go_on(process);
        process
    }

    /// Lets the time pass until a process has ended; `None` if there is none.
    pub fn next_end(&mut self) -> Option<ProcessId> {
        while let Some(Event { time, process, .. }) = self.events.pop() {
            self.now = time;
            let state = &mut self.processes[process.0];
            let next = state.phases.pop();
            let ended = std::mem::replace(&mut state.current, next.clone().unwrap_or(Phase::delay(0.0)));
            state.taken = 0;
            ended.stations.into_iter().for_each(|station| self.release(station));
            if next.is_none() {
                return Some(process);
            }
            self.go_on(process);
        }
        None
    }

    /// The time in seconds.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Share of the time in which a server of the station worked, from 0 to 1.
    #[must_use]
    pub fn utilisation(&self, station: StationId) -> f64 {
        let Station { worked, servers, .. } = &self.stations[station.0];
        worked / (*servers as f64 * self.now)
    }

    /// Takes the servers that the current phase needs, or waits for one of them; begins the phase when it has all.
    fn go_on(&mut self, process: ProcessId) {
        let Process { current, taken, .. } = &mut self.processes[process.0];
        while let Some(StationId(index)) = current.stations.get(*taken) {
            let station = &mut self.stations[*index];
            if station.free == 0 {
                return station.queue.push_back(process);
            }
            station.free -= 1;
            *taken += 1;
        }
        for StationId(index) in &current.stations {
            self.stations[*index].worked += current.seconds;
        }
        self.events_made += 1;
        self.events.push(Event { time: self.now + current.seconds, number: self.events_made, process });
    }

    /// Hands a server to the process that waits longest.
    fn release(&mut self, StationId(index): StationId) {
        match self.stations[index].queue.pop_front() {
            Some(next) => {
                self.processes[next.0].taken += 1;
                self.go_on(next);
            }
            None => self.stations[index].free += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Seed, Stream};

    use super::*;

    /// A time with this mean and an exponential distribution.
    fn random(mean: f64, stream: &mut Stream) -> f64 {
        -mean * (1.0 - stream.unit()).ln()
    }

    /// Ends per second of `count` processes that each wait a mean time and then need one server for a mean time, again
    /// and again; and the share of the time in which the server works.
    fn closed(count: u32, ends: u32, mut wait: impl FnMut() -> f64, mut work: impl FnMut() -> f64) -> (f64, f64) {
        let mut network = Network::default();
        let server = network.station(1);
        let mut round = |network: &mut Network| {
            network.start(vec![Phase::delay(wait()), Phase::at(server, work())]);
        };
        (0..count).for_each(|_| round(&mut network));
        for _ in 0..ends {
            network.next_end().unwrap();
            round(&mut network);
        }
        (f64::from(ends) / network.now(), network.utilisation(server))
    }

    /// The probability that the server of M/M/1//N is idle: 1 / Σ N!/(N-n)! (work/wait)^n.
    fn idle(count: u32, wait: f64, work: f64) -> f64 {
        let mut term = 1.0;
        let terms = (0..count).map(|in_system| {
            term *= f64::from(count - in_system) * work / wait;
            term
        });
        1.0 / (1.0 + terms.sum::<f64>())
    }

    #[test]
    fn random_times_give_the_throughput_of_the_closed_formula() {
        for (count, wait, work) in [(1, 10.0, 1.0), (5, 10.0, 1.0), (10, 10.0, 1.0), (30, 10.0, 1.0)] {
            let (mut waits, mut works) = (Seed(1).stream(), Seed(2).stream());
            let (rate, utilisation) = closed(count, 200_000, || random(wait, &mut waits), || random(work, &mut works));
            let expected = 1.0 - idle(count, wait, work);
            assert!((utilisation / expected - 1.0).abs() < 0.01, "{count}: {utilisation} is not {expected}");
            // The utilisation law: the share is the rate times the work.
            assert!((rate * work / expected - 1.0).abs() < 0.01, "{count}: {rate}");
        }
    }

    #[test]
    fn fixed_times_give_the_bounds_of_the_utilisation_law() {
        for (count, expected) in [(1, 1.0 / 11.0), (5, 5.0 / 11.0), (11, 1.0), (40, 1.0)] {
            let (rate, _) = closed(count, 20_000, || 10.0, || 1.0);
            assert!((rate / expected - 1.0).abs() < 0.01, "{count}: {rate} is not {expected}");
        }
    }

    #[test]
    fn a_station_serves_in_the_order_of_arrival_by_all_its_servers() {
        let mut network = Network::default();
        let pair = network.station(2);
        let slow = network.start(vec![Phase::at(pair, 5.0)]);
        let quick = network.start(vec![Phase::at(pair, 1.0)]);
        let waits = network.start(vec![Phase::at(pair, 1.0), Phase::delay(10.0)]);
        assert_eq!(network.next_end(), Some(quick));
        assert_eq!((network.next_end(), network.now()), (Some(slow), 5.0));
        assert_eq!((network.next_end(), network.now()), (Some(waits), 12.0));
        assert_eq!(network.next_end(), None);
        assert!((network.utilisation(pair) - 7.0 / 24.0).abs() < 1e-12);
    }
    #[test]
    fn work_at_several_stations_keeps_a_server_of_each() {
        let mut network = Network::default();
        let (thread, cores) = (network.station(1), network.station(2));
        let both = [thread, cores];
        let first = network.start(vec![Phase::at_all(&both, 3.0)]);
        // It waits for the thread and leaves the second core free meanwhile.
        let second = network.start(vec![Phase::at_all(&both, 3.0)]);
        let other = network.start(vec![Phase::at(cores, 4.0)]);
        assert_eq!((network.next_end(), network.now()), (Some(first), 3.0));
        assert_eq!((network.next_end(), network.now()), (Some(other), 4.0));
        assert_eq!((network.next_end(), network.now()), (Some(second), 6.0));
        assert!((network.utilisation(thread) - 1.0).abs() < 1e-12);
        assert!((network.utilisation(cores) - 10.0 / 12.0).abs() < 1e-12);
    }
}
