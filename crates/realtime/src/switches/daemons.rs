//! Open vSwitch for one run: its database server and its switch daemon, in the namespace of the
//! switches and in the PID namespace of the run. Services of the machine are not touched.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::CapabilitySet;

use super::plan::Switch;
use crate::applications::programs::launcher::Launcher;
use crate::applications::programs::process::Order;
use crate::{LiveError, NetworkNamespace};

/// The program of which the absence means that Open vSwitch is not installed.
const SWITCH_DAEMON: &str = "ovs-vswitchd";
/// The remedy for its absence.
pub(crate) const NOT_INSTALLED: &str = "there is no program ovs-vswitchd here: install it, as with `apt install openvswitch-switch`, which also starts a service that mptcplab does not need";

/// Where distributions have daemons; users may not have it in their PATH.
const DIRECTORIES_OF_DAEMONS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// How long a daemon may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// One thread compares the cached flows with the tables, because a run has few of them.
const SETTING: &str = "other_config:n-revalidator-threads=1";

/// Room for received packets at each port. The kernel's usual 208 KiB hold 92 packets, so a burst
/// or a pause of a few milliseconds would drop packets that no counter of a link or switch shows.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Raises the limit of open files, because each port of a switch has several.
const WITH_MORE_FILES: &str = "ulimit -n $(ulimit -Hn); exec \"$@\"";

/// Returns whether Open vSwitch is installed.
pub(crate) fn are_installed() -> bool {
    find(SWITCH_DAEMON).is_some()
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(DIRECTORIES_OF_DAEMONS.map(PathBuf::from));
    let mut files = directories.map(|directory| directory.join(program));
    files.find(|file| crate::applications::programs::is_program(file))
}

/// The daemons of a run. Dropping them ends them.
pub(crate) struct Daemons {
    namespace: Arc<NetworkNamespace>,
    directory: PathBuf,
    launcher: Arc<Launcher>,
    children: Vec<Child>,
}

