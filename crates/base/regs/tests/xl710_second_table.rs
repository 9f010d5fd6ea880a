//! The XL710's registers, contexts, commands and errors against a second statement:
//! `xl710*.csv` have what Intel's public headers for the family give under the same
//! names (DPDK's, which agree with those of Linux and FreeBSD): places, strides and counts
//! of registers, bits of their fields, bits of the fields of queue contexts, opcodes,
//! errors. The headers tell no access class. They give PRTGEN_CNF once; drivers read one for each
//! of four ports.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use regs::i40e::{admin, context, *};

mod csv;
use csv::{by_name, check_places, number, rows};

#[test]
fn both_tables_have_the_same_registers() {
    let first = by_name(TABLE);
    let mut seen = BTreeSet::new();
    for row in rows(include_str!("xl710.csv")) {
        let register = first[row[0]];
        let numbers = [register.offset, register.stride, register.len() as u32];
        assert_eq!(numbers, [1, 2, 3].map(|column| number(row[column])), "{}", row[0]);
        assert!(seen.insert(row[0]), "{} twice", row[0]);
    }
    assert_eq!(seen, first.keys().copied().collect(), "every register is in both");
}

#[test]
fn places_are_words_of_the_bar_and_nobody_elses() {
    check_places(TABLE, BAR0_LEN);
    for register in TABLE {
        assert!(register.section == "10" && !register.what.is_empty(), "{}", register.name);
    }
}

/// Fields of registers: the name here, its value, and the header's name.
macro_rules! fields {
    ($($register:ident: $($ours:ident = $theirs:literal),*;)*) => {
        [$($((stringify!($register), stringify!($ours), $register::$ours, $theirs)),*),*]
    };
}

#[test]
fn both_tables_have_the_same_fields() {
    let second: BTreeMap<(&str, &str), (u32, u32)> = rows(include_str!("xl710_fields.csv"))
        .map(|row| ((row[0], row[1]), (number(row[2]), number(row[3]))))
        .collect();
    let mut seen = BTreeSet::new();
    for (register, name, value, theirs) in FIELDS {
        let (shift, mask) = second[&(register, theirs)];
        let expected = if name.ends_with("_SHIFT") { shift } else { mask << shift };
        assert_eq!(value, expected, "{register}::{name}");
        seen.insert((register, theirs));
    }
    assert_eq!(seen, second.keys().copied().collect(), "every field is in both");
}

