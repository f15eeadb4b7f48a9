//! A command line that cannot be read: what clap says of it over several lines, in one.

use clap::error::ErrorKind;

use super::exit::Exit;
use super::failure::Failure;
use super::output::{Colour, Output};

/// Says what is wrong with the command line, or shows the help that was asked for; answers how the program ends.
pub fn say(wrong: &clap::Error) -> Exit {
    let shows_help = wrong.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !wrong.use_stderr() || shows_help {
        // A reader that went away is no error.
        let _ = wrong.print();
        return if wrong.use_stderr() { Exit::Usage } else { Exit::Done };
    }
    // What could not be read as a whole may still say for whom the answer is.
    let json = std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json");
    let failure = Failure::Usage(in_one_line(&wrong.to_string()));
    Output::new(json, false, Colour::Auto).fail(&failure, false);
    Exit::Usage
}

/// The first paragraph and the tips; the usage and the pointer to the help are left out.
fn in_one_line(text: &str) -> String {
    let mut paragraphs = text.split("\n\n").map(|paragraph| {
        let lines = paragraph.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    });
    let first = paragraphs.next().unwrap_or_default();
    let mut line = first.trim_start_matches("error: ").to_owned();
    for tip in paragraphs.filter(|paragraph| paragraph.starts_with("tip: ")) {
        line.push_str(&format!(" ({})", tip.trim_start_matches("tip: ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_lines_become_one_and_the_tip_stays() {
        let text = "error: unexpected argument '--fro' found\n\n  tip: a similar argument exists: '--from'\n\nUsage: x --from <A>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            in_one_line(text),
            "unexpected argument '--fro' found (a similar argument exists: '--from')"
        );
        let text = "error: the following required arguments were not provided:\n  --in <DURATION>\n  <ID>\n\nUsage: x\n";
        assert_eq!(
            in_one_line(text),
            "the following required arguments were not provided: --in <DURATION> <ID>"
        );
    }
}
