//! The end of whoever watches: a terminal that is closed, a pipe whose reader has gone, a signal.
//! A verb that shows something until it is told to stop ends with them, whatever it waits for.

use crate::exit::Failure;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{IsTerminal, stdin, stdout};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a verb may take to leave by itself, and its terminal to be restored.
const GRACE: Duration = Duration::from_millis(500);

/// Calls `stop` at HUP, INT and TERM, and when the terminal is closed. If the verb has not ended
/// [`GRACE`] later, `restore` is called and the process ends with code 0: a library that reads a
/// closed terminal may do so for ever.
///
/// # Errors
/// Signals cannot be caught.
pub(crate) fn leave_with(
    stop: impl Fn() + Send + Sync + 'static,
    restore: fn(),
) -> Result<(), Failure> {
    let leave = Arc::new(move || {
        stop();
        thread::sleep(GRACE);
        // A terminal that is held (Ctrl-S) takes nothing.
        thread::spawn(restore);
        thread::sleep(GRACE);
        std::process::exit(0);
    });
    let signalled = Arc::clone(&leave);
    ctrlc::set_handler(move || signalled()).context("signals cannot be caught")?;
    thread::spawn(move || {
        wait_for_end();
        leave();
    });
    Ok(())
}

/// Ends the process, with code 0, when nobody reads standard output any more: for a verb that may
/// have nothing to write for hours, and would not notice.
pub(crate) fn leave_with_reader() {
    thread::spawn(|| {
        wait_for_end();
        std::process::exit(0);
    });
}

/// Waits until standard output, or the terminal at standard input, has no other end any more. Of a
/// file it is never told.
fn wait_for_end() {
    let (input, output) = (stdin(), stdout());
    let watched = input.is_terminal();
    // Both are always told of; no event needs to be asked for.
    let end = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    loop {
        let (input, output) = (input.as_fd(), output.as_fd());
        let mut both =
            [PollFd::new(&output, PollFlags::empty()), PollFd::new(&output, PollFlags::empty())];
        if watched {
            both[1] = PollFd::new(&input, PollFlags::empty());
        }
        match poll(&mut both, None) {
            Ok(_) if both.iter().any(|fd| fd.revents().intersects(end)) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Without being told, the verb ends as it did.
            Err(_) => loop {
                thread::park();
            },
        }
    }
}
