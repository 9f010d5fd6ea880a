//! Times as HTTP writes them (RFC 9110, section 5.6.7).

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_S: i64 = 86_400;

/// A time in seconds of Unix time, as in `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn format(time_s: i64) -> String {
    let (days, seconds) = (time_s.div_euclid(DAY_S), time_s.rem_euclid(DAY_S));
    let (year, month, day) = date_of(days);
    let weekday = DAYS[days.rem_euclid(7) as usize];
    let month = MONTHS[month as usize - 1];
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Reads a time in one of the three forms that there are.
pub fn parse(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let words: Vec<&str> = text.split([' ', '-', ',']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, clock) = match words[..] {
        // Sun, 06 Nov 1994 08:49:37 GMT, and Sunday, 06-Nov-94 08:49:37 GMT.
        [_, day, month, year, clock, "GMT"] => (day, month, year, clock),
        // Sun Nov  6 08:49:37 1994.
        [_, month, day, clock, year] => (day, month, year, clock),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let digits = |text: &str, most| number(text, most);
    let (day, mut year) = (digits(day, 31).filter(|day| *day > 0)?, digits(year, 9999)?);
    if year < 100 {
        year += if year < 70 { 2000 } else { 1900 };
    }
    let mut parts = clock.split(':');
    let mut next = |most| digits(parts.next()?, most);
    let (hour, minute, second) = (next(23)?, next(59)?, next(60)?);
    Some(days_of(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second)
}

fn number(text: &str, most: i64) -> Option<i64> {
    let is_short = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|value| is_short && *value <= most)
}

/// Year, month and day of days since 1970, by years that begin in March.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970 of a date.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_of_a_time_are_read() {
        let time = 784_111_777;
        assert_eq!(format(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        let forms =
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
        forms.iter().for_each(|form| assert_eq!(parse(form.as_bytes()), Some(time), "{form}"));
        for wrong in
            ["", "now", "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "1 2 3 4 5"]
        {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for n in 0..40_000 {
            let time = n * (DAY_S + 12_347) / 2;
            assert_eq!(parse(format(time).as_bytes()), Some(time));
        }
        assert!(format(951_782_400).starts_with("Tue, 29 Feb 2000"));
    }
}