const FIELDS: [(&str, &str, u32, &str); 159] = fields! {
    GLGEN_RSTCTL: GRSTDEL_MASK = "GRSTDEL";
    GLGEN_RSTAT: DEVSTATE_MASK = "DEVSTATE", RESET_TYPE_SHIFT = "RESET_TYPE", RESET_TYPE_MASK = "RESET_TYPE";
    GLGEN_RTRIG: CORER = "CORER", GLOBR = "GLOBR";
    PFGEN_CTRL: PFSWR = "PFSWR";
    PFGEN_PORTNUM: PORT_NUM_MASK = "PORT_NUM";
    PF_FUNC_RID: FUNCTION_NUMBER_MASK = "FUNCTION_NUMBER";
    PF_VT_PFALLOC: FIRSTVF_MASK = "FIRSTVF", LASTVF_SHIFT = "LASTVF", LASTVF_MASK = "LASTVF", VALID = "VALID";
    GLPCI_CNF2: MSI_X_PF_N_SHIFT = "MSI_X_PF_N", MSI_X_PF_N_MASK = "MSI_X_PF_N", MSI_X_VF_N_SHIFT = "MSI_X_VF_N";
    GLHMC_FCOEFMAX: PMFCOEFMAX_MASK = "PMFCOEFMAX";
    PRTGL_SAH: MFS_SHIFT = "MFS";
    PRTGEN_CNF: PORT_DIS = "PORT_DIS";
    PRTTSYN_CTL0: PF_ID_SHIFT = "PF_ID", PF_ID_MASK = "PF_ID", TSYNENA = "TSYNENA";
    PRTTSYN_CTL1: V2MESSTYPE0_SHIFT = "V2MESSTYPE0", V2MESSTYPE0_MASK = "V2MESSTYPE0", V2MESSTYPE1_SHIFT = "V2MESSTYPE1", V2MESSTYPE1_MASK = "V2MESSTYPE1", TSYNTYPE_SHIFT = "TSYNTYPE", TSYNTYPE_MASK = "TSYNTYPE", UDP_ENA_SHIFT = "UDP_ENA", UDP_ENA_MASK = "UDP_ENA", TSYNENA = "TSYNENA";
    GLNVM_GENS: NVM_PRES = "NVM_PRES", SR_SIZE_SHIFT = "SR_SIZE", SR_SIZE_MASK = "SR_SIZE";
    GLNVM_FLA: LOCKED = "LOCKED";
    GLNVM_SRCTL: ADDR_SHIFT = "ADDR", ADDR_MASK = "ADDR", WRITE = "WRITE", START = "START", DONE = "DONE";
    GLNVM_SRDATA: RDDATA_SHIFT = "RDDATA";
    GLNVM_ULD: CONF_CORE_DONE = "CONF_CORE_DONE", CONF_GLOBAL_DONE = "CONF_GLOBAL_DONE";
    PF_ATQLEN: LEN_MASK = "ATQLEN", VFE = "ATQVFE", OVFL = "ATQOVFL", CRIT = "ATQCRIT", ENABLE = "ATQENABLE";
    PF_ARQLEN: LEN_MASK = "ARQLEN", ENABLE = "ARQENABLE";
    PFHMC_SDCMD: PMSDIDX_MASK = "PMSDIDX", PMSDWR = "PMSDWR";
    PFHMC_SDDATALOW: VALID = "PMSDVALID", TYPE_DIRECT = "PMSDTYPE", BPCOUNT_SHIFT = "PMSDBPCOUNT", BPCOUNT_MASK = "PMSDBPCOUNT", ADDRESS_MASK = "PMSDDATALOW";
    PFHMC_PDINV: PMSDIDX_MASK = "PMSDIDX", PMPDIDX_SHIFT = "PMPDIDX";
    PFHMC_ERRORINFO: ERROR_TYPE_SHIFT = "HMC_ERROR_TYPE", OBJECT_TYPE_SHIFT = "HMC_OBJECT_TYPE", ERROR_DETECTED = "ERROR_DETECTED";
    GLHMC_LANTXBASE: BASE_MASK = "FPMLANTXBASE";
    GLHMC_LANRXBASE: BASE_MASK = "FPMLANRXBASE";
    PFINT_ICR0: INTEVENT = "INTEVENT", GRST = "GRST", HMC_ERR = "HMC_ERR", VFLR = "VFLR", ADMINQ = "ADMINQ", SWINT = "SWINT";
    PFINT_ICR0_ENA: ADMINQ = "ADMINQ";
    PFINT_DYN_CTL0: INTENA = "INTENA", CLEARPBA = "CLEARPBA", SWINT_TRIG = "SWINT_TRIG", ITR_INDX_SHIFT = "ITR_INDX", ITR_INDX_NONE = "ITR_INDX", INTENA_MSK = "INTENA_MSK";
    PFINT_DYN_CTLN: INTENA = "INTENA", CLEARPBA = "CLEARPBA", SWINT_TRIG = "SWINT_TRIG", ITR_INDX_SHIFT = "ITR_INDX", ITR_INDX_NONE = "ITR_INDX", INTERVAL_SHIFT = "INTERVAL", INTERVAL_MASK = "INTERVAL", WB_ON_ITR = "WB_ON_ITR", INTENA_MSK = "INTENA_MSK";
    PFINT_LNKLST0: FIRSTQ_INDX_MASK = "FIRSTQ_INDX", FIRSTQ_TYPE_SHIFT = "FIRSTQ_TYPE";
    PFINT_LNKLSTN: FIRSTQ_INDX_MASK = "FIRSTQ_INDX", FIRSTQ_TYPE_SHIFT = "FIRSTQ_TYPE";
    PFINT_ITRN: INTERVAL_MASK = "INTERVAL";
    QINT_RQCTL: MSIX_INDX_MASK = "MSIX_INDX", ITR_INDX_SHIFT = "ITR_INDX", ITR_INDX_MASK = "ITR_INDX", NEXTQ_INDX_SHIFT = "NEXTQ_INDX", NEXTQ_INDX_MASK = "NEXTQ_INDX", NEXTQ_TYPE_SHIFT = "NEXTQ_TYPE", CAUSE_ENA = "CAUSE_ENA", INTEVENT = "INTEVENT";
    QINT_TQCTL: MSIX_INDX_MASK = "MSIX_INDX", ITR_INDX_SHIFT = "ITR_INDX", ITR_INDX_MASK = "ITR_INDX", NEXTQ_INDX_SHIFT = "NEXTQ_INDX", NEXTQ_INDX_MASK = "NEXTQ_INDX", NEXTQ_TYPE_SHIFT = "NEXTQ_TYPE", CAUSE_ENA = "CAUSE_ENA", INTEVENT = "INTEVENT";
    PFLAN_QALLOC: FIRSTQ_MASK = "FIRSTQ", LASTQ_SHIFT = "LASTQ", LASTQ_MASK = "LASTQ", VALID = "VALID";
    GLLAN_TXPRE_QDIS: QINDX_MASK = "QINDX", SET_QDIS = "SET_QDIS", CLEAR_QDIS = "CLEAR_QDIS";
    GLLAN_RCTL_0: PXE_MODE = "PXE_MODE";
    PF_MDET_TX: VALID = "VALID";
    QTX_ENA: QENA_REQ = "QENA_REQ", QENA_STAT = "QENA_STAT";
    QTX_CTL: PF_INDX_SHIFT = "PF_INDX", VFVM_INDX_SHIFT = "VFVM_INDX", VFVM_INDX_MASK = "VFVM_INDX";
    QRX_ENA: QENA_REQ = "QENA_REQ", QENA_STAT = "QENA_STAT";
    PFQF_CTL_0: HASHLUTSIZE_512 = "HASHLUTSIZE", FD_ENA = "FD_ENA";
    PFQF_CTL_1: CLEARFDTABLE = "CLEARFDTABLE";
    PFQF_FDALLOC: FDALLOC_MASK = "FDALLOC", FDBEST_SHIFT = "FDBEST", FDBEST_MASK = "FDBEST";
    PFQF_FDSTAT: GUARANT_CNT_MASK = "GUARANT_CNT", BEST_CNT_SHIFT = "BEST_CNT", BEST_CNT_MASK = "BEST_CNT";
    GLQF_FDCNT_0: GUARANT_CNT_MASK = "GUARANT_CNT", BESTCNT_SHIFT = "BESTCNT", BESTCNT_MASK = "BESTCNT";
    PRTQF_FD_MSK: OFFSET_SHIFT = "OFFSET";
    GLQF_FD_PCTYPES: FD_PCTYPE_MASK = "FD_PCTYPE";
    GLQF_FD_MSK: MASK_MASK = "MASK", OFFSET_SHIFT = "OFFSET", OFFSET_MASK = "OFFSET";
    VPGEN_VFRTRIG: VFSWR = "VFSWR";
    VPGEN_VFRSTAT: VFRD = "VFRD";
    VFGEN_RSTAT1: VFR_STATE_MASK = "VFR_STATE";
    VPLAN_MAPENA: TXRX_ENA = "TXRX_ENA";
    VPLAN_QTABLE: QINDEX_MASK = "QINDEX";
    VSILAN_QBASE: VSIBASE_MASK = "VSIBASE", VSIQTABLE_ENA = "VSIQTABLE_ENA";
    VSILAN_QTABLE: QINDEX_0_MASK = "QINDEX_0", QINDEX_1_SHIFT = "QINDEX_1";
    VPINT_LNKLST0: FIRSTQ_INDX_MASK = "FIRSTQ_INDX", FIRSTQ_TYPE_SHIFT = "FIRSTQ_TYPE";
    VPINT_LNKLSTN: FIRSTQ_INDX_MASK = "FIRSTQ_INDX", FIRSTQ_TYPE_SHIFT = "FIRSTQ_TYPE";
    VFINT_DYN_CTL0: CLEARPBA = "CLEARPBA";
    VFINT_DYN_CTLN: CLEARPBA = "CLEARPBA";
    VFINT_ICR0_ENA: ADMINQ = "ADMINQ";
    VP_MDET_TX: VALID = "VALID";
    VP_MDET_RX: VALID = "VALID";
    PF_PCI_CIAA: VF_NUM_SHIFT = "VF_NUM";
};

