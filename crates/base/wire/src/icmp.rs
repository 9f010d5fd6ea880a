//! What messages of ICMP have in common in both versions: the header with type, code and
//! checksum, and the echo with its identifier and sequence number (RFC 792; RFC 4443, section 4).
//! Numbers of types differ, and what the checksum covers: these stand with each version.

/// Declares the views `Header` and `Packet` over a message, and what an echo means, `Repr`. The
/// module has the places of fields (`offset`), the header's length and the types of echoes.
macro_rules! icmp {
    () => {
        header! {
            /// The first eight bytes of a message, behind which its data begins.
            Header[HEADER_LEN]
        }

        impl<T: Borrow<[u8; HEADER_LEN]>> Header<T> {
            /// The type of the message, such as [`ECHO_REQUEST`].
            #[inline(always)]
            pub fn message_type(&self) -> u8 {
                self.get::<{ offset::TYPE }, _>()
            }

            /// Which kind of it.
            #[inline(always)]
            pub fn code(&self) -> u8 {
                self.get::<{ offset::CODE }, _>()
            }

            /// The checksum as it stands.
            #[inline(always)]
            pub fn checksum(&self) -> u16 {
                self.get::<{ offset::CHECKSUM }, _>()
            }

            /// Of an echo: whose it is.
            #[inline(always)]
            pub fn identifier(&self) -> u16 {
                self.get::<{ offset::IDENTIFIER }, _>()
            }

            /// Of an echo: which one.
            #[inline(always)]
            pub fn sequence(&self) -> u16 {
                self.get::<{ offset::SEQUENCE }, _>()
            }
        }

        impl<T: BorrowMut<[u8; HEADER_LEN]>> Header<T> {
            /// Sets which message.
            #[inline(always)]
            pub fn set_message_type(&mut self, value: u8) {
                self.set::<{ offset::TYPE }, _>(value);
            }

            /// Sets which kind of it.
            #[inline(always)]
            pub fn set_code(&mut self, value: u8) {
                self.set::<{ offset::CODE }, _>(value);
            }

            /// Sets the checksum.
            #[inline(always)]
            pub fn set_checksum(&mut self, value: u16) {
                self.set::<{ offset::CHECKSUM }, _>(value);
            }

            /// Sets whose the echo is.
            #[inline(always)]
            pub fn set_identifier(&mut self, value: u16) {
                self.set::<{ offset::IDENTIFIER }, _>(value);
            }

            /// Sets which echo it is.
            #[inline(always)]
            pub fn set_sequence(&mut self, value: u16) {
                self.set::<{ offset::SEQUENCE }, _>(value);
            }

            /// Makes a question its answer: another type, code 0. The checksum follows (RFC
            /// 1624).
            #[inline(always)]
            pub fn update_to_reply(&mut self) {
                let (from, checksum) = (self.get::<{ offset::TYPE }, u16>(), self.checksum());
                let to = u16::from_be_bytes([ECHO_REPLY, 0]);
                self.set::<{ offset::TYPE }, _>(to);
                self.set_checksum(checksum::update(checksum, from, to));
            }
        }

        view! {
            /// A message in place.
            Packet
        }

        fn check_bytes(bytes: &[u8]) -> Result<()> {
            if bytes.len() < HEADER_LEN { Err(Error::Truncated) } else { Ok(()) }
        }

        forward! {
            Packet to Header[HEADER_LEN]:
            message_type -> u8, code -> u8, checksum -> u16, identifier -> u16, sequence -> u16;
            set_message_type(u8), set_code(u8), set_checksum(u16), set_identifier(u16), set_sequence(u16)
        }

        impl<T: AsRef<[u8]>> Packet<T> {
            /// All behind the header.
            pub fn data(&self) -> &[u8] {
                &self.as_ref()[HEADER_LEN..]
            }
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
            /// All behind the header.
            pub fn data_mut(&mut self) -> &mut [u8] {
                &mut self.bytes.as_mut()[HEADER_LEN..]
            }
        }

        /// What an echo means.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Repr<'a> {
            /// An answer, else a question.
            pub reply: bool,
            /// The number by which whoever asks knows its own echoes.
            pub identifier: u16,
            /// The echo's sequence number among those of its identifier.
            pub sequence: u16,
            /// What is to come back.
            pub data: &'a [u8],
        }

        impl<'a> Repr<'a> {
            /// Reads an echo.
            pub fn parse<T: AsRef<[u8]>>(packet: &'a Packet<T>) -> Result<Repr<'a>> {
                packet.check()?;
                let reply = match (packet.message_type(), packet.code()) {
                    (ECHO_REPLY, 0) => true,
                    (ECHO_REQUEST, 0) => false,
                    _ => return Err(Error::Unsupported),
                };
                let (identifier, sequence) = (packet.identifier(), packet.sequence());
                Ok(Repr { reply, identifier, sequence, data: packet.data() })
            }

            /// Bytes that [`Repr::emit`] writes.
            pub const fn len(&self) -> usize {
                HEADER_LEN + self.data.len()
            }

            /// Never: there is always a header.
            pub const fn is_empty(&self) -> bool {
                false
            }

            /// Writes the echo with its data; the checksum is still to be filled in.
            pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
                packet.set_message_type(if self.reply { ECHO_REPLY } else { ECHO_REQUEST });
                packet.set_code(0);
                packet.set_checksum(0);
                packet.set_identifier(self.identifier);
                packet.set_sequence(self.sequence);
                set_slice(packet.data_mut(), 0, self.data);
            }
        }
    };
}
