//! Printing that outlives its reader: std's macros panic when the pipe they
//! write to is closed, and a panic would leave sockets and devices behind. Made
//! before all other modules, these take the place of std's in the whole program.

/// As std's, but a reader who is gone is no reason to stop.
macro_rules! println {
    () => { println!("") };
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout().lock(), $($text)*);
    }};
}

/// As std's, but a reader who is gone is no reason to stop.
macro_rules! eprintln {
    () => { eprintln!("") };
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}

/// As std's, but a reader who is gone is no reason to stop.
macro_rules! print {
    ($($text:tt)*) => {{
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        let _ = write!(out, $($text)*).and_then(|()| out.flush());
    }};
}

/// As std's, but a reader who is gone is no reason to stop.
macro_rules! eprint {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = write!(std::io::stderr().lock(), $($text)*);
    }};
}
