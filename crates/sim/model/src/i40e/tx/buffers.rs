//! How many buffers the segments of a packet that is cut are made of (datasheet 332464,
//! chapter 8).

/// The most buffers of which one segment is made: those of the headers and of its piece.
pub fn most_buffers(pieces: &[usize], headers: usize, mss: usize) -> usize {
    let ends: Vec<usize> = pieces
        .iter()
        .scan(0, |end, len| {
            *end += len;
            Some(*end)
        })
        .collect();
    let holding = |byte: usize| ends.partition_point(|end| *end <= byte);
    let total = ends.last().copied().unwrap_or(0);
    let of_headers = holding(headers.saturating_sub(1)) + 1;
    let segments = (headers..total).step_by(mss.max(1));
    let of_piece = |from: usize| holding((from + mss).min(total) - 1) - holding(from) + 1;
    segments.map(|from| of_headers + of_piece(from)).max().unwrap_or(of_headers)
}

#[cfg(test)]
mod tests {
    use super::most_buffers;

    #[test]
    fn buffers_are_counted_segment_by_segment() {
        assert_eq!(most_buffers(&[54, 1000], 54, 100), 2, "headers, and one piece");
        assert_eq!(most_buffers(&[1054], 54, 1000), 2, "the same buffer is read twice");
        assert_eq!(most_buffers(&[54, 10, 10, 10, 10], 54, 20), 3);
        assert_eq!(most_buffers(&[54, 15, 10, 10, 10], 54, 20), 4, "a piece from the middle to the middle");
        assert_eq!(most_buffers(&[], 54, 20), 1);
    }
}
