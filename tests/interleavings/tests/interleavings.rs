//! Deadlocks and lost wake-ups of queues and locks, searched for in many orders.

use gymkhana_interleavings::models::{rollouts, search, search_at_random, servers, trainer, workers};

#[test]
fn the_trainers_thread_answers_every_request() {
    search(trainer::every_request_is_answered);
}

#[test]
fn a_failed_trainers_thread_leaves_its_reason() {
    search(trainer::a_failed_thread_leaves_its_reason);
}

#[test]
fn episodes_that_wait_for_bytes_go_on() {
    search(rollouts::episodes_wait_for_bytes_of_others);
}

#[test]
fn members_that_need_each_other_go_on() {
    search(rollouts::members_that_need_each_other_go_on);
}

#[test]
fn groups_that_share_permits_and_places_go_on() {
    search(rollouts::groups_share_permits_and_places);
}

#[test]
fn results_are_read_within_their_room() {
    search(workers::results_are_read_within_their_room);
}

#[test]
fn jobs_end_once_and_free_their_episodes() {
    search(workers::jobs_end_once_and_free_their_episodes);
}

#[test]
fn no_request_in_progress_loses_its_place() {
    search(servers::no_request_in_progress_loses_its_place);
}

#[test]
fn sessions_end_with_their_gateway() {
    search_at_random(servers::sessions_end_with_their_gateway);
}
