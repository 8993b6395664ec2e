//! Tests of the graph by itself: every sampled token lies in one segment, for any tree of replies.

use gymkhana_policy::certain;
use proptest::prelude::*;

use super::*;

fn turn(parent: Option<usize>, number: usize, delivered: bool) -> GraphTurn {
    let number = number as u32;
    GraphTurn {
        parent,
        given: vec![10_000 + number],
        sampled: certain(vec![number, number]),
        reasoning: None,
        stopped: false,
        rendered: Rendered::default(),
        conversation: Conversation { id: 0, place: 0 },
        delivered,
    }
}

proptest! {
    #[test]
    fn each_reply_is_sampled_in_one_segment_behind_its_own_path(
        tree in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 1..24),
    ) {
        let mut graph = MessageGraph::default();
        let mut history = HistoryKey::of_functions(&[]);
        for (number, (parent, is_root, delivered)) in tree.iter().enumerate() {
            let parent = (number > 0 && !is_root).then(|| parent.index(number));
            history = history.then(history);
            let reply = InputMessage::of_text(gymkhana_chat::Role::Assistant, number.to_string());
            graph.add(history, &reply, turn(parent, number, *delivered));
        }
        let continued = |turn: usize| {
            let mut reached = vec![false; graph.len()];
            for other in (0..graph.len()).rev() {
                reached[other] |= graph.turn(other).delivered;
                if let Some(parent) = graph.turn(other).parent.filter(|_| reached[other]) {
                    reached[parent] = true;
                }
            }
            reached[turn]
        };
        let mut seen = vec![0; graph.len()];
        for segment in graph.segments(0).expect("equal columns") {
            for place in segment.replies() {
                let reply = segment.turns()[place.start] as usize;
                seen[reply] += 1;
                prop_assert_eq!(&segment.tokens()[..place.end], &graph.tokens(reply)[..]);
            }
        }
        for (turn, count) in seen.into_iter().enumerate() {
            prop_assert_eq!(count, usize::from(continued(turn)), "turn {}", turn);
        }
    }
}

/// A request whose second message is a reply of the graph continues it after two messages.
#[test]
fn a_request_continues_the_reply_with_the_longest_history() {
    let message = |role, text: &str| InputMessage::of_text(role, text.to_owned());
    let asked = message(gymkhana_chat::Role::User, "question");
    let reply = message(gymkhana_chat::Role::Assistant, "reply");
    let more = message(gymkhana_chat::Role::User, "more");
    let keys = [&asked, &reply, &more].map(HistoryKey::of_message);
    let mut graph = MessageGraph::default();
    graph.add(HistoryKey::of_functions(&[]).then(keys[0]), &reply, turn(None, 0, true));
    let (history, continued) = graph.locate(&[], &keys);
    let continued = continued.expect("a reply that is continued");
    assert_eq!((continued.turn, continued.messages), (0, 2));
    assert_eq!(history, HistoryKey::of_functions(&[]).then(keys[0]).then(keys[1]).then(keys[2]));
    assert!(graph.locate(&[], &keys[..1]).1.is_none());
}
