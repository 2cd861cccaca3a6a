//! One probe at each level, from the worker's pipe up to the whole command, and what the daemon weighs.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use beam_base::{AbsPath, uri};
use beam_broker::qualify::{self, Qualifier};
use beam_broker::worker_command;
use beam_session::{CommandSpawn, RequestSpec, Session, SessionConfig, Snapshot};
use beam_toolchain::{Choice, HostEnv, Silent};
use serde_json::{Value, json};

/// Whatever goes wrong ends the program.
pub type Failure = Box<dyn std::error::Error>;

const TEXT: &str =
    "theorem t (p q : Prop) (hp : p) (hq : q) : p ∧ q := by\n  constructor\n  · exact hp\n  · exact hq\n";

/// Prints the medians of so many rounds.
pub fn levels(rounds: usize) -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let root = AbsPath::canonical(dir.path())?;
    std::fs::write(root.join("lean-toolchain"), "leanprover/lean4:v4.28.0\n")?;
    std::fs::write(root.join("A.lean"), TEXT)?;
    let program = program()?;

    let runtime = tokio::runtime::Runtime::new()?;
    let raw = runtime.block_on(raw_worker(&root))?;
    let cli = Cli { program, root: root.clone() };
    cli.json(&["update", "A.lean"])?;
    cli.json(&["run-at", "A.lean", "1", "1", "2", "exact ⟨hp, hq⟩"])?;
    let socket = Daemon::find(&root)?;

    let mut figures = [
        Samples::new("raw probe to the worker"),
        Samples::new("through the daemon's socket"),
        Samples::new("whole `lean-beam run-at`"),
        Samples::new("`lean-beam version`"),
    ];
    for round in 0..rounds + 5 {
        let times = [
            timed(|| runtime.block_on(probe(&raw, &root)))?,
            timed(|| socket.probe(&root))?,
            timed(|| cli.json(&["run-at", "A.lean", "1", "1", "2", "exact ⟨hp, hq⟩"]).map(drop))?,
            timed(|| cli.version())?,
        ];
        // The first rounds warm caches.
        if round >= 5 {
            figures.iter_mut().zip(times).for_each(|(f, t)| f.0.push(t));
        }
    }
    println!("{rounds} rounds, medians");
    let base = figures[0].median();
    for f in &mut figures {
        let (m, lo, hi) = (f.median(), f.at(0.1), f.at(0.9));
        println!("  {:32} {m:7.2} ms   p10 {lo:7.2}   p90 {hi:7.2}   over raw {:+7.2}", f.1, m - base);
    }
    println!("  daemon RSS {:.1} MB", socket.rss_mb()?);
    for n in 1..=3000 {
        socket.probe(&root)?;
        if n == 300 || n == 3000 {
            println!("  daemon RSS after {n} more probes {:.1} MB", socket.rss_mb()?);
        }
    }
    cli.json(&["shutdown"])?;
    runtime.block_on(raw.shutdown(Duration::from_secs(2)));
    Ok(())
}

/// Milliseconds of one call.
pub fn timed(f: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let start = Instant::now();
    f()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Milliseconds, and what they are about.
pub struct Samples(pub Vec<f64>, &'static str);

impl Samples {
    pub fn new(name: &'static str) -> Self {
        Self(Vec::new(), name)
    }

    pub fn at(&mut self, quantile: f64) -> f64 {
        self.0.sort_by(f64::total_cmp);
        let last = self.0.len() - 1;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        self.0[(last as f64 * quantile).round() as usize]
    }

    pub fn median(&mut self) -> f64 {
        self.at(0.5)
    }
}

/// The release build beside this benchmark.
fn program() -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name("lean-beam");
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} is missing; `cargo build --release` first", path.display()).into())
    }
}

/// A session without a broker.
pub async fn raw_worker(root: &AbsPath) -> Result<Session, Failure> {
    let launch = qualify::prepare(root, &HostEnv::capture(), &Choice::Auto, &Qualifier, &Silent)?.launch;
    let session = Session::new(SessionConfig::new(root.clone(), 1, Arc::new(CommandSpawn(worker_command(launch)))));
    open(&session, root, TEXT).await?;
    probe(&session, root).await?;
    Ok(session)
}

