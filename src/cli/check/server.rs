//! The version of the server: whether duewheel works with it, and whether its makers have closed in it what was found by September 2026.
//! The table stands in docs/operations.md, too.

/// The lines that are still mended, oldest first, each with the least release that has every mend.
const REDIS: [[u32; 3]; 7] =
    [[7, 2, 16], [7, 4, 11], [8, 2, 10], [8, 4, 6], [8, 6, 7], [8, 8, 3], [8, 10, 2]];
const VALKEY: [[u32; 3]; 5] = [[7, 2, 14], [8, 0, 10], [8, 1, 9], [9, 0, 5], [9, 1, 1]];

/// What is to be said of a version.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Patched {
    /// Too old to work with.
    Old,
    /// Works, but its makers have mended more since: from this release on.
    Open([u32; 3]),
    /// Nothing is known against it.
    Yes,
}

/// Judges a version; one that could not be read is left alone.
pub(super) fn judge(name: &str, version: &[u32]) -> Patched {
    let (needed, mended): (&[u32], &[[u32; 3]]) =
        if name == "valkey" { (&[7, 2], &VALKEY) } else { (&[7, 0], &REDIS) };
    if version.is_empty() {
        return Patched::Yes;
    }
    if version < needed {
        return Patched::Old;
    }
    // Of a line that is not mended any more, the next one that is.
    match mended.iter().find(|least| version < &least[..2] || version.starts_with(&least[..2])) {
        Some(least) if version < &least[..] => Patched::Open(*least),
        _ => Patched::Yes,
    }
}

/// A version as it is shown: `redis 7.4.11`.
pub(super) fn shown(name: &str, version: &[u32]) -> String {
    format!("{name} {}", dotted(version))
}

/// What to do about a version that is not mended.
pub(super) fn advice(name: &str, least: &[u32; 3]) -> String {
    format!(
        "its makers closed security holes in scripts and TLS with {name} {} (docs/operations.md); a distribution may have mended it \
         under the old number, as Debian does: look at its changelog, else upgrade",
        dotted(least)
    )
}

fn dotted(version: &[u32]) -> String {
    version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_judged_by_the_least_release_of_its_line_that_is_mended() {
        use Patched::{Old, Open, Yes};
        for (name, version, expected) in [
            ("redis", &[6, 2, 24][..], Old),
            ("redis", &[7, 0, 15], Open([7, 2, 16])),
            ("redis", &[7, 2, 15], Open([7, 2, 16])),
            ("redis", &[7, 2, 16], Yes),
            ("redis", &[7, 4, 0], Open([7, 4, 11])),
            ("redis", &[7, 4, 11], Yes),
            ("redis", &[8, 0, 6], Open([8, 2, 10])),
            ("redis", &[8, 2, 9], Open([8, 2, 10])),
            ("redis", &[8, 9, 240], Open([8, 10, 2])),
            ("redis", &[8, 10], Open([8, 10, 2])),
            ("redis", &[8, 10, 3], Yes),
            ("redis", &[9, 0, 0], Yes),
            ("redis", &[], Yes),
            ("valkey", &[7, 0, 15], Old),
            ("valkey", &[7, 2, 13], Open([7, 2, 14])),
            ("valkey", &[8, 1, 9], Yes),
            ("valkey", &[9, 0, 4], Open([9, 0, 5])),
            ("valkey", &[9, 1, 1], Yes),
            ("valkey", &[10, 0, 0], Yes),
        ] {
            assert_eq!(judge(name, version), expected, "{}", shown(name, version));
        }
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let manual = include_str!("../../../docs/operations.md");
        for (name, mended) in [("Redis", &REDIS[..]), ("Valkey", &VALKEY)] {
            let all = mended.iter().map(|least| dotted(least)).collect::<Vec<_>>().join(", ");
            assert!(manual.contains(&format!("| {name} | {all} |")), "{name}: {all}");
        }
    }
}
