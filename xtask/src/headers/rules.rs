//! What betrays that code knows a header, as the syntax shows it: reading at literal
//! offsets, literal numbers of protocols, and sums that are folded by hand. What the
//! syntax cannot tell is left to the reader: arrays of few elements may be indexed by a
//! number, and text has prefixes of known lengths, so small numbers do not count.

use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, GenericArgument, Item, Lit, LitInt, Member, Pat, PathArguments, Token};

/// Single indices, and ends of slices from the start, from here on are offsets: 6 is
/// the length of an Ethernet address.
const INDEX: u64 = 6;
/// Starts of slices to the end are offsets from here on: 4 is the length of an IPv4
/// address.
const START: u64 = 4;
/// Bounds of slices with two literal ones are offsets from here on.
const BOUND: u64 = 2;
/// Lengths of chunks from here on are those of headers.
const CHUNK: u64 = 8;
/// EtherTypes, as they are written.
const ETHERTYPES: [&str; 7] = ["0x0800", "0x0806", "0x8100", "0x86dd", "0x8808", "0x88a8", "0x88f7"];
/// Words in names of constants and in tables that stand for a protocol's number, or
/// that of a field of it.
const PROTOCOLS: [&str; 11] =
    ["arp", "dccp", "icmp", "icmp6", "icmpv6", "igmp", "ipv4", "ipv6", "sctp", "tcp", "udp"];
/// Names of values that are numbers of protocols.
const NUMBERS: [&str; 7] =
    ["ether_type", "ethertype", "icmp_type", "next_header", "proto", "protocol", "message_type"];
/// Types of `wire` that are such numbers.
const TYPES: [&str; 4] = ["EtherType", "Flags", "Operation", "Protocol"];
/// Methods that take offsets or lengths of bytes.
const METHODS: [&str; 6] = ["get", "get_mut", "split_at", "split_at_mut", "split_at_checked", "copy_within"];

/// The lines that know a header, with a sentence each.
pub(super) fn find(text: &str) -> Result<Vec<(usize, String)>, syn::Error> {
    let mut finder = Finder::default();
    finder.visit_file(&syn::parse_file(text)?);
    finder.found.sort();
    finder.found.dedup();
    Ok(finder.found)
}

/// The modules that are declared for tests only and stand in files of their own.
pub(super) fn test_modules(text: &str) -> Result<Vec<String>, syn::Error> {
    let items = syn::parse_file(text)?.items;
    let module = |item: Item| match item {
        Item::Mod(module) if module.content.is_none() && is_for_tests(&module.attrs) => {
            Some(module.ident.to_string())
        }
        _ => None,
    };
    Ok(items.into_iter().filter_map(module).collect())
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let words = list.tokens.to_string();
                    words.contains("test") && !words.contains("not")
                })
    })
}

#[derive(Default)]
struct Finder {
    found: Vec<(usize, String)>,
}

impl Finder {
    fn report(&mut self, literal: &LitInt, what: &str) {
        self.found.push((literal.span().start().line, format!("{literal} is {what}")));
    }

    /// Bounds of a range, or a lone index, of bytes.
    fn offsets(&mut self, index: &Expr) {
        match index {
            Expr::Range(range) => {
                let (start, end) = (range.start.as_deref(), range.end.as_deref());
                let (from, to) = match (start.and_then(integer), end.and_then(integer)) {
                    (Some(_), Some(_)) => (BOUND, BOUND),
                    _ => (START, INDEX),
                };
                let bounds = [(start, from), (end, to)];
                for literal in bounds.iter().filter_map(|(bound, least)| at_least((*bound)?, *least)) {
                    self.report(literal, "a literal offset of bytes");
                }
            }
            _ => {
                if let Some(literal) = at_least(index, INDEX) {
                    self.report(literal, "a literal offset of a byte");
                }
            }
        }
    }

    /// A comparison, or a match, of a number that a protocol gives.
    fn number(&mut self, of: &Expr, literal: &LitInt) {
        // Zero stands for none.
        if value(literal) != Some(0) && name(of).is_some_and(|name| NUMBERS.contains(&name.as_str())) {
            self.report(literal, "a number of a protocol");
        }
    }

