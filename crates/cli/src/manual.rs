//! What is made from the grammar for other programs: completions and man pages.

use camino::Utf8Path;
use clap_complete::Shell;

use crate::error::{CliError, Ending};
use crate::{grammar, ui};

/// Prints the completions of a shell.
///
/// # Errors
/// The answer cannot be written.
pub fn completions(shell: Shell) -> Result<Ending, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut grammar::beam(), "lean-beam", &mut text);
    ui::answer(String::from_utf8_lossy(&text).trim_end())?;
    Ok(Ending::Done)
}

/// Writes one man page per command.
///
/// # Errors
/// The folder cannot be written.
pub fn man(dir: &Utf8Path) -> Result<Ending, CliError> {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(grammar::beam(), dir))
        .map_err(|source| CliError::System { what: "cannot write the man pages", source })?;
    Ok(Ending::Done)
}
