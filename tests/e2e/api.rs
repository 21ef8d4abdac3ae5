//! The API: who is answered, what may be asked, and how much.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::held;
use crate::http::{self, Answer, segment, tombstone_path};
use crate::lines::{With, barrier, delete, upsert};
use crate::model::id;
use crate::site::Site;
use crate::worker::Worker;

const TABLES: &str = "[collections.docs]\n";

const BOUNDED: &str = r#"
[source]
kind = "file"
path = "changes.jsonl"
[api]
listen = "127.0.0.1:0"
max_body = "1KiB"
max_waiters = 3
request_timeout = "5s"
[collections.docs]
"#;

fn raw(worker: &Worker, request: &str) -> Answer {
    http::send(worker.address(), request.as_bytes()).unwrap()
}

#[test]
fn only_who_means_this_machine_is_answered() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    let port = worker.address().port();
    let ask = |headers: &str| {
        raw(&worker, &format!("GET /v1/status HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"))
    };
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        assert_eq!(ask(&format!("Host: {host}:{port}\r\n")).status, 200, "{host}");
        assert_eq!(ask(&format!("Host: {host}\r\n")).status, 200, "{host}");
    }
    for host in
        ["example.org", "127.0.0.1.example.org", "10.0.0.1", "", "evil@127.0.0.1", "127.0.0.2"]
    {
        ask(&format!("Host: {host}:{port}\r\n")).is_error(403, "request.foreign");
    }
    let good = format!("Host: localhost:{port}\r\n");
    assert_eq!(ask(&format!("{good}Origin: http://localhost:{port}\r\n")).status, 200);
    for origin in ["http://evil.example", "null", "https://localhost.evil.example", "file://", ""] {
        ask(&format!("{good}Origin: {origin}\r\n")).is_error(403, "request.foreign");
    }
    // Neither may a page make a barrier, or ask for what is not there.
    let body = "{\"name\":\"x\"}";
    let post = format!(
        "POST /v1/barriers HTTP/1.1\r\n{good}Origin: http://evil.example\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    raw(&worker, &post).is_error(403, "request.foreign");
    assert_eq!(worker.get("/v1/barriers/x").status, 404);
    let foreign = "GET /nothing HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n";
    raw(&worker, foreign).is_error(403, "request.foreign");
    // A form of another page sends this type without asking first.
    let form = format!(
        "POST /v1/barriers HTTP/1.1\r\n{good}Connection: close\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    raw(&worker, &form).is_error(415, "request.invalid");
    worker.stop_cleanly();
}

#[test]
fn what_cannot_be_asked_is_an_error_of_the_one_shape() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    for path in
        ["/nothing", "/v1", "/v1/tombstones/T1/docs", "/v1/tombstones/T1/docs/D7/x", "/v1/status/"]
    {
        worker.get(path).is_error(404, "path.not_found");
    }
    for (method, path) in
        [("DELETE", "/v1/tombstones/T1/docs/D7"), ("PUT", "/v1/barriers"), ("POST", "/v1/status")]
    {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        raw(&worker, &request).is_error(405, "method.not_allowed");
    }
    for path in [
        "/v1/tombstones/T1/docs/D7?wiat=30s",
        "/v1/tombstones/T1/docs/D7?wait=soon",
        "/v1/tombstones/T1/docs/D7?generation=0",
        "/v1/tombstones/T1/docs/D7?generation=-1",
        "/v1/tombstones/T1/docs/D7?min_version=0",
        "/v1/tombstones/T1/docs/D7?min_version=9007199254740992",
        "/v1/tombstones/T1/docs/%FF%FE",
        "/v1/tombstones?state=open",
        "/v1/tombstones?after=x",
        "/v1/tombstones?limit=x",
        "/v1/barriers/b?wait=x",
        "/v1/quarantine?what=x",
    ] {
        worker.get(path).is_error(400, "request.invalid");
    }
    let long = "x".repeat(5_000);
    worker.get(&format!("/v1/tombstones/T1/docs/{long}")).is_error(400, "request.invalid");
    worker.get("/v1/tombstones/T1/docs/never").is_error(404, "tombstone.not_found");
    worker.get("/v1/destinations/never").is_error(404, "destination.not_found");
    for body in [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": "x".repeat(256) }),
        json!({ "name": "x", "scope": { "tenant": "T1", "parent": "p" } }),
        json!({ "name": "x", "scope": { "tenant": "" } }),
        json!({ "name": "x", "scope": { "tenant": "T1", "collection": "" } }),
        json!({ "name": "x", "more": 1 }),
        json!({ "name": "x", "scope": { "tenant": "T1", "object": "D7" } }),
        json!([]),
    ] {
        let answer = worker.post("/v1/barriers", &body);
        assert!((400..500).contains(&answer.status), "{body}: {}", answer.body);
        answer.is_error(answer.status, "request.invalid");
    }
    assert_eq!(worker.json("/v1/barriers")["items"], json!([]), "none of these made one");
    worker.stop_cleanly();
}

