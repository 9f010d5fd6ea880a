//! What is in braces and parentheses: groups, compound elements, their parameters.

use super::{Next, Parser, Within};
use crate::lang::lexer::TokenKind;
use crate::lang::place::SourceLocation;
use crate::lang::tree::*;

impl<'a> Parser<'a> {
    pub(super) fn group(&mut self, place: &SourceLocation) -> Group<'a> {
        if self.too_deep(place, "maximum element group nesting depth exceeded") {
            let end = self.skip_braces();
            return Group { body: vec![], end };
        }
        self.depth += 1;
        let (body, end) = self.block(Within::Group);
        self.depth -= 1;
        Group { body, end: end.place }
    }

    /// The overloads of a compound element, its opening brace taken.
    pub(super) fn compound(&mut self, place: &SourceLocation) -> CompoundClass<'a> {
        let mut class = CompoundClass { overloads: vec![], extends: None };
        if self.too_deep(place, "maximum compound element nesting depth exceeded") {
            self.skip_braces();
            return class;
        }
        self.depth += 1;
        loop {
            if self.peek().kind == TokenKind::Dots {
                self.dots(&mut class);
                break;
            }
            let place = self.peek().place.clone();
            let formals = self.formals();
            let (body, end) = self.block(Within::Compound);
            class.overloads.push(Overload { formals, body, place });
            if end.kind != TokenKind::Bars {
                break;
            }
        }
        self.depth -= 1;
        class
    }

    /// `...` and the closing brace.
    fn dots(&mut self, class: &mut CompoundClass<'a>) {
        let dots = self.take();
        let closing = self.take();
        if class.overloads.is_empty() || closing.kind != TokenKind::Char('}') {
            let place = if class.overloads.is_empty() { &dots.place } else { &closing.place };
            self.problem(place, "'...' should occur last, after one or more compounds", "'}' after '...'");
            self.untake(closing);
            // What follows belongs to no overload that means anything.
            while self.block(Within::Compound).1.kind == TokenKind::Bars {}
        }
        class.extends = Some(dots.place);
    }

    fn formals(&mut self) -> Vec<Formal<'a>> {
        let mut formals: Vec<Formal<'a>> = vec![];
        loop {
            let token = self.take();
            let place = token.place.clone();
            match token.kind {
                TokenKind::Variable => formals.push(Formal { keyword: "", variable: token.text, place }),
                TokenKind::Name if self.peek().kind == TokenKind::Variable => {
                    let variable = self.take().text;
                    formals.push(Formal { keyword: token.text, variable, place });
                }
                TokenKind::Char('|') => return formals,
                _ => {
                    if !formals.is_empty() {
                        self.problem(&place, "expected variable", "a parameter, '$name' or 'KEYWORD $name'");
                    }
                    self.untake(token);
                    return formals;
                }
            }
            let token = self.take();
            match token.kind {
                TokenKind::Char('|') => return formals,
                TokenKind::Char(',') => {}
                _ => {
                    self.problem(&token.place, "expected ',' or '|'", "'|' after the parameters");
                    self.untake(token);
                    return formals;
                }
            }
        }
    }

    pub(super) fn class_statement(&mut self) -> Next<'a> {
        let mut token = self.take();
        let (mut name, place) = ("", token.place.clone());
        if token.kind == TokenKind::Name {
            name = token.text;
            token = self.take();
        } else {
            self.problem(&place, "expected element type name", "elementclass NAME { ... }");
        }
        let class = match token.kind {
            TokenKind::Char('{') => ClassUse::Compound(Box::new(self.compound(&token.place))),
            TokenKind::Name => ClassUse::Name(token.text, token.place),
            _ => {
                self.syntax_error(&token, "'{' or a class");
                if token.kind == TokenKind::End {
                    self.untake(token);
                }
                ClassUse::Missing
            }
        };
        Next::Statement(Statement::Class(ClassStatement { name, class, place }))
    }

    /// Complains when one more level is one too many.
    fn too_deep(&mut self, place: &SourceLocation, message: &str) -> bool {
        let deep = self.depth >= Parser::NESTING;
        if deep {
            self.problem(place, message, &format!("at most {} levels", Parser::NESTING));
        }
        deep
    }

    /// Past the brace or parenthesis that closes the one just taken.
    fn skip_braces(&mut self) -> SourceLocation {
        let mut open = 1usize;
        loop {
            let token = self.take();
            match token.kind {
                TokenKind::Char('(' | '{') => open += 1,
                TokenKind::Char(')' | '}') => open -= 1,
                TokenKind::End => open = 0,
                _ => {}
            }
            if open == 0 {
                let place = token.place.clone();
                if token.kind == TokenKind::End {
                    self.untake(token);
                }
                return place;
            }
        }
    }
}
