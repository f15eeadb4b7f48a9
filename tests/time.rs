//! One parser for moments and durations: exact to the millisecond, never early, and nothing that can mean two things.

use std::time::Duration;

use duewheel::clock::{Moment, parse_duration, show_duration};
use proptest::prelude::*;

fn moment(text: &str) -> Result<u64, String> {
    Moment::parse("--at", text).map(Moment::as_millis).map_err(|e| e.to_string())
}

fn duration(text: &str) -> Result<u64, String> {
    parse_duration("--in", text)
        .map(|d| u64::try_from(d.as_millis()).expect("a parsed duration fits"))
        .map_err(|e| e.to_string())
}

#[test]
fn one_moment_in_any_offset_is_the_same_millisecond() {
    for text in [
        "2026-03-01T12:00:00+08:00",
        "2026-03-01T04:00:00Z",
        "2026-02-28T23:00:00-05:00",
        "2026-03-01T04:00:00.000000Z",
        "2026-03-01T04:00:00-00:00",
        "2026-03-01T09:45:00+05:45",
        "1772337600000",
    ] {
        assert_eq!(moment(text), Ok(1_772_337_600_000), "{text}");
    }
}

#[test]
fn what_is_finer_than_a_millisecond_is_rounded_up_never_early() {
    assert_eq!(moment("2026-03-01T04:00:00.0009Z"), Ok(1_772_337_600_001));
    assert_eq!(moment("2026-03-01T04:00:00.000000000000000000000000000001Z"), Ok(1_772_337_600_001));
    assert_eq!(moment("2026-03-01T04:00:00.0010Z"), Ok(1_772_337_600_001));
    assert_eq!(moment("2026-03-01T03:59:59.9999Z"), Ok(1_772_337_600_000));
    assert_eq!(moment("2026-03-01T04:00:00.5Z"), Ok(1_772_337_600_500));
}

