//! The real binary as a child of this process: it does not outlive the test, however that ends.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::{self, Answer};

/// The longest that anything may take before it counts as never happening.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Between two looks at something that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

const BINARY: &str = env!("CARGO_BIN_EXE_cenotaph");

/// A running worker.
pub struct Worker {
    child: Child,
    address: SocketAddr,
    said: Arc<Mutex<String>>,
}

impl Worker {
    /// Starts `cenotaph run` and waits until its API can be asked.
    pub fn start(config: &Path) -> Worker {
        let (mut child, said) = spawn(config);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let address = address_in(&said.lock().unwrap());
            if let Some(address) = address {
                return Worker { child, address, said };
            }
            let ended = child.try_wait().unwrap();
            if ended.is_some() || Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                panic!("it did not start ({ended:?}); it said:\n{}", said.lock().unwrap());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it wrote to its log.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn get(&self, path: &str) -> Answer {
        http::get(self.address, path)
            .unwrap_or_else(|error| panic!("GET {path}: {error}; it said:\n{}", self.said()))
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        http::post(self.address, path, &body.to_string())
            .unwrap_or_else(|error| panic!("POST {path}: {error}; it said:\n{}", self.said()))
    }

    /// What the API says there; anything but 200 is a failure.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.body);
        answer.json()
    }

    pub fn tombstone(&self, tenant: &str, collection: &str, object: &str) -> Value {
        self.json(&http::tombstone_path(tenant, collection, object))
    }

    pub fn destination(&self, name: &str) -> Value {
        self.json(&format!("/v1/destinations/{name}"))
    }

    /// The value of a metric, its labels written as they stand there: `name{label="x"}`.
    pub fn metric(&self, name: &str) -> f64 {
        metric_in(&self.get("/metrics").body, name).unwrap_or(0.0)
    }

    /// How many records of this run got this verdict.
    pub fn counted(&self, verdict: &str) -> u64 {
        self.json("/v1/status")["records"][verdict].as_u64().unwrap()
    }

    /// Waits until something is there.
    pub fn until<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        wait_for(look).unwrap_or_else(|| {
            let said = self.said();
            panic!("waited {} s for {what}; it said:\n{said}", PATIENCE.as_secs())
        })
    }

    /// Waits until ingest has decided the log as it is now, and every destination is there.
    pub fn caught_up(&self) {
        self.until("everything to be read and applied", || {
            let status = self.json("/v1/status");
            let partition = &status["partitions"][0];
            let read = !partition["end"].is_null() && partition["cursor"] == partition["end"];
            let behind = |it: &Value| it["lag"] != 0 || it["pending_removals"] != 0;
            let there = !status["destinations"].as_array().unwrap().iter().any(behind);
            (read && there).then_some(())
        });
    }

    /// Waits until ingest has decided the log as it is now.
    pub fn ingested(&self) {
        self.until("everything to be read", || {
            let partition = self.json("/v1/status")["partitions"][0].clone();
            (!partition["end"].is_null() && partition["cursor"] == partition["end"]).then_some(())
        });
    }

    /// Waits until the gate of an object's deletion is open, and answers the deletion.
    pub fn gate_open(&self, tenant: &str, collection: &str, object: &str) -> Value {
        self.until(&format!("the gate of {tenant}/{collection}/{object} to open"), || {
            let view = http::get(self.address, &http::tombstone_path(tenant, collection, object));
            let view = view.ok().filter(|answer| answer.status == 200)?.json();
            (view["gate"] == "open").then_some(view)
        })
    }

    /// A command that asks this worker.
    pub fn cli(&self, args: &[&str]) -> Cli {
        let url = format!("http://{}", self.address);
        Cli::run(&[args, &["--server", &url]].concat())
    }

    /// Kills it where it stands.
    pub fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.said()
    }

    /// Starts it and kills it after so long, wherever it is by then.
    pub fn start_and_kill(config: &Path, after: Duration) {
        let (mut child, _said) = spawn(config);
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Tells it to stop, and waits for its end.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.terminate();
        let status = self.ended();
        (status, self.said())
    }

    /// Stops it and expects that all is well.
    pub fn stop_cleanly(self) -> String {
        let (status, said) = self.stop();
        assert_eq!(status.code(), Some(0), "it said:\n{said}");
        said
    }

    pub fn terminate(&self) {
        let told = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap();
        assert!(told.success());
    }

    pub fn ended(&mut self) -> ExitStatus {
        wait_for(|| self.child.try_wait().unwrap())
            .unwrap_or_else(|| panic!("it does not end; it said:\n{}", self.said()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.said();
            let from = said.len().saturating_sub(4_000);
            let from = (from..said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(0);
            eprintln!("the end of what the worker said:\n{}", &said[from..]);
        }
    }
}

/// Looks until there is something, or the patience is at its end.
pub fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The value of a metric in what `/metrics` answers.
pub fn metric_in(text: &str, name: &str) -> Option<f64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

fn spawn(config: &Path) -> (Child, Arc<Mutex<String>>) {
    let mut child = quiet(&["run", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = Arc::new(Mutex::new(String::new()));
    listen(child.stdout.take().unwrap(), &said);
    listen(child.stderr.take().unwrap(), &said);
    (child, said)
}

fn listen(from: impl Read + Send + 'static, into: &Arc<Mutex<String>>) {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut said = into.lock().unwrap();
            said.push_str(&line);
            said.push('\n');
        }
    });
}

/// Where the worker says that it listens.
fn address_in(said: &str) -> Option<SocketAddr> {
    let line = said.lines().find(|line| line.contains("running") && line.contains("127.0.0.1:"))?;
    let (_, rest) = line.split_once("127.0.0.1:")?;
    let port = rest.split(|it: char| !it.is_ascii_digit()).next()?;
    format!("127.0.0.1:{port}").parse().ok()
}

fn quiet(args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).env("NO_COLOR", "1").env_remove("RUST_LOG");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CENOTAPH_")) {
        command.env_remove(name);
    }
    command
}

/// A command that has ended.
#[derive(Debug)]
pub struct Cli {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Cli {
    /// Runs a command to its end, which must come.
    pub fn run(args: &[&str]) -> Cli {
        let mut child = Running(
            quiet(args)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let read = |from: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut text = String::new();
                from.unwrap().read_to_string(&mut text).unwrap();
                text
            })
        };
        let out = read(child.0.stdout.take().map(|it| Box::new(it) as Box<dyn Read + Send>));
        let err = read(child.0.stderr.take().map(|it| Box::new(it) as Box<dyn Read + Send>));
        let status = wait_for(|| child.0.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("`cenotaph {}` does not end", args.join(" ")));
        Cli { code: status.code(), out: out.join().unwrap(), err: err.join().unwrap() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It ended with this code.
    pub fn ends(self, code: i32) -> Cli {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// A command that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
