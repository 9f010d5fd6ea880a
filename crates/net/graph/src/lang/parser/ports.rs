//! Port lists: `[0]`, `[0, 2-4]`, `[]` and `[0, ]`.

use super::Parser;
use crate::lang::lexer::{Token, TokenKind};
use crate::lang::problem::Problem;
use crate::lang::tree::Ports;

impl<'a> Parser<'a> {
    /// `[...]`, if it follows.
    pub(super) fn ports(&mut self) -> Option<Box<Ports>> {
        if self.peek().kind != TokenKind::Char('[') {
            return None;
        }
        self.take();
        let mut ports = Ports { ranges: vec![], open: false };
        let mut range = false;
        loop {
            let token = self.take();
            match token.kind {
                TokenKind::Name => self.port(&token, &mut ports, range),
                TokenKind::Char(']') => {
                    ports.open = true;
                    break;
                }
                _ => {
                    self.problem(&token.place, "syntax error: expected port number", "a number or ']'");
                    self.untake(token);
                    break;
                }
            }
            let token = self.take();
            match token.kind {
                TokenKind::Char(']') => break,
                TokenKind::Char('-') if !range => range = true,
                TokenKind::Char(',') => range = false,
                _ => {
                    self.problem(&token.place, "syntax error: expected ','", "',', '-' or ']'");
                    self.untake(token);
                    break;
                }
            }
        }
        if ports.ranges.is_empty() {
            ports.ranges.push((0, 0));
        }
        Some(Box::new(ports))
    }

    /// One port number; in a range the ports after the last one, up to it.
    fn port(&mut self, token: &Token<'a>, ports: &mut Ports, range: bool) {
        let port = match parse_port(token.text) {
            Some(port) if port <= u64::from(Parser::PORT) => port as u32,
            Some(_) => {
                let message = format!("port number {} too large", token.text);
                self.problem(&token.place, &message, &format!("at most {}", Parser::PORT));
                0
            }
            None => {
                self.problem(&token.place, "syntax error: port number should be integer", "a number");
                0
            }
        };
        match ports.ranges.last_mut() {
            Some((_, last)) if range && port > *last => *last = port,
            Some((_, last)) if range && port < *last => {
                let message = format!("port range ends at {port} before it begins at {last}");
                self.push(Problem::warning(&token.place, message));
            }
            Some(_) if range => {}
            _ => ports.ranges.push((port, port)),
        }
    }
}

/// A port number as C has it: decimal, `0x` hexadecimal, `0` octal.
fn parse_port(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    let digit = |c: char| c.is_digit(radix);
    if digits.is_empty() || !digits.chars().all(digit) {
        return None;
    }
    Some(u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}