#[test]
fn moments_beyond_the_old_limits_are_exact_and_print_back() {
    for (text, millis) in [
        ("2038-01-19T03:14:08.000Z", 2_147_483_648_000),
        ("2106-02-07T06:28:16.000Z", 4_294_967_296_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("1970-01-01T00:00:00.000Z", 0),
        ("2028-02-29T00:00:00.000Z", 1_835_395_200_000),
    ] {
        assert_eq!(moment(text), Ok(millis), "{text}");
        assert_eq!(Moment::from_millis(millis).unwrap().to_string(), text);
    }
}

#[test]
fn a_text_that_names_no_moment_or_another_grammar_is_refused() {
    for text in [
        "",
        "tomorrow",
        "04:00",
        "2026-03-01",
        "2026-03-01T04:00:00",
        "2026-03-01T04:00Z",
        "2026-02-30T10:00Z",
        "2026-10-25T02:30",
        "2026-03-01 04:00:00Z",
        "2026-03-01t04:00:00Z",
        "2026-03-01T04:00:00z",
        "2026-03-01T12:00:00+0800",
        "2026-03-01T12:00:00+08",
        "2026-03-01T12:00:00+24:00",
        "2026-03-01T12:00:00+08:60",
        "2026-03-01T12:00:00\u{2212}05:00",
        "2026-03-01T12:00:00+08:00[Asia/Shanghai]",
        "2026-02-29T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-03-01T24:00:00Z",
        "2026-03-01T23:59:60Z",
        "2026-03-01T04:60:00Z",
        "2026-03-01T04:00:00.Z",
        "2026-03-01T04:00:00,5Z",
        "2026-3-1T04:00:00Z",
        " 2026-03-01T04:00:00Z",
        "2026-03-01T04:00:00Z ",
        "+2026-03-01T04:00:00Z",
        "10000-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59.9991Z",
        "9999-12-31T23:59:59-00:01",
        "-1",
        "0",
        "1",
        "177233760000",
        "17723376000000",
        "20260301040000",
        "1772337600000000",
        "9223372036854775808",
        "18446744073709551616",
        "1e30",
        "1772337600000.5",
        "NaN",
        "inf",
        "0x10",
        "١٧٧٢٣٣٧٦٠٠٠٠٠",
    ] {
        assert!(moment(text).is_err(), "{text:?} was read as {:?}", moment(text));
    }
}

#[test]
fn a_refused_moment_says_what_to_write_instead() {
    insta::assert_snapshot!(
        [
            "1772337600",
            "2026-03-01T04:00:00",
            "2026-03-01",
            "2026-03-01 04:00:00z",
            "2026-02-30T00:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T12:00:00+24:00",
            "1969-12-31T23:59:59Z",
            "tomorrow",
        ]
        .map(|text| moment(text).unwrap_err())
        .join("\n")
    );
}

#[test]
fn durations_are_whole_numbers_with_units() {
    for (text, millis) in [
        ("30m", 1_800_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("90s", 90_000),
        ("90m", 5_400_000),
        ("1d", 86_400_000),
        ("1d 2h 3m 4s 5ms", 93_784_005),
        ("100ms", 100),
        ("0", 0),
        ("0s", 0),
        ("0ms", 0),
        ("007m", 420_000),
        ("25d", 2_160_000_000),
        ("50d", 4_320_000_000),
        ("100y", 3_153_600_000_000),
    ] {
        assert_eq!(duration(text), Ok(millis), "{text}");
    }
}

#[test]
fn a_duration_that_can_mean_two_things_or_nothing_is_refused() {
    for text in [
        "",
        " ",
        "90",
        "15",
        "00",
        "h",
        "m",
        "-5m",
        "+5m",
        "5 minutes ago",
        "5 m",
        "30M",
        "1M",
        "1Y",
        "1D",
        "1w",
        "1mo",
        "5min",
        "5us",
        "5ns",
        "1.5h",
        "1,5h",
        "1e3s",
        "0x10s",
        "NaN",
        "inf",
        "1h90m",
        "1h60m",
        "30m1h",
        "1h1h",
        "1h  30m",
        " 30m",
        "30m ",
        "30m,",
        "1h30",
        "PT30M",
        "٣٠m",
        "30м",
        "18446744073709551615s 1000000000ns",
        "584554530873y",
        "9999999999y",
        "8036y",
        "5124095576030431h",
        "99999999999999999999s",
        "99999999999h",
    ] {
        assert!(duration(text).is_err(), "{text:?} was read as {:?}", duration(text));
    }
}

#[test]
fn a_refused_duration_names_the_units() {
    insta::assert_snapshot!(
        ["90", "30M", "1w", "-5m", "1h90m", "9999999999y", ""]
            .map(|text| duration(text).unwrap_err())
            .join("\n")
    );
}

proptest! {
    #[test]
    fn every_moment_prints_and_reads_back(millis in 0..=Moment::MAX.as_millis()) {
        let shown = Moment::from_millis(millis).unwrap().to_string();
        prop_assert_eq!(moment(&shown), Ok(millis));
    }

    #[test]
    fn a_moment_is_never_read_earlier_than_its_nanoseconds(
        seconds in 0..253_402_300_799_u64,
        nanos in 0..1_000_000_000_u32,
        offset in -1439..=1439_i32,
    ) {
        // The same instant written in a far zone by jiff, and rounded here by integer arithmetic.
        let offset = jiff::tz::Offset::from_seconds(offset * 60).unwrap();
        let instant = jiff::Timestamp::new(i64::try_from(seconds).unwrap(), i32::try_from(nanos).unwrap()).unwrap();
        let local = offset.to_datetime(instant);
        prop_assume!((1970..=9999).contains(&local.year()));
        let sign = if offset.seconds() < 0 { '-' } else { '+' };
        let minutes = offset.seconds().abs() / 60;
        let text = format!("{}.{nanos:09}{sign}{:02}:{:02}", local.strftime("%Y-%m-%dT%H:%M:%S"), minutes / 60, minutes % 60);
        prop_assert_eq!(moment(&text), Ok(seconds * 1000 + u64::from(nanos.div_ceil(1_000_000))));
    }

    #[test]
    fn every_duration_shows_and_reads_back(millis in 0..=Moment::MAX.as_millis()) {
        let shown = show_duration(Duration::from_millis(millis));
        prop_assert_eq!(duration(&shown), Ok(millis));
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,40}", near in "[0-9TZ:.+ dhmsy-]{0,40}") {
        let _ = (moment(&text), moment(&near), duration(&text), duration(&near));
    }
}
