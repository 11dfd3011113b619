//! The language of the scripts, parsed line by line. `words` are split at spaces and lists at
//! commas, neither within brackets.

use mptcp::time::{Nanos, SECOND};
use mptcp::wire::{Flags, Problem};

/// One line: a time and an action.
pub struct Event {
    pub line: usize,
    pub text: String,
    pub time: Time,
    pub action: Action,
}

/// When an event happens. Relative times count from the event before.
#[derive(Clone, Copy)]
pub enum Time {
    At(Nanos),
    After(Nanos),
    /// At the earliest and at the latest.
    Within(Nanos, Nanos),
}

pub enum Action {
    Call(Call),
    /// A command of a shell: parameters of the host and its addresses.
    Command(String),
    Packet(Box<PacketText>),
    /// A router or the peer reports that a packet of the stack did not arrive.
    Error(ErrorText),
}

/// An ICMP error over IPv4: the problem, and the relative number of the segment that it quotes.
pub struct ErrorText {
    pub problem: Problem,
    pub seq: u32,
}

/// A system call and its expected result.
pub struct Call {
    pub name: String,
    pub arguments: Vec<String>,
    pub result: String,
}

/// The sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The stack under test.
    Ours,
    /// The script.
    Peer,
}

/// A packet as scripts write it. Numbers are relative to the initial ones.
pub struct PacketText {
    pub sender: Sender,
    /// Source and destination, if the line has them.
    pub ends: Option<[End; 2]>,
    pub flags: Flags,
    pub seq: u32,
    pub len: u32,
    pub ack: Option<u32>,
    pub window: Option<u16>,
    pub options: Vec<String>,
}

/// One end of a subflow: `addr[caddr0]`, or `addr[caddr0]:4321`.
#[derive(Clone)]
pub struct End {
    pub name: String,
    pub port: Option<u16>,
}

/// Parses a script. An error says where and what.
pub fn parse(script: &str) -> Result<Vec<Event>, String> {
    let mut events = Vec::new();
    for (index, text) in script.lines().enumerate() {
        let code = text.split("//").next().unwrap_or_default().trim();
        if code.is_empty() {
            continue;
        }
        let line = index + 1;
        let (time, action) =
            parse_event(code).map_err(|why| format!("line {line}: {text}\n  {why}"))?;
        events.push(Event {
            line,
            text: code.to_owned(),
            time,
            action,
        });
    }
    Ok(events)
}

fn parse_event(code: &str) -> Result<(Time, Action), String> {
    let (time, rest) = code.split_once(' ').ok_or("nothing after the time")?;
    let rest = rest.trim();
    let action = match rest.chars().next() {
        Some('<') if rest[1..].trim_start().starts_with("icmp ") => {
            Action::Error(parse_error(&rest[1..])?)
        }
        Some('<') => Action::Packet(Box::new(parse_packet(Sender::Peer, &rest[1..])?)),
        Some('>') => Action::Packet(Box::new(parse_packet(Sender::Ours, &rest[1..])?)),
        Some('`') => Action::Command(rest.trim_matches('`').to_owned()),
        _ => Action::Call(parse_call(rest)?),
    };
    Ok((parse_time(time)?, action))
}

/// Parses `1.5`, `+0.1`, or `+0~+0.5`.
fn parse_time(text: &str) -> Result<Time, String> {
    if let Some((from, to)) = text.split_once('~') {
        return Ok(Time::Within(seconds(from)?, seconds(to)?));
    }
    let time = seconds(text)?;
    Ok(match text.starts_with('+') {
        true => Time::After(time),
        false => Time::At(time),
    })
}

fn seconds(text: &str) -> Result<Nanos, String> {
    let number: f64 = number(text.trim_start_matches('+'))?;
    Ok((number * SECOND as f64).round() as Nanos)
}

/// Parses `name(argument, argument) = result`.
fn parse_call(text: &str) -> Result<Call, String> {
    let (name, rest) = text.split_once('(').ok_or("a call has parentheses")?;
    let (arguments, result) = rest.rsplit_once(") = ").ok_or("a call has a result")?;
    Ok(Call {
        name: name.trim().to_owned(),
        arguments: list(arguments),
        result: result.trim().to_owned(),
    })
}

