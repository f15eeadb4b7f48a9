//! Every help page, so that a change of it is seen.

use crate::rig::cli::{Ran, duewheel};

fn help(args: &[&str]) -> String {
    let ran = Ran::of(duewheel().args(args).arg("--help").env("COLUMNS", "100")).ends(0);
    assert!(ran.stderr.is_empty(), "{ran:?}");
    ran.stdout
}

#[test]
fn the_first_page_lists_commands_and_exit_codes() {
    insta::assert_snapshot!("help", help(&[]));
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let first = help(&[]);
    let commands = first.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut pages = String::new();
    let mut count = 0;
    for command in commands.lines().filter_map(|l| l.strip_prefix("  ")).filter(|l| !l.starts_with(' ')) {
        let name = command.split_whitespace().next().unwrap();
        let page = help(&[name]);
        assert!(page.contains("Example"), "{name} has no example");
        // The global options are on every page; once is enough here.
        let own = page.split("Global options:").next().unwrap();
        let examples = page.find("Example").map_or("", |at| &page[at..]);
        pages.push_str(&format!("=== {name}\n{own}{examples}\n"));
        count += 1;
    }
    assert_eq!(count, 38, "one page for each command");
    insta::assert_snapshot!("help_of_commands", pages);
}