#[test]
fn bodies_waiters_and_waiting_are_bounded() {
    let site = Site::with_worker(BOUNDED);
    site.memory("cache", &["docs"]);
    let worker = site.start();
    let large = worker.post("/v1/barriers", &json!({ "name": "x".repeat(2_000) }));
    assert_eq!(large.status, 413, "{}", large.body);
    large.is_error(413, "request.invalid");
    let chunked = format!(
        "POST /v1/barriers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n{}\r\n0\r\n\r\n",
        "x".repeat(0x800)
    );
    assert_eq!(raw(&worker, &chunked).status, 413, "whether its length was told or not");

    // Three of four wait; one is told to come later.
    let address = worker.address();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let begun = Instant::now();
    let path = "/v1/tombstones/T1/docs/D7?event_id=e&wait=1h";
    let asked: Vec<TcpStream> = (0..4).map(|_| ask(path)).collect();
    let at_once = worker.get("/v1/tombstones/T1/docs/D7?event_id=e");
    assert_eq!(at_once.status, 200, "whoever does not wait is answered");
    let mut statuses: Vec<String> =
        asked.into_iter().map(|stream| answered(stream, 9..12)).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["200", "200", "200", "503"]);
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(1), "they did wait: {waited:?}");
    assert!(waited < Duration::from_secs(20), "and not for an hour: {waited:?}");
    // A place that is free again is given again, and whoever waits is woken.
    let last = ask("/v1/tombstones/T1/docs/D7?event_id=del-T1-docs-D7-2&wait=30s");
    site.record(&delete("T1", "docs", "D7", 2));
    let answer = answered(last, 0..usize::MAX);
    assert!(answer.contains("\"gate\":\"open\""), "{answer}");
    worker.stop_cleanly();
}

/// A part of the answer that comes there.
fn answered(mut stream: TcpStream, part: std::ops::Range<usize>) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let end = part.end.min(answer.len());
    answer[part.start..end].to_owned()
}

/// A body that never comes to its end is not waited for any longer than a request may take.
#[test]
fn a_body_that_stays_away_is_given_up() {
    let site = Site::with_worker(BOUNDED);
    site.memory("cache", &["docs"]);
    let worker = site.start();
    let mut stream = TcpStream::connect(worker.address()).unwrap();
    let request = "POST /v1/barriers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                   Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"name\"";
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    assert!(read.is_ok(), "it waits still: {read:?}");
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    worker.stop_cleanly();
}

/// A waiter that goes away gives its place back.
#[test]
fn a_waiter_that_has_gone_takes_no_place() {
    let site = Site::with_worker(BOUNDED);
    site.memory("cache", &["docs"]);
    let worker = site.start();
    let path = "/v1/tombstones/T1/docs/D7?event_id=e&wait=1h";
    for _ in 0..10 {
        let gone: Vec<TcpStream> = (0..3)
            .map(|_| {
                let mut stream = TcpStream::connect(worker.address()).unwrap();
                let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                stream.write_all(request.as_bytes()).unwrap();
                stream
            })
            .collect();
        drop(gone);
    }
    worker.until("a place to be free", || {
        (worker.get("/v1/tombstones/T1/docs/D7?event_id=e&wait=1ms").status == 200).then_some(())
    });
    worker.stop_cleanly();
}