/// Makes this the text of `A.lean`; the version.
/// Opens the file and waits for it; the version.
pub async fn open(session: &Session, root: &AbsPath, text: &str) -> Result<u64, Failure> {
    let seq = session.reserve();
    Ok(session.apply(&root.join("A.lean"), Snapshot::new(seq, text, None)).await?.version)
}

async fn probe(session: &Session, root: &AbsPath) -> Result<(), Failure> {
    let path = root.join("A.lean");
    let params = json!({
        "textDocument": { "uri": uri::from_path(&path), "version": 1 },
        "position": { "line": 1, "character": 2 },
        "text": "exact ⟨hp, hq⟩",
    });
    let reply = session.request(&path, RequestSpec::new("$/lean/runAt", params).at_version(1), None).await?;
    let value: Value = serde_json::from_str(reply.value.get())?;
    right(&value)
}

/// A fast wrong answer is no figure.
/// The answer that the probe has.
pub fn right(result: &Value) -> Result<(), Failure> {
    if result["success"] == true && result["proofState"]["goals"] == json!([]) {
        Ok(())
    } else {
        Err(format!("a wrong answer: {result}").into())
    }
}

struct Cli {
    program: PathBuf,
    root: AbsPath,
}

impl Cli {
    fn json(&self, args: &[&str]) -> Result<Value, Failure> {
        let out = Command::new(&self.program).args(args).current_dir(&self.root).stdin(Stdio::null()).output()?;
        if !out.status.success() {
            return Err(format!(
                "lean-beam {args:?}: {}{}",
                String::from_utf8_lossy(&out.stdout),
                String::from_utf8_lossy(&out.stderr)
            )
            .into());
        }
        let value: Value = serde_json::from_slice(&out.stdout)?;
        if args[0] == "run-at" {
            right(&value["result"])?;
        }
        Ok(value)
    }

    fn version(&self) -> Result<(), Failure> {
        let out = Command::new(&self.program).arg("version").current_dir(&self.root).stdin(Stdio::null()).output()?;
        if out.status.success() { Ok(()) } else { Err("`lean-beam version` fails".into()) }
    }
}

/// The daemon that the command line started, spoken to directly.
struct Daemon {
    socket: PathBuf,
    pid: u64,
}

impl Daemon {
    fn find(root: &AbsPath) -> Result<Self, Failure> {
        let registry: Value = serde_json::from_slice(&std::fs::read(root.join(".beam/beam-daemon.json"))?)?;
        let socket = registry["socket"].as_str().ok_or("the registry names no socket")?.into();
        Ok(Self { socket, pid: registry["pid"].as_u64().ok_or("the registry names no pid")? })
    }

    fn probe(&self, root: &AbsPath) -> Result<(), Failure> {
        let request = json!({
            "op": "run_at", "workspaceId": "beam-cli-project", "path": root.join("A.lean"),
            "version": 1, "line": 1, "character": 2, "text": "exact ⟨hp, hq⟩",
        })
        .to_string();
        let mut stream = BufReader::new(UnixStream::connect(&self.socket)?);
        stream.get_mut().write_all(format!("{}\n{request}", request.len()).as_bytes())?;
        loop {
            let mut length = String::new();
            stream.read_line(&mut length)?;
            let mut body = vec![0; length.trim().parse()?];
            stream.read_exact(&mut body)?;
            let message: Value = serde_json::from_slice(&body)?;
            if message["kind"] == "response" {
                return right(&message["payload"]["result"]);
            }
        }
    }

    fn rss_mb(&self) -> Result<f64, Failure> {
        rss_mb(self.pid)
    }
}

/// Resident memory of a process.
pub fn rss_mb(pid: u64) -> Result<f64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kb = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).and_then(|l| l.trim().strip_suffix(" kB"));
    Ok(kb.ok_or("no VmRSS")?.trim().parse::<f64>()? / 1024.0)
}
