//! Numbers as people read them.

/// A count with its thousands apart: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let read = ["0", "999", "1,000", "12,345", "1,234,567", "18,446,744,073,709,551,615"];
        assert_eq!([0, 999, 1000, 12_345, 1_234_567, u64::MAX].map(grouped), read.map(str::to_owned));
    }
}
