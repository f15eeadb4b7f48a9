//! Orders' ids as the database's keys.

use super::settings::KeyType;

/// Whether `id` is the one text that its value has: `12`, never `012`, `+12`, `12.0` or ` 12`. Any other text is no key of the table,
/// whatever the database's own conversions would make of it.
pub(super) fn is_canonical(kind: KeyType, id: &str) -> bool {
    match kind {
        KeyType::Bigint => id.parse::<i64>().is_ok_and(|n| n.to_string() == id),
        KeyType::Uuid => {
            uuid::Uuid::try_parse(id).is_ok_and(|u| u.hyphenated().encode_lower(&mut [0; 36]) == id)
        }
        KeyType::Text => true,
    }
}

/// Orders keys as the database sorts them: numbers by value, text by bytes.
pub(super) fn compare(kind: KeyType, a: &str, b: &str) -> std::cmp::Ordering {
    match kind {
        KeyType::Bigint => a.parse::<i64>().unwrap_or(0).cmp(&b.parse::<i64>().unwrap_or(0)),
        KeyType::Uuid | KeyType::Text => a.cmp(b),
    }
}

/// Which of `databases` the routing value `text` belongs to.
pub(super) fn route(text: &str, databases: usize) -> usize {
    let count = databases.max(1);
    match text.parse::<i64>() {
        Ok(number) => usize::try_from(number.rem_euclid(i64::try_from(count).unwrap_or(1))).unwrap_or(0),
        // The polynomial of Redis Cluster, as for shards: operators can compute it with any Redis client.
        Err(_) => usize::from(crc::Crc::<u16>::new(&crc::CRC_16_XMODEM).checksum(text.as_bytes())) % count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_text_of_a_number_is_a_key() {
        for good in ["12", "0", "-5", "9223372036854775807", "-9223372036854775808"] {
            assert!(is_canonical(KeyType::Bigint, good), "{good}");
        }
        for bad in [
            "012",
            "+12",
            "12.0",
            " 12",
            "12 ",
            "1e3",
            "0x0c",
            "-0",
            "",
            "９",
            "9223372036854775808",
            "ORD-1",
        ] {
            assert!(!is_canonical(KeyType::Bigint, bad), "{bad}");
        }
    }

    #[test]
    fn only_the_lower_case_hyphenated_text_of_a_uuid_is_a_key() {
        let good = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        assert!(is_canonical(KeyType::Uuid, good));
        for bad in [
            good.to_uppercase(),
            good.replace('-', ""),
            format!("{{{good}}}"),
            format!("urn:uuid:{good}"),
            format!("{good} "),
        ] {
            assert!(!is_canonical(KeyType::Uuid, &bad), "{bad}");
        }
    }

    #[test]
    fn numbers_are_routed_by_their_value_and_text_by_its_crc() {
        assert_eq!(route("17", 8), 1);
        assert_eq!(route("-1", 8), 7);
        assert_eq!(route("123456789", 1), 0);
        assert_eq!(route("ORD-123456789", 8), route("ORD-123456789", 8));
        assert!(
            (0..100).map(|n| route(&format!("ORD-{n}"), 8)).collect::<std::collections::HashSet<_>>().len()
                == 8
        );
    }
}
