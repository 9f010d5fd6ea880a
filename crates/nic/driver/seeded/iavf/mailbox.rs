//! Resets, the mailbox, and what is told by messages apart from queues.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "iavf-activity-not-awaited",
        about: "VFGEN_RSTAT is not read: the function is taken for active.",
        linter: Reports("FunctionNotActive", "4"),
        test: "i40e_vf::a_function_that_nobody_hosts_or_that_has_too_little_is_an_error",
        demo: false,
        edits: &[edit("iavf/init.rs", "self.bar.read32(VFGEN_RSTAT::AT)", "reset_state::ACTIVE")],
    },
    Bug {
        name: "iavf-reset-not-awaited",
        about: "RESET_VF is sent, and the mailbox enabled anew before the reset has begun.",
        linter: Reports("FunctionResetNotAwaited", "4"),
        test: "i40e_vf_hostile_pf::answers_that_do_not_come_or_belong_elsewhere_are_waited_for_in_vain",
        demo: false,
        edits: &[edit("iavf/init.rs", "Ok(disabled.then_some(()))", "Ok(Some(()))")],
    },
    Bug {
        name: "iavf-reset-unnoticed",
        about: "The length of the mailbox is not read again, and the announcement of a reset is not understood.",
        linter: Reports("AdminQueueOff", "7"),
        test: "i40e_vf::a_reset_by_the_host_is_told_and_the_port_opens_again",
        demo: false,
        edits: &[
            edit("iavf/mailbox.rs", "self.reset |= !self.queue.is_enabled();", ""),
            edit(
                "iavf/mailbox.rs",
                "told.event == event::RESET_IMPENDING",
                "told.event == event::RESET_IMPENDING && false",
            ),
        ],
    },
    Bug {
        name: "iavf-mailbox-base-exchanged",
        about: "The halves of the address of the queue for messages are exchanged.",
        linter: Reports("AdminQueueInvalid", "7"),
        test: "i40e_vf::frames_go_between_virtual_functions_the_port_and_the_wire",
        demo: false,
        edits: &[edit(
            "iavf/mailbox.rs",
            "AdminQueue::new(bar, REGISTERS, device, dma)",
            "AdminQueue::new(
            bar,
            Registers {
                send: [VF_ATQBAH1::AT, VF_ATQBAL1::AT, VF_ATQLEN1::AT, VF_ATQH1::AT, VF_ATQT1::AT],
                ..REGISTERS
            },
            device,
            dma,
        )",
        )],
    },
    Bug {
        name: "iavf-message-for-functions",
        about: "Messages are sent by the command of the physical function, SEND_MSG_TO_VF.",
        linter: Reports("AdminUnknownCommand", "7"),
        test: "i40e_vf::frames_go_between_virtual_functions_the_port_and_the_wire",
        demo: false,
        edits: &[edit(
            "iavf/mailbox.rs",
            "Descriptor::new(opcode::SEND_MSG_TO_PF)",
            "Descriptor::new(opcode::SEND_MSG_TO_VF)",
        )],
    },
    Bug {
        name: "iavf-message-not-flagged",
        about: "The descriptor of a message has a buffer without RD: the firmware is not to read it.",
        linter: Reports("AdminFlagsWrong", "7"),
        test: "i40e_vf::frames_go_between_virtual_functions_the_port_and_the_wire",
        demo: false,
        edits: &[edit(
            "iavf/mailbox.rs",
            "self.queue.write(command, bytes)",
            "self.queue.read(command, bytes.len()).map(|(answer, _)| answer)",
        )],
    },
    Bug {
        name: "iavf-message-without-bytes",
        about: "A message is sent as its kind alone.",
        linter: Reports("MessageLengthInvalid", "AVF 6"),
        test: "i40e_vf::frames_go_between_virtual_functions_the_port_and_the_wire",
        demo: false,
        edits: &[edit("iavf/mailbox.rs", "self.queue.write(command, bytes)", "self.queue.command(command)")],
    },
    Bug {
        name: "iavf-kind-in-upper-half",
        about: "The kind of a message stands in the upper half of the cookie, where answers have the status.",
        linter: Reports("MessageUnknown", "AVF 6"),
        test: "i40e_vf::frames_go_between_virtual_functions_the_port_and_the_wire",
        demo: false,
        edits: &[edit(
            "iavf/mailbox.rs",
            "command.cookie = kind.into();",
            "command.cookie = u64::from(kind) << 32;",
        )],
    },
    Bug {
        name: "iavf-version-not-asked",
        about: "VERSION is not sent: the physical function is taken to speak the same.",
        linter: Reports("MessageTooEarly", "AVF 6"),
        test: "i40e_vf_hostile_pf::answers_of_another_length_or_of_chance_do_no_harm",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "mailbox.ask(op::VERSION, &Version { major, minor }.encode())?",
            "Version { major, minor }.encode()",
        )],
    },
    Bug {
        name: "iavf-version-major-alone",
        about: "VERSION has the major number alone.",
        linter: Reports("MessageLengthInvalid", "AVF 6"),
        test: "i40e_vf::frames_go_between_virtual_functions_the_port_and_the_wire",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "mailbox.ask(op::VERSION, &Version { major, minor }.encode())?",
            "mailbox.ask(op::VERSION, &Version { major, minor }.encode()[..4])?",
        )],
    },
    Bug {
        name: "iavf-version-two",
        about: "VERSION says 2.1, which is no version of such messages.",
        linter: Reports("MessageArgumentInvalid", "AVF 6"),
        test: "i40e_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "mailbox.ask(op::VERSION, &Version { major, minor }.encode())?",
            "mailbox.ask(op::VERSION, &Version { major: major + 1, minor }.encode())?",
        )],
    },
    Bug {
        name: "iavf-statistics-of-vsi-alone",
        about: "GET_STATS has the VSI alone, without the words for queues.",
        linter: Reports("MessageLengthInvalid", "AVF 6"),
        test: "i40e_vf::frames_go_between_virtual_functions_the_port_and_the_wire",
        demo: false,
        edits: &[edit(
            "iavf/device.rs",
            "mailbox.ask(op::GET_STATS, &select.encode())?",
            "mailbox.ask(op::GET_STATS, &select.encode()[..4])?",
        )],
    },
    Bug {
        name: "iavf-mode-beside",
        about: "All multicast frames are asked for by the bit beside the right one.",
        linter: Reports("MessageArgumentInvalid", "AVF 6"),
        test: "i40e_vf::filters_and_modes_are_those_that_the_policy_lets_have",
        demo: false,
        edits: &[edit(
            "iavf/device.rs",
            "bit(multicast, promiscuous::MULTICAST)",
            "bit(multicast, promiscuous::MULTICAST << 1)",
        )],
    },
    Bug {
        name: "iavf-addresses-packed",
        about: "Addresses stand in their list without the two bytes behind each.",
        linter: Reports("MessageLengthInvalid", "AVF 6"),
        test: "i40e_vf::filters_and_modes_are_those_that_the_policy_lets_have",
        demo: false,
        edits: &[edit(
            "iavf/filter.rs",
            "self.ask(kind, &Addresses { vsi, addresses: some.to_vec() }.encode())",
            "self.ask(kind, &Addresses { vsi, addresses: some.to_vec() }.encode()[..4 + 6 * some.len()])",
        )],
    },
    Bug {
        name: "iavf-vlan-with-priority",
        about: "VLANs are given as tags have them, with a priority.",
        linter: Reports("MessageArgumentInvalid", "AVF 6"),
        test: "i40e_vf::vlans_are_chosen_stripped_or_hidden",
        demo: false,
        edits: &[edit(
            "iavf/filter.rs",
            "Vlans { vsi, vlans: some.to_vec() }",
            "Vlans { vsi, vlans: some.iter().map(|vlan| vlan | 7 << 13).collect() }",
        )],
    },
    Bug {
        name: "iavf-tags-not-asked-for",
        about: "Stripping of tags is asked for, though GET_VF_RESOURCES did not ask whether there is any.",
        linter: Reports("MessageNotOffered", "AVF 6"),
        test: "i40e_vf::vlans_are_chosen_stripped_or_hidden",
        demo: false,
        edits: &[
            edit(
                "iavf/init.rs",
                "capability::L2 | capability::VLAN | capability::RSS_PF",
                "capability::L2 | capability::RSS_PF",
            ),
            edit("iavf/init.rs", "resources.capabilities & capability::VLAN != 0", "true"),
        ],
    },
];
