//! The commands between a script's lines, as far as they mean anything to this host: none of
//! them is run, so that a script changes nothing of the machine on which it runs, but for files of
//! zeros in `/tmp`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::settings::Settings;

/// Follows the commands of a script; `folder` is where their relative paths begin.
///
/// # Errors
/// The first command that this host does not know.
pub fn follow(text: &str, folder: &Path, settings: &mut Settings) -> Result<(), String> {
    let joined = text.replace("\\\n", " ");
    for line in joined.lines().flat_map(|line| line.split(';')) {
        let words = words(line);
        if let Some((command, arguments)) = words.split_first() {
            follow_one(command, arguments, folder, settings).map_err(|why| format!("{line}: {why}"))?;
        }
    }
    Ok(())
}

fn follow_one(
    command: &str,
    arguments: &[String],
    folder: &Path,
    settings: &mut Settings,
) -> Result<(), String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (command.rsplit('/').next().unwrap_or(command), &arguments[..]) {
        ("defaults.sh", _) => {
            let path = folder.join(command);
            let text =
                fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
            follow(&text, path.parent().unwrap_or(folder), settings)
        }
        ("set_sysctls.py" | "sysctl", values) => {
            for (name, value) in values.iter().filter_map(|word| word.split_once('=')) {
                // Kernels that have it forget their cookies when their number changes.
                settings.flushes += u64::from(name.ends_with("tcp_fastopen_cookies"));
                settings.set(name, value);
            }
            Ok(())
        }
        // The limit of the queue in front of the cable; what it is otherwise changes nothing,
        // for packets leave it at once.
        ("tc", ["qdisc", what, ..]) => {
            settings.is_cut = *what != "delete" && arguments.ends_with(&["limit", "0"]);
            Ok(())
        }
        ("ip", ["tcp_metrics", "flush", ..]) => {
            settings.flushes += 1;
            Ok(())
        }
        ("nstat", ["|", "grep", "TcpExtOutOfWindowIcmps"]) => match settings.strange_messages {
            0 => Err("nothing was counted".to_owned()),
            _ => Ok(()),
        },
        ("nstat", []) => Ok(()),
        ("ethtool", ["-K", _, features @ ..]) => {
            settings.has_no_segmentation = features.windows(2).any(|pair| pair == ["tso", "off"]);
            Ok(())
        }
        // The bits of `hystart_detect` of Linux's CUBIC, which looks for both ends as this one does.
        ("echo", ["3"]) => Ok(()),
        ("dd", words) => make_file(words),
        ("rm", words) => {
            words.iter().filter(|word| is_scratch(word)).for_each(|path| drop(fs::remove_file(path)));
            Ok(())
        }
        (name, _) if name.starts_with("sysctl_restore_") => Ok(()),
        _ => Err("this host does not know the command".to_owned()),
    }
}

/// Whether a path names a file of the folder for what is discarded, which a script may make and
/// remove.
fn is_scratch(path: &str) -> bool {
    Path::new(path).parent() == Some(Path::new("/tmp"))
}

/// `dd`: a file of zeros, for `sendfile`.
fn make_file(words: &[&str]) -> Result<(), String> {
    let values: BTreeMap<&str, &str> = words.iter().filter_map(|word| word.split_once('=')).collect();
    let number = |name: &str, usual: usize| values.get(name).map_or(Some(usual), |text| text.parse().ok());
    let (Some(block), Some(count)) = (number("bs", 512), number("count", 1)) else {
        return Err("bs and count are no numbers".to_owned());
    };
    let path = values.get("of").filter(|path| is_scratch(path)).ok_or("the file is to be one of /tmp")?;
    if values.get("if") != Some(&"/dev/zero") || block.saturating_mul(count) > MOST_OF_FILE {
        return Err("it copies from /dev/zero only, up to 16 MiB".to_owned());
    }
    fs::write(path, vec![0; block * count]).map_err(|e| format!("cannot write {path}: {e}"))
}

/// Bytes of a file that a script makes at most.
const MOST_OF_FILE: usize = 16 << 20;

/// The words of a line of shell as far as scripts need it: quotes, comments, redirections left
/// out, and products of numbers in `$((…))`.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_none() => break,
            '"' => {
                let word = word.get_or_insert_default();
                word.extend(chars.by_ref().take_while(|c| *c != '"'));
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let is_redirection = |word: &String| word.contains('>') || word.contains("||");
    words.into_iter().take_while(|word| !is_redirection(word)).map(|word| multiply(&word)).collect()
}

/// A text with each `$((A*B))` replaced by the product.
fn multiply(text: &str) -> String {
    let Some((front, rest)) = text.split_once("$((") else { return text.to_owned() };
    let Some((factors, back)) = rest.split_once("))") else { return text.to_owned() };
    let product = factors.split('*').map(|factor| factor.trim().parse::<u64>().unwrap_or(0)).product::<u64>();
    format!("{front}{product}{}", multiply(back))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        follow(text, Path::new("/"), &mut settings).map(|()| settings)
    }

    #[test]
    fn values_are_set_as_a_shell_would() {
        let text = "# sysctl -q net.ipv4.tcp_sack=7\n\
                    sysctl -q net.ipv4.tcp_rmem=\"4096 540000 $((15*1024*1024))\"\n\
                    ../x/set_sysctls.py /proc/sys/net/ipv4/tcp_sack=0 \\\n /proc/sys/net/ipv4/tcp_fastopen=0x402\n\
                    sysctl -q net.ipv4.tcp_ecn=2    # a comment";
        let settings = followed(text).expect("known commands");
        assert_eq!(settings.text("net.ipv4.tcp_rmem"), Some("4096 540000 15728640"));
        assert_eq!((settings.number("tcp_sack"), settings.fast_open()), (Some(0), 0x402));
        assert_eq!(settings.number("tcp_ecn"), Some(2));
        assert_eq!(settings.stack_options(1500).least_shift, 8);
    }

    #[test]
    fn a_queue_of_no_packets_cuts_the_cable() {
        let text = "tc qdisc delete dev tun0 root 2>/dev/null ; tc qdisc add dev tun0 root pfifo limit 0";
        assert!(followed(text).expect("known commands").is_cut);
        assert!(!followed("tc qdisc add dev tun0 root pfifo").expect("a known command").is_cut);
    }

    #[test]
    fn commands_that_are_not_known_are_refused_by_name() {
        let refused = followed("reboot now").expect_err("no command of scripts");
        assert!(refused.starts_with("reboot now: "), "{refused}");
    }
}
