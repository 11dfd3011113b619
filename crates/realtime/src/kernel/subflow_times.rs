//! Corrects when subflows opened and closed by the events of path managers, because samples know
//! these times only to the next tick.

use experiment::resolved::Experiment;
use experiment::summary::{FlowSummary, SubflowResult};

use crate::kernel::path_manager::{End, PathEvent, What};

/// Replaces the times of samples by those of events. Without an event the sample's time stays. The
/// first subflow of a flow opens no later than the connection.
pub(crate) fn correct(experiment: &Experiment, events: &[PathEvent], flows: &mut [FlowSummary]) {
    for (flow, summary) in experiment.flows.iter().zip(flows) {
        for subflow in &mut summary.subflows {
            let told = correct_one(&flow.from, events, subflow);
            if let (false, 0, Some(at)) = (told, subflow.id, summary.established_ns) {
                subflow.opened_ns = subflow.opened_ns.min(at);
            }
        }
    }
}

/// Corrects the times of one subflow. Returns whether an event has its opening. `host` sends its
/// data.
fn correct_one(host: &str, events: &[PathEvent], subflow: &mut SubflowResult) -> bool {
    let here = || events.iter().filter(|event| event.host == host);
    // If several connections in turn had the same ends, takes the last one established before the
    // sample that saw it.
    let opening = here()
        .rfind(|event| event.time_ns <= subflow.opened_ns && stands(event) && is(event, subflow));
    let Some(opening) = opening else {
        return false;
    };
    subflow.opened_ns = opening.time_ns;
    // The end of a connection is not an event of its subflows. Its socket stays until the next
    // sample has read it.
    let closing = here().find(|event| {
        event.time_ns >= opening.time_ns && event.what == What::SubflowClosed && is(event, subflow)
    });
    if let (Some(closed_ns), Some(closing)) = (&mut subflow.closed_ns, closing) {
        *closed_ns = closing.time_ns;
    }
    true
}

/// Returns whether an event establishes a subflow.
fn stands(event: &PathEvent) -> bool {
    matches!(
        event.what,
        What::ConnectionCreated | What::SubflowEstablished
    )
}

fn is(event: &PathEvent, subflow: &SubflowResult) -> bool {
    let ends = [
        (event.local, &subflow.local),
        (event.remote, &subflow.remote),
    ];
    ends.into_iter()
        .all(|(end, told)| matches!(end, Some(End::Port(port)) if port.to_string() == *told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::path_manager::Note;

    const ENDS: (&str, &str) = ("10.1.2.1:4000", "10.1.2.2:5001");

    fn event(time_ns: u64, host: &str, what: What, (local, remote): (&str, &str)) -> PathEvent {
        let end = |text: &str| text.parse::<std::net::SocketAddr>().unwrap();
        Note::new(what)
            .local(end(local))
            .remote(end(remote))
            .at(time_ns, host)
    }

    fn sampled(opened_ns: u64, closed_ns: Option<u64>) -> SubflowResult {
        SubflowResult {
            id: 1,
            local: ENDS.0.to_owned(),
            remote: ENDS.1.to_owned(),
            interface: None,
            remote_interface: None,
            link: None,
            opened_ns,
            closed_ns,
            bytes: 0,
            retransmitted_bytes: 0,
            opened_by: "client".to_owned(),
        }
    }

    #[test]
    fn the_senders_events_tell_when_a_subflow_stood_and_ended() {
        let events = [
            event(40, "client", What::SubflowEstablished, ENDS),
            event(45, "server", What::SubflowEstablished, (ENDS.1, ENDS.0)),
            event(320, "client", What::SubflowClosed, ENDS),
        ];
        let mut subflow = sampled(100, Some(300));
        assert!(correct_one("client", &events, &mut subflow));
        assert_eq!((subflow.opened_ns, subflow.closed_ns), (40, Some(320)));
    }

    #[test]
    fn of_subflows_with_the_same_ends_each_has_its_own_events() {
        let events = [
            event(40, "client", What::SubflowEstablished, ENDS),
            event(120, "client", What::SubflowClosed, ENDS),
            event(250, "client", What::SubflowEstablished, ENDS),
        ];
        let (mut first, mut second) = (sampled(100, Some(100)), sampled(300, None));
        correct_one("client", &events, &mut first);
        correct_one("client", &events, &mut second);
        assert_eq!((first.opened_ns, first.closed_ns), (40, Some(120)));
        assert_eq!((second.opened_ns, second.closed_ns), (250, None));
    }

    #[test]
    fn what_no_event_tells_stays_as_it_was_sampled() {
        let other = ("10.1.2.1:4001", ENDS.1);
        let events = [event(40, "client", What::SubflowEstablished, other)];
        let mut subflow = sampled(100, Some(300));
        assert!(!correct_one("client", &events, &mut subflow));
        assert_eq!((subflow.opened_ns, subflow.closed_ns), (100, Some(300)));
    }
}