impl Daemons {
    /// Starts both daemons with an empty database. `directory` gets sockets, database and log.
    ///
    /// # Errors
    /// Open vSwitch is not installed, or does not start.
    pub(crate) fn start(
        namespace: &Arc<NetworkNamespace>,
        directory: PathBuf,
        launcher: Arc<Launcher>,
    ) -> Result<Self, LiveError> {
        let mut daemons = Self {
            namespace: Arc::clone(namespace),
            directory,
            launcher,
            children: Vec::new(),
        };
        let database = daemons.file("conf.db");
        daemons.run(&["ovsdb-tool", "create", &database])?;
        let remote = format!("--remote=p{}", daemons.remote());
        daemons.start_one(&["ovsdb-server", &remote, "--no-chdir", &database])?;
        daemons.await_file("db.sock")?;
        let remote = daemons.remote();
        let commands = format!("--unixctl={}", daemons.command_socket().display());
        daemons.start_one(&[SWITCH_DAEMON, &remote, &commands, "--no-chdir"])?;
        Ok(daemons)
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    fn remote(&self) -> String {
        format!("unix:{}", self.file("db.sock"))
    }

    /// Creates the bridges with their ports, and waits until they forward.
    ///
    /// # Errors
    /// Open vSwitch refuses a bridge or a port.
    pub(crate) fn create_bridges(&self, switches: &[Switch]) -> Result<(), LiveError> {
        let words = ["set", "Open_vSwitch", ".", SETTING];
        let mut words = words.map(str::to_owned).to_vec();
        for switch in switches {
            let bridge = &switch.bridge;
            let id = &switch.datapath_id;
            add(&mut words, &format!("add-br {bridge}"));
            add(
                &mut words,
                &format!(
                    "set bridge {bridge} datapath_type=netdev fail_mode=secure protocols=OpenFlow13 \
                     other_config:datapath-id={id} other_config:disable-in-band=true"
                ),
            );
            for port in &switch.ports {
                let (device, number) = (&port.device, port.number);
                add(&mut words, &format!("add-port {bridge} {device}"));
                add(
                    &mut words,
                    &format!("set interface {device} ofport_request={number}"),
                );
            }
        }
        self.configure(words)?;
        self.enlarge_receive_buffers().map_err(LiveError::while_(
            "enlarging the receive buffers of Open vSwitch",
        ))
    }

    /// Gives the packet sockets of the switch daemon room for bursts. Open vSwitch has no setting
    /// for it, and the kernel's default holds for the whole machine.
    fn enlarge_receive_buffers(&self) -> io::Result<()> {
        let daemon = self.children.last().expect("both daemons were started");
        let pid = Pid::from_child(daemon);
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        for entry in fs::read_dir(format!("/proc/{}/fd", daemon.id()))? {
            let number = entry?.file_name().to_string_lossy().parse::<i32>();
            let number = number.map_err(io::Error::other)?;
            // The daemon may have closed a file since it was listed. Where a container forbids to
            // reach them all, the ports keep what the kernel gives.
            let Ok(file) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else {
                continue;
            };
            if sockopt::socket_domain(&file) == Ok(AddressFamily::PACKET) {
                sockopt::set_socket_recv_buffer_size_force(&file, RECEIVE_BUFFER_BYTES)?;
            }
        }
        Ok(())
    }

    /// Lets the bridges connect to the controller.
    ///
    /// # Errors
    /// Open vSwitch refuses.
    pub(crate) fn connect_to(&self, target: &str, switches: &[Switch]) -> Result<(), LiveError> {
        let mut words = Vec::new();
        for Switch { bridge, .. } in switches {
            add(&mut words, &format!("set-controller {bridge} {target}"));
            add(
                &mut words,
                &format!("set controller {bridge} connection_mode=out-of-band max_backoff=1000"),
            );
        }
        self.configure(words)
    }

    fn configure(&self, words: Vec<String>) -> Result<(), LiveError> {
        let [database, patience] = [
            format!("--db={}", self.remote()),
            format!("--timeout={}", PATIENCE.as_secs()),
        ];
        let mut argv = vec!["ovs-vsctl", &database, &patience];
        argv.extend(words.iter().map(String::as_str));
        self.run(&argv)
    }

    /// Returns the socket over which a bridge talks OpenFlow.
    pub(crate) fn socket(&self, switch: &Switch) -> PathBuf {
        self.directory.join(format!("{}.mgmt", switch.bridge))
    }

    /// Returns the socket over which the switch daemon takes commands (ovs-appctl(8)).
    pub(crate) fn command_socket(&self) -> PathBuf {
        self.directory.join("ctl")
    }

    /// Returns the id of a process in the namespace of the switches.
    pub(crate) fn pid(&self) -> u32 {
        self.children.first().map_or(0, Child::id)
    }

    fn order(&self, argv: &[&str]) -> Result<Order, LiveError> {
        let (program, arguments) = argv.split_first().expect("a program");
        let missing = || LiveError::Machine {
            what: format!("there is no program {program} here"),
            remedy: "install it, as with `apt install openvswitch-switch`".to_owned(),
        };
        let program = find(program).ok_or_else(missing)?;
        let shell = ["/bin/sh", "-c", WITH_MORE_FILES, "sh"].map(str::to_owned);
        let runs_first = program.ends_with(SWITCH_DAEMON);
        let mut argv: Vec<String> = shell.into_iter().collect();
        argv.push(program.to_string_lossy().into_owned());
        argv.extend(arguments.iter().map(|&word| word.to_owned()));
        let directories = ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"];
        let directory = self.directory.to_string_lossy();
        let environment = directories.map(|name| (name.to_owned(), directory.clone().into_owned()));
        Ok(Order {
            host: "switches".to_owned(),
            argv,
            namespace: Arc::clone(&self.namespace),
            names: Arc::new("127.0.0.1 localhost\n".to_owned()),
            environment: environment.to_vec(),
            takes_input: false,
            runs_first,
            caller: None,
            kept: CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW,
        })
    }

    fn start_one(&mut self, argv: &[&str]) -> Result<(), LiveError> {
        let mut argv = argv.to_vec();
        argv.extend(["-vconsole:off", "-vsyslog:off", "--log-file"]);
        let child = self.launcher.spawn(self.order(&argv)?)?;
        self.children.push(child);
        Ok(())
    }

    /// Runs a program to its end.
    fn run(&self, argv: &[&str]) -> Result<(), LiveError> {
        let child = self.launcher.spawn(self.order(argv)?)?;
        let output = child.wait_with_output();
        let output = output.map_err(LiveError::while_(format!("waiting for {}", argv[0])))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(LiveError::Failed(format!(
            "{} ended with {}: {}{}",
            argv[0],
            output.status,
            said.trim(),
            self.log()
        )))
    }

    /// Returns the last warning of the switch daemon.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.join("ovs-vswitchd.log"));
        let log = log.unwrap_or_default();
        let is_warning = |line: &&str| {
            ["|WARN|", "|ERR|", "|EMER|"]
                .iter()
                .any(|level| line.contains(level))
        };
        let last = log.lines().rfind(is_warning);
        last.map(|line| format!("; its log: {line}"))
            .unwrap_or_default()
    }

    fn await_file(&mut self, name: &str) -> Result<(), LiveError> {
        let (path, since) = (self.directory.join(name), Instant::now());
        while !path.exists() {
            let child = self.children.last_mut().expect("a daemon was started");
            if let Ok(Some(status)) = child.try_wait() {
                let why = format!("ovsdb-server ended with {status}: {}", said(child));
                return Err(LiveError::Failed(why));
            }
            if since.elapsed() > PATIENCE {
                return Err(LiveError::Failed("ovsdb-server does not answer".to_owned()));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns why a daemon has ended; `None` if both run.
    pub(crate) fn failure(&mut self) -> Option<String> {
        let log = self.log();
        let mut children = self.children.iter_mut();
        children.find_map(|child| {
            let status = child.try_wait().ok()??;
            Some(format!(
                "Open vSwitch ended with {status}: {}{log}",
                said(child)
            ))
        })
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.read_to_string(&mut text);
    }
    text.trim().to_owned()
}

/// Adds a command to those of ovs-vsctl(8).
fn add(words: &mut Vec<String>, command: &str) {
    if !words.is_empty() {
        words.push("--".to_owned());
    }
    words.extend(command.split_whitespace().map(str::to_owned));
}