/// Parses `[addr[a] > addr[b]] flags seq:end(len) [ack n] [win n] [<options>]`.
fn parse_packet(sender: Sender, text: &str) -> Result<PacketText, String> {
    let (head, options) = match text.find('<') {
        Some(at) => (
            &text[..at],
            text[at + 1..]
                .trim_end()
                .strip_suffix('>')
                .ok_or("options end with >")?,
        ),
        None => (text, ""),
    };
    let mut words = words(head).into_iter();
    let mut word = words.next().ok_or("a packet has flags")?;
    let mut ends = None;
    if word.starts_with("addr[") {
        let arrow = words.next();
        let to = words.next().filter(|_| arrow == Some(">"));
        ends = Some([
            parse_end(word)?,
            parse_end(to.ok_or("an address is followed by > and another")?)?,
        ]);
        word = words.next().ok_or("a packet has flags")?;
    }
    let (seq, len) = parse_range(words.next().unwrap_or_default())?;
    let mut packet = PacketText {
        sender,
        ends,
        flags: parse_flags(word)?,
        seq,
        len,
        ack: None,
        window: None,
        options: list(options),
    };
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match word {
            "ack" => packet.ack = Some(number(value)?),
            "win" => packet.window = Some(number(value)?),
            other => return Err(format!("{other}: expected ack, win or options")),
        }
    }
    Ok(packet)
}

/// Parses `icmp unreachable frag_needed mtu 1200 [seq:end(len)]`, or another reason without MTU.
fn parse_error(text: &str) -> Result<ErrorText, String> {
    let words = words(text);
    let (problem, quoted) = match words[..] {
        ["icmp", "unreachable", "frag_needed", "mtu", mtu, quoted] => {
            let mtu_bytes = number(mtu)?;
            (Problem::TooBig { mtu_bytes }, quoted)
        }
        ["icmp", "unreachable", "port_unreachable", quoted] => (Problem::Refused, quoted),
        ["icmp", "unreachable", "host_unreachable", quoted] => (Problem::Unreachable, quoted),
        _ => return Err("expected icmp unreachable, a reason, and what is quoted".to_owned()),
    };
    let quoted = quoted.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let (seq, _) = parse_range(quoted.ok_or("what is quoted stands in [ ]")?)?;
    Ok(ErrorText { problem, seq })
}

fn parse_end(word: &str) -> Result<End, String> {
    let rest = word.strip_prefix("addr[").ok_or("an end is addr[name]")?;
    let (name, port) = rest.split_once(']').ok_or("an end is addr[name]")?;
    let port = port.strip_prefix(':').map(number).transpose()?;
    Ok(End {
        name: name.to_owned(),
        port,
    })
}

/// The letters of flags, in the order in which scripts write them; `.` is ACK.
pub const FLAG_LETTERS: [(char, Flags); 5] = [
    ('S', Flags::SYN),
    ('F', Flags::FIN),
    ('R', Flags::RST),
    ('P', Flags::PSH),
    ('.', Flags::ACK),
];

fn parse_flags(word: &str) -> Result<Flags, String> {
    let mut flags = Flags::NONE;
    for letter in word.chars() {
        let found = FLAG_LETTERS.iter().find(|(its, _)| *its == letter);
        flags |= found.ok_or(format!("{letter}: flags are of SFRP."))?.1;
    }
    Ok(flags)
}

/// Parses `seq:end(len)`, which must be consistent.
fn parse_range(word: &str) -> Result<(u32, u32), String> {
    let (seq, rest) = word.split_once(':').ok_or("numbers are seq:end(len)")?;
    let (end, len) = rest.split_once('(').ok_or("numbers are seq:end(len)")?;
    let (seq, end, len): (u32, u32, u32) = (
        number(seq)?,
        number(end)?,
        number(len.trim_end_matches(')'))?,
    );
    match seq + len == end {
        true => Ok((seq, len)),
        false => Err(format!("{word}: {seq} + {len} is not {end}")),
    }
}

/// Parses a number.
pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("{text}: expected a number"))
}

/// Returns the parts between spaces outside brackets.
pub fn words(text: &str) -> Vec<&str> {
    split(text, char::is_whitespace)
}

/// Returns the parts between commas outside brackets.
pub fn list(text: &str) -> Vec<String> {
    split(text, |letter| letter == ',')
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn split(text: &str, is_separator: impl Fn(char) -> bool) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(|letter| {
        match letter {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && is_separator(letter)
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}
