//! Which reasons are the same one: orders that died of one trouble, whatever numbers and names its text gives for each.

/// The longest name of a group, in characters.
const LONGEST: usize = 160;

/// The group of a reason: its text with each number, id and quoted part replaced by `#`, at most 160 characters. Reasons of one group differ
/// only there.
pub fn reason_group(reason: &str) -> String {
    let mut group = String::new();
    let mut rest = reason;
    while let Some(first) = rest.chars().next() {
        let word = rest.split(|c: char| !is_part(c)).next().unwrap_or_default();
        if first == '"'
            && let Some(quoted) = rest[1..].split_once('"').map(|(quoted, _)| quoted)
        {
            group.push_str("\"#\"");
            rest = &rest[quoted.len() + 2..];
        } else if word.is_empty() {
            group.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            // What holds a digit names one thing among many: a number, an id, an address. A status that a hook answers tells groups apart.
            let names_one = word.bytes().any(|b| b.is_ascii_digit()) && !is_status(word);
            group.push_str(if names_one { "#" } else { word });
            rest = &rest[word.len()..];
        }
        if group.len() > 4 * LONGEST {
            break;
        }
    }
    group.chars().take(LONGEST).collect()
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Three digits from 100 to 599.
fn is_status(word: &str) -> bool {
    word.len() == 3 && word.parse::<u16>().is_ok_and(|number| (100..600).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_numbers_and_names_alone_are_one_group() {
        for (a, b) in [
            ("attempt 12 failed: order 8213", "attempt 9 failed: order 77"),
            ("no row for \"o-1\"", "no row for \"another one\""),
            ("connect 10.0.0.1:5432", "connect 10.0.0.7:5432"),
            ("id 3f2a9c", "id 99ab01"),
        ] {
            assert_eq!(reason_group(a), reason_group(b));
        }
        assert_eq!(reason_group("the hook answered 500 to o-1042"), "the hook answered 500 to o-#");
        assert_ne!(reason_group("the hook answered 500"), reason_group("the hook answered 404"));
        assert_ne!(reason_group("rejected"), reason_group("gone"));
    }

    #[test]
    fn any_text_has_a_group() {
        for text in ["", "\"", "\"\"", "订单 17 不存在", "a\"b", &"x".repeat(10_000), &"\"1\"".repeat(2000)]
        {
            assert!(reason_group(text).chars().count() <= LONGEST, "{text}");
        }
        assert_eq!(reason_group("订单 17 不存在"), "订单 # 不存在");
    }
}
