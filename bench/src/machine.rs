//! What the machine and this process can tell of themselves, from `/proc`. Nothing here is needed to
//! measure: where it cannot be read, it is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// The machine that the figures were measured on.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub cpu: String,
    pub memory_mib: u64,
    pub kernel: String,
    /// Seconds that the host took from this machine's processors, while it ran.
    pub stolen_seconds: f64,
    /// Runnable tasks of others just before the run: above 0.3 the figures are noisy.
    pub load_1m: f64,
}

impl Machine {
    pub fn read() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == "model name").then(|| value.trim().to_owned())
        });
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: cpu.unwrap_or_else(|| "unknown".into()),
            memory_mib: kib_of("/proc/meminfo", "MemTotal:") / 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .into(),
            stolen_seconds: stolen_seconds(),
            load_1m: load.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(f64::NAN),
        }
    }
}

/// Since the machine started, in ticks of 10 ms.
pub fn stolen_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.split_whitespace().nth(8).and_then(|it| it.parse::<f64>().ok());
    ticks.unwrap_or(0.0) / 100.0
}

/// The highest peak that was forgotten.
static HIGHEST_MIB: AtomicU64 = AtomicU64::new(0);

/// Begins a new peak of resident memory.
pub fn forget_peak() {
    HIGHEST_MIB.fetch_max(peak_mib(), Ordering::Relaxed);
    // Not every container may; the peak is then that of the whole run.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The peak of resident memory since [`forget_peak`], MiB.
pub fn peak_mib() -> u64 {
    kib_of("/proc/self/status", "VmHWM:") / 1024
}

/// The peak of the whole run, MiB.
pub fn highest_mib() -> u64 {
    HIGHEST_MIB.load(Ordering::Relaxed).max(peak_mib())
}

/// Bytes that this process has caused to be written to disks.
pub fn written_bytes() -> u64 {
    number_of("/proc/self/io", "write_bytes:")
}

fn kib_of(path: &str, name: &str) -> u64 {
    number_of(path, name)
}

fn number_of(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Seconds of processor time of the threads that live now, by name; threads of one kind together.
#[derive(Debug, Clone, Default)]
pub struct ThreadSeconds(BTreeMap<String, f64>);

impl ThreadSeconds {
    pub fn now() -> ThreadSeconds {
        let mut seconds = BTreeMap::new();
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let name = read("comm");
            let name = name.trim().trim_end_matches(|it: char| it.is_ascii_digit()).to_owned();
            let ns: Option<f64> =
                read("schedstat").split(' ').next().and_then(|it| it.parse().ok());
            *seconds.entry(name).or_insert(0.0) += ns.unwrap_or(0.0) / 1e9;
        }
        ThreadSeconds(seconds)
    }

    /// What was spent since then.
    pub fn since(&self, before: &ThreadSeconds) -> ThreadSeconds {
        let less = |(name, seconds): (&String, &f64)| {
            (name.clone(), seconds - before.0.get(name).copied().unwrap_or(0.0))
        };
        ThreadSeconds(self.0.iter().map(less).collect())
    }

    /// Microseconds for each of so many things, where it is worth telling.
    pub fn each(&self, count: u64) -> impl Iterator<Item = (&str, f64)> {
        let each = move |seconds: f64| seconds * 1e6 / count as f64;
        let all = self.0.iter().map(move |(name, seconds)| (name.as_str(), each(*seconds)));
        all.filter(|(_, us)| *us >= 0.02)
    }
}

/// The bytes of everything in a folder, as allocated on the disk.
pub fn folder_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => folder_bytes(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
