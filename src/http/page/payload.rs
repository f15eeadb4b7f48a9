//! What a shop stored with a deadline, as a person reads it: JSON in lines, MessagePack as JSON, anything else as bytes.

use serde::Deserialize as _;

/// The longest text that is shown, in bytes; the rest is behind a link of its own.
const LONGEST: usize = 16 * 1024;
/// The deepest MessagePack that is read: each level takes stack.
const DEEPEST: usize = 64;

/// A payload, decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// What it is: JSON, MessagePack, bytes.
    pub kind: &'static str,
    pub text: String,
    /// Whether there is more than is shown.
    pub is_cut: bool,
}

/// Decodes it.
pub(super) fn shown(bytes: &[u8]) -> Shown {
    let (kind, mut text) = match std::str::from_utf8(bytes) {
        Ok(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => ("JSON", pretty(text)),
        _ => match message_pack(bytes) {
            Some(text) => ("MessagePack", text),
            None => ("bytes, in hexadecimal", hex(bytes)),
        },
    };
    let is_cut = text.len() > LONGEST;
    if is_cut {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    Shown { kind, text, is_cut }
}

/// JSON in lines. Only the space between its tokens changes: big numbers, repeated keys and their order stay as they are.
fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    let mut rest = json.chars().peekable();
    while let Some(c) = rest.next() {
        if in_string {
            out.push(c);
            (in_string, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        match c {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                out.push(c);
                while rest.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                match rest.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = c == '"';
                out.push(c);
            }
        }
    }
    out
}

fn message_pack(bytes: &[u8]) -> Option<String> {
    let mut reader = rmp_serde::Deserializer::new(std::io::Cursor::new(bytes));
    reader.set_max_depth(DEEPEST);
    let value = serde_json::Value::deserialize(&mut reader).ok()?;
    // A single number or nil is in any bytes; only what is composed is surely meant.
    let whole = usize::try_from(reader.get_ref().position()).ok() == Some(bytes.len());
    let composed = value.is_object() || value.is_array();
    (whole && composed).then(|| serde_json::to_string_pretty(&value).ok()).flatten()
}

/// Sixteen bytes a line: place, bytes, letters.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    // What would be cut off anyway is not made.
    for (n, line) in bytes.chunks(16).enumerate().take(LONGEST / 64 + 1) {
        let numbers: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let letters: String =
            line.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect();
        out.push_str(&format!("{:06x}  {:<47}  {letters}\n", n * 16, numbers.join(" ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_put_in_lines_and_its_tokens_stay_as_they_are() {
        let text =
            r#"{"id":9007199254740993,"n": 1e400 ,"a":[],"b":{ },"s":"x{,}: \"\\","a":[1,{"c":null}]}"#;
        let expected = "{\n  \"id\": 9007199254740993,\n  \"n\": 1e400,\n  \"a\": [],\n  \"b\": {},\n  \"s\": \"x{,}: \\\"\\\\\",\n  \"a\": [\n    1,\n    {\n      \"c\": null\n    }\n  ]\n}";
        let shown = shown(text.as_bytes());
        assert_eq!((shown.kind, shown.text.as_str(), shown.is_cut), ("JSON", expected, false));
    }

    #[test]
    fn what_is_no_json_is_read_as_message_pack_or_shown_as_bytes() {
        let packed = rmp_serde::to_vec(&serde_json::json!([1, "zwei"])).unwrap();
        assert_eq!(
            (shown(&packed).kind, shown(&packed).text.as_str()),
            ("MessagePack", "[\n  1,\n  \"zwei\"\n]")
        );
        let bytes = shown(b"\xff<b>\x00");
        assert_eq!(bytes.kind, "bytes, in hexadecimal");
        assert_eq!(bytes.text, format!("000000  {:<47}  .<b>.\n", "ff 3c 62 3e 00"));
        assert_eq!(shown(b"{\"open\":").kind, "bytes, in hexadecimal");
        let deep = [vec![0x91; 100_000], vec![0xc0]].concat();
        assert_eq!(shown(&deep).kind, "bytes, in hexadecimal");
    }

    #[test]
    fn a_huge_payload_is_cut_between_two_characters() {
        let huge = format!("\"{}\"", "订".repeat(20_000));
        let shown = shown(huge.as_bytes());
        assert!(shown.is_cut && shown.text.len() <= LONGEST && shown.text.ends_with('订'));
    }
}
