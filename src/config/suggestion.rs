//! "Did you mean …?": the known word that a mistyped one is nearest to.

/// The candidate nearest to `word`, if it is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(d, candidate)| *d <= 1 + candidate.len() / 4)
        .min_by_key(|(d, _)| *d)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements (Levenshtein), without regard to case and with `-` as `_`.
fn distance(a: &str, b: &str) -> usize {
    let fold = |c: char| if c == '-' { '_' } else { c.to_ascii_lowercase() };
    let b: Vec<char> = b.chars().map(fold).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().map(fold).take(64).enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (diagonal + usize::from(ca != *cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_another_word_is_not() {
        let keys = ["lease", "lease_margin", "claim_batch", "concurrency"];
        assert_eq!(nearest("claim-batch", keys), Some("claim_batch"));
        assert_eq!(nearest("leese", keys), Some("lease"));
        assert_eq!(nearest("concurency", keys), Some("concurrency"));
        assert_eq!(nearest("colour", keys), None);
    }
}
