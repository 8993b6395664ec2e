//! Tests of the control of sessions, with episodes that only offer their sessions.

use std::sync::atomic::{AtomicU32, Ordering};

use gymkhana_record::Phase;
use serde_json::json;

use super::*;
use crate::server::Gateway;

/// Offers a session and returns what its harness answered.
struct Offers {
    control: Arc<Control>,
    gateway: Arc<Gateway>,
    next: AtomicU32,
}

impl Episodes for Offers {
    fn next(&self, wanted: &SessionRequest) -> Result<EpisodeId, ApiError> {
        if wanted.task.as_ref().is_some_and(|task| task.index > 9) {
            return Err(ApiError::new(ErrorClass::Invalid, "there is no such task"));
        }
        let group = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(EpisodeId { stage: 0, phase: Phase::Served, step: 0, group, member: 0, attempt: 0 })
    }

    fn play(&self, id: EpisodeId, _wanted: SessionRequest) -> BoxFuture<'static, Result<HarnessResult, ApiError>> {
        let (control, gateway) = (Arc::clone(&self.control), Arc::clone(&self.gateway));
        Box::pin(async move {
            let open = gateway.open(vec!["policy".to_owned()]);
            let offer = SessionOffer {
                episode: id,
                session: open.id().to_owned(),
                openai_url: open.openai_url(),
                anthropic_url: open.anthropic_url(),
                mcp_url: open.mcp_url(),
                key: open.key().to_owned(),
                model: "policy".to_owned(),
                task: json!({"prompt": "hello"}),
                activity: open.activity(),
            };
            let ended = ExternalPrograms::play(&*control, offer).await;
            let (ending, failures) = match ended {
                Ok(end) if end.status == Some(0) => (String::from_utf8(end.output).unwrap(), vec![]),
                Ok(end) => ("failed".to_owned(), vec![end.stderr]),
                Err(error) => ("dropped".to_owned(), vec![error.to_string()]),
            };
            Ok(HarnessResult { episode: id.to_string(), ending, reward: Some(1.0), success: true, turns: 0, failures })
        })
    }
}

fn control(sessions: usize, idle: f64) -> (Arc<Control>, Arc<Gateway>) {
    let limits = ControlLimits { sessions, idle: Duration::from_secs_f64(idle) };
    let control = Arc::new(Control::new(limits, ClientTokens::default()));
    let gateway = Arc::new(Gateway::start_with(([127, 0, 0, 1], 0).into(), None, Arc::clone(&control)).unwrap());
    let episodes = Offers { control: Arc::clone(&control), gateway: Arc::clone(&gateway), next: AtomicU32::new(0) };
    control.set_episodes(Arc::new(episodes));
    (control, gateway)
}

fn anyone() -> Client {
    Client::anyone()
}

#[tokio::test]
async fn a_session_is_opened_and_closed_once() {
    let (control, _gateway) = control(2, 60.0);
    let offer = control.open(anyone(), SessionRequest::default()).await.unwrap();
    assert_eq!((offer.episode.group, control.live()), (0, 1));
    assert_eq!(control.result(&anyone(), &offer.session).unwrap(), None);
    let ended = control.close(&anyone(), &offer.session, answered(Some("42".to_owned()))).await.unwrap();
    assert_eq!((ended.ending.as_str(), control.live()), ("42", 0));
    // A repeated request, such as after a lost answer, changes nothing.
    let again = control.close(&anyone(), &offer.session, answered(Some("43".to_owned()))).await.unwrap();
    assert_eq!(again, ended);
    let other = control.close(&anyone(), "0", answered(None)).await.unwrap_err();
    assert_eq!(other.class, ErrorClass::NotFound);
}

#[tokio::test]
async fn sessions_are_bounded_and_idle_ones_end() {
    let (control, _gateway) = control(1, 0.05);
    let offer = control.open(anyone(), SessionRequest::default()).await.unwrap();
    let full = control.open(anyone(), SessionRequest::default()).await.unwrap_err();
    assert_eq!((full.class, full.status()), (ErrorClass::Unavailable, 503));
    control.all_stored().await;
    let ended = control.result(&anyone(), &offer.session).unwrap().unwrap().unwrap();
    assert_eq!(ended.failures, ["no request for 0.05 seconds"]);
    control.open(anyone(), SessionRequest::default()).await.unwrap();
    let wrong = SessionRequest { task: Some(TaskRef { split: "train".to_owned(), index: 10 }), seed: None };
    assert_eq!(control.open(anyone(), wrong).await.unwrap_err().class, ErrorClass::Invalid);
}

#[tokio::test]
async fn the_end_of_the_gateway_ends_open_sessions() {
    let (control, _gateway) = control(4, 60.0);
    let offer = control.open(anyone(), SessionRequest::default()).await.unwrap();
    assert_eq!(control.drain(Duration::from_millis(20), Duration::from_secs(60)).await, 0);
    let ended = control.result(&anyone(), &offer.session).unwrap().unwrap().unwrap();
    assert_eq!((ended.ending.as_str(), &ended.failures[..]), ("dropped", &["the gateway has ended".to_owned()][..]));
    assert_eq!(control.open(anyone(), SessionRequest::default()).await.unwrap_err().class, ErrorClass::Unavailable);
}

/// Plays no episode.
struct Panics;

impl Episodes for Panics {
    fn next(&self, _wanted: &SessionRequest) -> Result<EpisodeId, ApiError> {
        Ok(EpisodeId { stage: 0, phase: Phase::Served, step: 0, group: 0, member: 0, attempt: 0 })
    }

    fn play(&self, _id: EpisodeId, _wanted: SessionRequest) -> BoxFuture<'static, Result<HarnessResult, ApiError>> {
        Box::pin(async { panic!("as asked") })
    }
}

#[tokio::test]
async fn an_episode_that_panics_frees_its_place() {
    let limits = ControlLimits { sessions: 1, idle: Duration::from_secs(60) };
    let control = Arc::new(Control::new(limits, ClientTokens::default()));
    control.set_episodes(Arc::new(Panics));
    for _ in 0..2 {
        let failed = control.open(anyone(), SessionRequest::default()).await.unwrap_err();
        assert_eq!((failed.class, failed.message.as_str()), (ErrorClass::Policy, "the episode did not start"));
        control.all_stored().await;
    }
}

/// Sessions that no client has closed are among them.
#[test]
fn ended_sessions_are_kept_up_to_a_number() {
    let entry = |result| SessionEntry { client: anyone(), end: None, result: watch::channel(result).1 };
    let mut state = ControlState { live: 1, ..ControlState::default() };
    state.insert("open".to_owned(), entry(None));
    for number in 0..KEPT_RESULTS + 2 {
        state.insert(number.to_string(), entry(Some(Err(no_session()))));
    }
    assert_eq!((state.sessions.len(), state.opened.len()), (KEPT_RESULTS + 1, KEPT_RESULTS + 1));
    assert!(state.sessions.contains_key("open") && state.sessions.contains_key(&(KEPT_RESULTS + 1).to_string()));
    assert!(!state.sessions.contains_key("0") && !state.sessions.contains_key("1"));
}
