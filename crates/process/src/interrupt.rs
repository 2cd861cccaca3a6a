//! Interrupts at a terminal. The terminal signals its foreground group only, and children are in groups of their own; so a program
//! that waits for them has to pass the signal on, or they would outlive it.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::group::ProcessGroup;

/// How long children have to end by themselves.
const GRACE: Duration = Duration::from_millis(200);

/// Whether an interrupt ends this process. Once a handler is installed the system's own way, which is to end it, is gone for good.
static ENDS: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt (SIGINT, SIGTERM, SIGHUP) ends the children of this process and then the process, which exits with 128 and the
/// signal's number, as a shell would report it. For a command, before it waits for children.
pub fn end_on_interrupt() {
    static LISTENER: Once = Once::new();
    ENDS.store(true, Ordering::SeqCst);
    LISTENER.call_once(|| {
        let (tx, rx) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            if let Err(error) = listen(&tx) {
                tracing::warn!(%error, "an interrupt will not be passed on to child processes");
            }
        });
        // Only when the handlers are in place may a child be started. An error drops the sender.
        let _ready = rx.recv();
    });
}

/// Undoes [`end_on_interrupt`], for whoever has handlers of their own in place.
pub fn leave_interrupts() {
    ENDS.store(false, Ordering::SeqCst);
}

fn listen(ready: &std::sync::mpsc::Sender<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let _ready = ready.send(());
        loop {
            let number = tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
                _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
                _ = hangup.recv() => SignalKind::hangup().as_raw_value(),
            };
            if ENDS.load(Ordering::SeqCst) {
                ProcessGroup::all_live().into_iter().for_each(ProcessGroup::terminate);
                std::thread::sleep(GRACE);
                ProcessGroup::all_live().into_iter().for_each(ProcessGroup::kill);
                std::process::exit(128 + number);
            }
        }
    })
}