    fn pattern(&mut self, value: &Expr, pattern: &Pat) {
        match pattern {
            Pat::Or(either) => either.cases.iter().for_each(|case| self.pattern(value, case)),
            Pat::Lit(lit) => {
                if let Lit::Int(literal) = &lit.lit {
                    self.number(value, literal);
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs[..],
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        let name = item.ident.to_string().to_lowercase();
        if let Some(literal) = integer(&item.expr)
            && value(literal).is_some_and(|value| (1..=0xFF).contains(&value))
            && name.split('_').any(|word| PROTOCOLS.contains(&word))
        {
            self.report(literal, "a number of a protocol, or an offset or length of its header");
        }
        visit::visit_item_const(self, item);
    }

    fn visit_lit_int(&mut self, literal: &'ast LitInt) {
        if ETHERTYPES.contains(&literal.to_string().to_lowercase().as_str()) {
            self.report(literal, "an EtherType");
        }
    }

    fn visit_expr_index(&mut self, index: &'ast syn::ExprIndex) {
        self.offsets(&index.index);
        visit::visit_expr_index(self, index);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        if METHODS.contains(&method.as_str()) {
            call.args.iter().for_each(|argument| self.offsets(argument));
        }
        let lengths = call.turbofish.iter().flat_map(|turbofish| &turbofish.args);
        for length in lengths.filter(|_| method.contains("_chunk")) {
            if let GenericArgument::Const(length) = length
                && let Some(literal) = at_least(length, CHUNK)
            {
                self.report(literal, "a literal length of a header");
            }
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let called = name(&call.func).unwrap_or_default();
        let last = call.args.last();
        if let Some(literal) = last.and_then(integer)
            && TYPES.contains(&called.as_str())
        {
            self.report(literal, "a number of a protocol");
        }
        if let Some(literal) = last.and_then(|last| at_least(last, BOUND))
            && called.ends_with("_at")
        {
            self.report(literal, "a literal offset of bytes");
        }
        if let (true, Some(Expr::Array(bytes))) = (called == "from_be_bytes", last) {
            let indexed = |byte: &'ast Expr| match byte {
                Expr::Index(index) => integer(&index.index),
                _ => None,
            };
            if let [Some(first), Some(_), ..] = bytes.elems.iter().map(indexed).collect::<Vec<_>>()[..] {
                self.report(first, "a literal offset of a number");
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let sides = [(&*binary.left, &*binary.right), (&*binary.right, &*binary.left)];
        for (one, other) in sides {
            match binary.op {
                BinOp::Eq(_) | BinOp::Ne(_) => {
                    if let Some(literal) = integer(other) {
                        self.number(one, literal);
                        let sum = name(one).is_some_and(|name| name.ends_with("sum"));
                        if sum && value(literal) == Some(0xFFFF) {
                            self.report(literal, "what a right checksum adds up to");
                        }
                    }
                }
                BinOp::Add(_) => {
                    if let (Some(literal), Some(_)) = (carry(one), low_half(other)) {
                        self.report(literal, "the fold of a checksum");
                    }
                }
                _ => {}
            }
        }
        if let BinOp::Shr(_) | BinOp::BitAnd(_) = binary.op
            && let Expr::Index(index) = &*binary.left
            && let Some(literal) = integer(&index.index)
            && value(literal) == Some(0)
            && integer(&binary.right).and_then(value).is_some_and(|bits| matches!(bits, 4 | 0xF))
        {
            self.report(literal, "the offset of a version or a header's length");
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_match(&mut self, matched: &'ast syn::ExprMatch) {
        for arm in &matched.arms {
            self.pattern(&matched.expr, &arm.pat);
            if let (Pat::Lit(from), Some(to)) = (&arm.pat, integer(&arm.body))
                && let Lit::Int(from) = &from.lit
                && (value(from), value(to)) == (Some(0), Some(0xFFFF))
            {
                self.report(to, "the other form of a checksum of zero");
            }
        }
        visit::visit_expr_match(self, matched);
    }

    fn visit_expr_tuple(&mut self, tuple: &'ast syn::ExprTuple) {
        if let (Some(Expr::Lit(first)), Some(literal)) =
            (tuple.elems.first(), tuple.elems.get(1).and_then(integer))
            && let Lit::Str(word) = &first.lit
            && PROTOCOLS.contains(&word.value().as_str())
        {
            self.report(literal, "a number of a protocol");
        }
        visit::visit_expr_tuple(self, tuple);
    }

    /// What stands in a macro is looked at when it reads as expressions, or as what
    /// `matches!` takes.
    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let tokens = called.tokens.clone();
        if called.path.is_ident("matches") {
            if let Ok(Matches { value, pattern }) = syn::parse2::<Matches>(tokens) {
                let mut inner = Finder::default();
                inner.pattern(&value, &pattern);
                inner.visit_expr(&value);
                inner.visit_pat(&pattern);
                self.found.extend(inner.found);
            }
            return;
        }
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens);
        for argument in arguments.into_iter().flatten() {
            let mut inner = Finder::default();
            inner.visit_expr(&argument);
            self.found.extend(inner.found);
        }
    }
}

/// What `matches!` takes; its guard is not looked at.
struct Matches {
    value: Expr,
    pattern: Pat,
}

impl Parse for Matches {
    fn parse(input: ParseStream<'_>) -> syn::Result<Matches> {
        let value = input.parse()?;
        input.parse::<Token![,]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        input.parse::<proc_macro2::TokenStream>()?;
        Ok(Matches { value, pattern })
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Cast(inner) => bare(&inner.expr),
        Expr::Reference(inner) => bare(&inner.expr),
        Expr::Unary(inner) => bare(&inner.expr),
        _ => expr,
    }
}

fn integer(expr: &Expr) -> Option<&LitInt> {
    match bare(expr) {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(literal) => Some(literal),
            _ => None,
        },
        _ => None,
    }
}

fn value(literal: &LitInt) -> Option<u64> {
    literal.base10_parse().ok()
}

fn at_least(expr: &Expr, least: u64) -> Option<&LitInt> {
    integer(expr).filter(|literal| value(literal).is_some_and(|value| value >= least))
}

/// The last name of a path, a field, or a call.
fn name(expr: &Expr) -> Option<String> {
    Some(match bare(expr) {
        Expr::Path(path) => {
            let last = path.path.segments.last()?;
            match &last.arguments {
                PathArguments::None => last.ident.to_string(),
                _ => return None,
            }
        }
        Expr::Field(field) => match &field.member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(_) => return name(&field.base),
        },
        Expr::MethodCall(call) => call.method.to_string(),
        Expr::Call(call) => return name(&call.func),
        _ => return None,
    })
}

/// `x >> 16`.
fn carry(expr: &Expr) -> Option<&LitInt> {
    match bare(expr) {
        Expr::Binary(binary) if matches!(binary.op, BinOp::Shr(_)) => {
            integer(&binary.right).filter(|literal| value(literal) == Some(16))
        }
        _ => None,
    }
}

/// `x & 0xFFFF`.
fn low_half(expr: &Expr) -> Option<&LitInt> {
    match bare(expr) {
        Expr::Binary(binary) if matches!(binary.op, BinOp::BitAnd(_)) => {
            integer(&binary.right).filter(|literal| value(literal) == Some(0xFFFF))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(body: &str) -> Vec<String> {
        let found = find(&format!("fn f() {{ {body}; }}")).expect("it is Rust");
        found.into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn literal_offsets_are_found() {
        for body in [
            "frame[12..14]",
            "header[9]",
            "&mut frame[..6]",
            "frame.get(12..14)",
            "ip.get_mut(7)",
            "frame[14..]",
            "frame[12..length]",
            "frame.split_at_mut(12)",
            "packet.first_chunk::<20>()",
            "u16_at(header, 6)",
            "u16::from_be_bytes([b[2], b[3]])",
            "bytes[0] >> 4",
            "usize::from(bytes[0] & 0xF) * 4",
            "assert!(frame[12] == x)",
            "matches!(frame[12..14], _)",
        ] {
            assert!(!said(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn literal_numbers_of_protocols_are_found() {
        for body in [
            "matches!(kind, 0x0800 | 0x86DD)",
            "match ethertype { 0x8100 => {} _ => {} }",
            "ip.protocol() == 17",
            "matches!(self.protocol, 6 | 17)",
            "match next_header { 58 => {} _ => {} }",
            "wire::ip::Protocol(17)",
            "const TCP: u8 = 6",
            "const UDP_LEN: usize = 8",
            "[(\"tcp\", 6)]",
        ] {
            assert!(!said(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn checksums_by_hand_are_found() {
        for body in [
            "(sum & 0xFFFF) + (sum >> 16)",
            "u64::from(x) + (sum >> 16) as u64 + (sum & 0xffff)",
            "checksum::sum(header) != 0xFFFF",
            "match !sum { 0 => 0xFFFF, sum => sum }",
        ] {
            let folds = said(body);
            assert_eq!(folds.is_empty(), body.starts_with("u64"), "{body}: {folds:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_not() {
        for body in [
            "words[1]",
            "ports[0] == ports[1]",
            "header[ipv4::offset::PROTOCOL] == Protocol::TCP.0",
            "packet.u16_at(14)",
            "bytes[at..at + 2]",
            "x.first_chunk::<4>()",
            "length == 17",
            "0x800",
            "text[2..]",
            "name[..5]",
            "option[3..length]",
            "mac[4] >> 4",
            "protocol == 0",
            "const TCP_OR_UDP: u32 = 256",
            "impl Asked { const UDP: u8 = 1; }",
        ] {
            assert_eq!(said(body), [""; 0], "{body}");
        }
    }

    #[test]
    fn tests_may_know_headers_and_lines_are_told() {
        let text = "#[cfg(test)]\nmod tests {\n fn f(b: &[u8]) { b[12]; }\n}\n\nfn g(b: &[u8]) {\n b[12];\n}";
        let found = find(text).expect("it is Rust");
        assert_eq!(found, [(7, "12 is a literal offset of a byte".to_owned())]);
        let text = "#[cfg(test)]\nmod tests;\n#[cfg(not(test))]\nmod other;\nmod third;";
        assert_eq!(test_modules(text).expect("it is Rust"), ["tests"]);
    }
}