fn awkward_objects() -> Vec<String> {
    [
        "a/b",
        "a%2Fb",
        "%",
        "%%",
        "%zz",
        "~",
        "~2",
        "D7~2",
        "..",
        ".",
        "../..",
        "a b",
        "+",
        "?",
        "#",
        "a?b=c&d#e",
        "\"",
        "\\",
        "'",
        "<script>",
        "\u{0}",
        "\n",
        "\t",
        "ä",
        "日本語",
        "🙂",
        "e\u{301}",
        "\u{202e}gro",
        "{object}",
        "*",
        ";",
        ":",
        "@",
        "null",
        "-",
        "_id:x",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([format!("long{}", "x".repeat(3_900))])
    .collect()
}

#[test]
fn an_object_may_have_any_name() {
    let site = Site::with_both(TABLES, &["docs"]);
    let objects = awkward_objects();
    for object in &objects {
        site.record(&upsert("T1", "docs", object, 1));
        site.record(&upsert("T/1 %", "docs", object, 1));
    }
    let worker = site.start();
    worker.caught_up();
    let held = held::in_tantivy(&site.destination_dir("search"));
    for object in &objects {
        assert!(held.contains_key(&id("T1", "docs", object)), "{object:?}");
        assert!(held.contains_key(&id("T/1 %", "docs", object)), "{object:?}");
    }
    assert_eq!(held.len(), 2 * objects.len(), "no two names are one");
    for object in &objects {
        site.record(&delete("T1", "docs", object, 2));
    }
    worker.caught_up();
    let held = held::in_tantivy(&site.destination_dir("search"));
    assert_eq!(held.len(), objects.len());
    for object in &objects {
        let view = worker.tombstone("T1", "docs", object);
        assert_eq!(view["object"], **object);
        assert_eq!(
            (&view["state"], &view["gate"]),
            (&json!("removed"), &json!("open")),
            "{object:?}"
        );
        let state = format!("/v1/objects/T1/docs/{}/state", segment(object));
        assert_eq!(worker.json(&state)["active"], false, "{object:?}");
        let other = worker.tombstone("T/1 %", "docs", object);
        assert_eq!(
            (&other["state"], &other["tenant"]),
            (&json!("live"), &json!("T/1 %")),
            "{object:?}"
        );
        assert!(held.contains_key(&id("T/1 %", "docs", object)), "{object:?}");
    }
    worker.stop_cleanly();
}

/// The command line names an object as the record keys of topics do.
#[test]
fn the_command_line_can_ask_for_any_name() {
    let site = Site::with_both(TABLES, &["docs"]);
    let mut objects = awkward_objects();
    objects.retain(|object| !DOTS.contains(&object.as_str()));
    can_be_shown(&site, &objects);
}

/// The names that a URL takes for the way up, however they are encoded.
const DOTS: [&str; 2] = [".", ".."];

#[test]
fn the_command_line_can_ask_for_a_name_of_dots() {
    let site = Site::with_both(TABLES, &["docs"]);
    can_be_shown(&site, &DOTS.map(str::to_owned));
}

fn can_be_shown(site: &Site, objects: &[String]) {
    for object in objects {
        site.record(&delete("T/1 %", "docs", object, 2));
    }
    let worker = site.start();
    worker.caught_up();
    for object in objects {
        let key = id("T/1 %", "docs", object);
        let shown = worker.cli(&["tombstone", "show", &key, "--output", "json"]);
        assert_eq!(shown.code, Some(0), "{object:?}: {shown:?}");
        assert_eq!(shown.json()["object"], **object);
    }
    worker.stop_cleanly();
}

/// The names of barriers are as free as those of objects.
#[test]
fn a_barrier_may_have_any_name() {
    let site = Site::with_both(TABLES, &["docs"]);
    let worker = site.start();
    for (number, name) in ["a/b", "%2F", "..", "ä 🙂", "a?b"].into_iter().enumerate() {
        site.record(&barrier(name).with("event_id", format!("b{number}")));
        worker.until("it to open", || {
            let answer = worker.get(&format!("/v1/barriers/{}", segment(name)));
            (answer.status == 200 && answer.json()["state"] == "RELEASED").then_some(())
        });
    }
    worker.stop_cleanly();
}

#[test]
fn a_generation_is_asked_for_by_its_number_and_a_deletion_by_event_or_version() {
    let tables = "[collections.docs]\nlifecycle = \"versioned\"\ngenerations = \"open\"\n";
    let site = Site::with_both(tables, &["docs"]);
    site.record(&upsert("T1", "docs", "D7", 1));
    site.record(&delete("T1", "docs", "D7", 2));
    site.record(&delete("T1", "docs", "D7", 4));
    site.record(&upsert("T1", "docs", "D7", 6).with("generation", 2).with("event_id", "second"));
    site.record(&delete("T1", "docs", "D7", 1).with("event_id", "too-late"));
    let worker = site.start();
    worker.caught_up();
    let ask = |query: &str| worker.json(&format!("/v1/tombstones/T1/docs/D7?{query}"));
    let first = ask("generation=1");
    assert_eq!(
        (&first["state"], &first["covers"], &first["tombstone"]),
        (&json!("removed"), &json!(4), &json!(2))
    );
    let second = ask("generation=2");
    assert_eq!((&second["state"], &second["version"]), (&json!("live"), &json!(6)));
    assert_eq!((&second["gate"], &second["tombstone"]), (&json!("none"), &Value::Null));
    let by_event = ask("event_id=del-T1-docs-D7-2");
    assert_eq!((&by_event["tombstone"], &by_event["covers"]), (&json!(1), &json!(2)));
    assert_eq!(by_event["blocked"], false);
    for (version, tombstone) in [(1, 1), (2, 1), (3, 2), (4, 2)] {
        let by_version = ask(&format!("min_version={version}"));
        assert_eq!(by_version["tombstone"], tombstone, "{by_version}");
    }
    let beyond = ask("min_version=5");
    assert_eq!((&beyond["tombstone"], &beyond["blocked"]), (&Value::Null, &json!(true)));
    // A deletion that changed nothing is satisfied by the one that did.
    let late = ask("event_id=too-late");
    assert_eq!((&late["request"], &late["tombstone"]), (&json!("satisfied"), &json!(2)));
    assert_eq!(late["blocked"], false);
    let unread = ask("event_id=never");
    assert_eq!((&unread["request"], &unread["blocked"]), (&json!("not-read"), &json!(true)));
    worker.stop_cleanly();
}

/// The list of what waits: pages, oldest first, by destination, owner and tenant.
#[test]
fn what_waits_is_listed_in_pages_oldest_first() {
    let site = Site::with_both(TABLES, &["docs"]);
    let folder = site.destination_dir("search");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    for number in 0..25 {
        let tenant = if number % 5 == 0 { "T2" } else { "T1" };
        site.record(&delete(tenant, "docs", &format!("d{number}"), 2));
    }
    let worker = site.start_unready();
    worker.ingested();
    worker.until("the cache to confirm all", || {
        (worker.destination("cache")["pending_removals"] == 0).then_some(())
    });
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = worker.json(&format!("/v1/tombstones?state=pending&limit=10{after}"));
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 10);
        seen.extend(items.iter().map(|it| it["object"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let expected: Vec<_> = (0..25).map(|number| format!("d{number}")).collect();
    assert_eq!(seen, expected);
    let count = |query: &str| {
        worker.json(&format!("/v1/tombstones?state=pending&{query}"))["items"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count("tenant=T2"), 5);
    assert_eq!(count("tenant=T3"), 0);
    assert_eq!(count("destination=search"), 25);
    assert_eq!(count("destination=cache"), 0);
    let misspelt = worker.get("/v1/tombstones?destination=serach");
    assert_eq!(misspelt.status, 404, "it must not read as nothing waiting");
    assert_eq!(count("owner=search-team@example.org"), 25);
    assert_eq!(worker.metric("cenotaph_deletions_pending{destination=\"search\"}"), 25.0);
    assert_eq!(worker.metric("cenotaph_deletions_pending{destination=\"cache\"}"), 0.0);
    let age = "cenotaph_deletion_oldest_pending_age_seconds{destination=\"search\"}";
    worker.until("its age to show", || (worker.metric(age) > 0.0).then_some(()));
    let listed = worker.cli(&["tombstone", "list", "--output", "json"]).ends(0).json();
    let listed = listed.get("items").unwrap_or(&listed).as_array().unwrap().len();
    assert_eq!(listed, 25);
    worker.stop_cleanly();
}

#[test]
fn it_does_not_start_on_an_address_that_others_can_reach() {
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8083", "example.org:8083"] {
        let site = Site::with_worker(&format!(
            "[source]\nkind = \"file\"\npath = \"changes.jsonl\"\n[api]\nlisten = \"{listen}\"\n\
             [collections.docs]\n"
        ));
        site.memory("cache", &["docs"]);
        let run = site.command(&["run", "--config", site.config().to_str().unwrap()]).ends(2);
        assert!(run.err.contains("listen"), "{run:?}");
        assert!(!site.ledger_dir().exists(), "nothing was begun");
    }
}

#[test]
fn an_address_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let site = Site::with_worker(&format!(
        "[source]\nkind = \"file\"\npath = \"changes.jsonl\"\n[api]\nlisten = \"{address}\"\n\
         [collections.docs]\n"
    ));
    site.memory("cache", &["docs"]);
    let run = site.command(&["run", "--config", site.config().to_str().unwrap()]).ends(3);
    assert!(run.err.contains(&address.to_string()), "{run:?}");
}

/// A tenant learns nothing of another: the same names are other objects.
#[test]
fn what_one_tenant_does_is_not_seen_at_another() {
    let site = Site::with_both(TABLES, &["docs"]);
    site.record(&delete("T1", "docs", "D7", 2).with("event_id", "same"));
    site.record(&upsert("T2", "docs", "D7", 1).with("event_id", "same"));
    let worker = site.start();
    worker.caught_up();
    assert_eq!(worker.counted("accepted"), 2, "an event id is one tenant's");
    assert_eq!(worker.tombstone("T2", "docs", "D7")["state"], "live");
    worker.get(&tombstone_path("T3", "docs", "D7")).is_error(404, "tombstone.not_found");
    let view = worker.json("/v1/tombstones/T2/docs/D7?event_id=same");
    assert_eq!(view["tombstone"], Value::Null, "{view}");
    worker.stop_cleanly();
}
