//! Changes that a destination holds back for a removal, and what comes in between.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use cenotaph_conformance::{Call, Faults, Faulty, Mode};
use cenotaph_connector::{Fault, Owner};

use crate::inside::{Inside, Place};
use crate::lines::{delete, upsert};
use crate::odd::Odd;
use crate::worker::PATIENCE;

fn busy() -> Fault {
    Fault::retriable(Owner::Destination, "it is busy", "wait")
}

/// Where a call of the destination waits for the test.
struct Stop {
    reached: Sender<()>,
    go_on: Receiver<()>,
}

/// The test's side of a [`Stop`].
struct Guard {
    reached: Receiver<()>,
    go_on: Sender<()>,
}

/// The first `apply` of this version waits for the test, and fails then.
fn fails_once(name: &str, version: u64, faults: &Faults) -> (Place, Guard) {
    let (reached, is_reached) = channel();
    let (let_go, go_on) = channel();
    let stop = Arc::new(Mutex::new(Some(Stop { reached, go_on })));
    let faults = faults.clone();
    let place = Place::wrapped(name, move |inner| {
        let (stop, script) = (Arc::clone(&stop), faults.clone());
        Box::new(Odd {
            before_apply: Arc::new(move |upserts| {
                if !upserts.iter().any(|it| it.version.get() == version) {
                    return;
                }
                if let Some(Stop { reached, go_on }) = stop.lock().unwrap().take() {
                    script.next(Call::Apply, Mode::Fail(busy()));
                    reached.send(()).unwrap();
                    go_on.recv_timeout(PATIENCE).unwrap();
                }
            }),
            ..Odd::new(Box::new(Faulty::new(inner, faults.clone())))
        })
    });
    (place, Guard { reached: is_reached, go_on: let_go })
}

/// I5: version 3 waits for the removal of version 2, fails when its turn comes, and version 4 passes
/// it. When version 3 is tried again, it is not what is current any more.
#[test]
fn a_change_that_was_held_back_never_replaces_a_newer_one() {
    let faults = Faults::default();
    let (place, guard) = fails_once("c", 3, &faults);
    let inside = Inside::start(vec![place]);
    inside.record(&upsert("T1", "rows", "R1", 1));
    inside.caught_up(&["c"]);
    faults.always(Call::Remove, Mode::Fail(busy()));
    inside.record(&delete("T1", "rows", "R1", 2));
    inside.record(&upsert("T1", "rows", "R1", 3));
    inside.until("version 3 to be held back", || inside.owed("c") == 1);

    let chunks = inside.running().window.end();
    faults.always(Call::Remove, Mode::Pass);
    guard.reached.recv_timeout(PATIENCE).unwrap();
    inside.record(&upsert("T1", "rows", "R1", 4));
    inside.until("version 4 to be accepted", || inside.running().window.end() > chunks);
    guard.go_on.send(()).unwrap();

    inside.until("nothing to be owed", || inside.owed("c") == 0);
    inside.caught_up(&["c"]);
    let version = inside.store("c").get("T1/rows/R1").and_then(|it| it.version);
    assert_eq!(version.map(|it| it.get()), Some(4), "the newer one stays");
    inside.stop();
}