#[test]
fn both_tables_have_the_same_contexts() {
    let mut seen = 0;
    for row in rows(include_str!("xl710_context.csv")) {
        let table = if row[0] == "tx" { context::tx::TABLE } else { context::rx::TABLE };
        let field = table.iter().find(|field| field.name.to_lowercase() == row[1]).unwrap();
        let numbers = [field.width as u32, field.lsb as u32];
        assert_eq!(numbers, [number(row[2]), number(row[3])], "{} {}", row[0], row[1]);
        seen += 1;
    }
    assert_eq!(seen, context::tx::TABLE.len() + context::rx::TABLE.len(), "every field is in both");
}

/// The header's name of a command, and the one here.
const RENAMED: &[(&str, &str)] = &[
    ("update_vsi_parameters", "UPDATE_VSI"),
    ("get_vsi_parameters", "GET_VSI"),
    ("set_vsi_promiscuous_modes", "SET_VSI_PROMISCUOUS"),
    ("set_link_restart_an", "RESTART_AN"),
];

#[test]
fn commands_and_errors_have_the_values_of_the_second_table() {
    let second: BTreeMap<String, u32> = rows(include_str!("xl710_opcodes.csv"))
        .map(|row| {
            let renamed = RENAMED.iter().find(|(theirs, _)| *theirs == row[0]);
            (renamed.map_or(row[0].to_uppercase(), |(_, ours)| (*ours).to_owned()), number(row[1]))
        })
        .collect();
    for (value, name) in admin::opcode::TABLE {
        assert_eq!(Some(&u32::from(*value)), second.get(*name), "{name}");
        assert_eq!(admin::name(*value), *name);
    }
    let theirs: Vec<(String, u32)> =
        rows(include_str!("xl710_errors.csv")).map(|row| (row[0].to_owned(), number(row[1]))).collect();
    let ours: Vec<(String, u32)> =
        admin::ERRORS.iter().map(|(value, name, _)| ((*name).to_owned(), u32::from(*value))).collect();
    assert_eq!(ours, theirs);
    use admin::error::*;
    for (value, name) in [
        (EPERM, "EPERM"),
        (ENOENT, "ENOENT"),
        (ESRCH, "ESRCH"),
        (ENXIO, "ENXIO"),
        (E2BIG, "E2BIG"),
        (ENOMEM, "ENOMEM"),
        (EBUSY, "EBUSY"),
        (EEXIST, "EEXIST"),
        (EINVAL, "EINVAL"),
        (ENOSPC, "ENOSPC"),
        (ENOSYS, "ENOSYS"),
        (BAD_ADDR, "BAD_ADDR"),
    ] {
        assert!(ours.contains(&(name.to_owned(), value.into())), "{name}");
    }
}
