//! `cenotaph quickstart`: the whole idea in a few seconds, on embedded destinations, with nothing
//! left behind. Every figure it tells is what the running worker says.

mod held;
mod story;
mod tell;
mod world;

use std::process::ExitCode;

use super::exit::Exit;
use super::output::Output;

/// Runs the story and tells it.
#[must_use]
pub fn run(output: Output) -> ExitCode {
    let runtime =
        match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                return Exit::Failed.say(&format!("the runtime could not be started: {error}"));
            }
        };
    let told = runtime.block_on(story::play(tell::Teller::new(output)));
    runtime.shutdown_background();
    match told {
        Ok(()) => Exit::Done.into(),
        Err(error) => Exit::Failed.say(&format!("quickstart: {error}")),
    }
}
