//! The features that a description can use, and which back-end has them.
//!
//! One row per feature and one column per back-end. The functions that map a description to its
//! features match exhaustively, so a new variant does not compile until it has a feature, and a
//! feature does not exist without its row. Algorithms and their parameters are not listed here,
//! because the registry has them.

use crate::resolved::{
    Access, Action, Application, BehaviourName, Control, Element, Fallback, FirstHop, Handshake,
    HostJitter, Install, Loss, NextHop, NodeKind, Origin, Queue, Stack, Transport,
};

/// A back-end, or a column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackEnd {
    /// The simulator.
    Simulator,
    /// The kernel of a machine.
    Kernel,
    /// The userspace stack beside that kernel.
    Userspace,
}

impl BackEnd {
    /// All back-ends, in the order of the table.
    pub const ALL: [Self; 3] = [Self::Simulator, Self::Kernel, Self::Userspace];

    /// Returns the name by which users choose the back-end.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulator => "sim",
            Self::Kernel => "kernel",
            Self::Userspace => "userspace",
        }
    }
}

/// Why a back-end lacks a feature; `None` if it has it.
type Lacking = Option<&'static str>;

const HAS: Lacking = None;
const NEEDS_KERNEL: Lacking = Some(
    "the simulator cannot run programs, because they need a real kernel: use the kernel or userspace back-end",
);
const PLAYER: Lacking =
    Some("only the simulator has a video player: use streaming, which has a single bit rate");
const FOLLOWS_PATHS: Lacking =
    Some("routers forward only along the flows' paths and choose no next hops: use the simulator");
const TAKES_ITS_TIME: Lacking = Some(
    "in real time, hosts are as fast as this machine, which corresponds to host_jitter linux: use the simulator",
);
const NO_KERNEL: Lacking = Some("the simulator has no kernel: use the kernel back-end");
const VIRTUAL_TIME: Lacking = Some(
    "the simulator's hosts already run the engine, in virtual time: use --on userspace for real time",
);
const OTHER_BACKEND: Lacking =
    Some("the engine needs the userspace back-end to run in real time: use --on userspace");
const KERNELS_FALLBACK: Lacking = Some(
    "the kernel's fallback cannot be changed: use the engine with --on userspace, or the simulator",
);
const ONE_ADDRESS: Lacking = Some(
    "the kernel opens a connection from a single address: use the simulator, or the engine with --on userspace",
);
const ALL_SUBFLOWS: Lacking = Some(
    "the kernel always uses all subflows of a connection: set backup on some interfaces instead",
);
const NOT_IN_MAINLINE: Lacking = Some(
    "this kernel lacks the out-of-tree kernel's reinjection and stale detection: give {preset: mainline, path_manager_delay: 500ms} as the second choice",
);
const ONE_KERNEL: Lacking = Some(
    "a kernel has the behaviour of its own version: give mainline as the second choice, and choose the kernel, for example by --on qemu:6.12",
);
const KERNELS_VERSION: Lacking =
    Some("the kernel has only version 1: use the engine with --on userspace, or the simulator");
const ONE_VALUE: Lacking = Some("the kernel has a fixed value for this");
const CLASSES_ELSEWHERE: Lacking =
    Some("python classes run only in mptcplab's own simulator: use --on sim");
const NO_CLASSES: Lacking = Some(
    "the kernel cannot run Python classes: use --on sim, or --on userspace for flows that the engine sends",
);
const NOWHERE_TO_REGISTER: Lacking =
    Some("the simulator has no kernel to register it in: use --on kernel");
const KERNELS_ONLY: Lacking =
    Some("other machines have hosts with their kernel's stack only: use --on kernel");
const EMULATED: Lacking = Some("a real link is outside of the simulator: use --on kernel");
const KERNELS_DEVICES: Lacking =
    Some("a real link joins hosts with their kernel's stack only: use --on kernel");
const OWN_PROGRAM: Lacking = Some("only your own simulator has it: use --on PROGRAM");

const NO_CONTROLLER: Lacking = Some(
    "the simulator computes the forwarding without a controller: use --on kernel or userspace",
);

macro_rules! features {
    ($($variant:ident $name:literal: $simulator:expr, $kernel:expr, $userspace:expr;)*) => {
        /// A feature that a description can use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Feature {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Feature {
            /// All features, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the kind and the name of the feature, as in `transport udp`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns why a back-end lacks the feature; `None` if it has it. A kernel may lack
            /// more than the table says.
            pub fn lacking(self, on: BackEnd) -> Option<&'static str> {
                let row = match self {
                    $(Self::$variant => [$simulator, $kernel, $userspace],)*
                };
                row[on as usize]
            }
        }
    };
}

features! {
    // feature                                            simulator            kernel             userspace
    TransportUdp "transport udp":                         HAS,                 HAS,               HAS;
    TransportTcp "transport tcp":                         HAS,                 HAS,               HAS;
    TransportMptcp "transport mptcp":                     HAS,                 HAS,               HAS;
    AppBulk "app bulk":                                   HAS,                 HAS,               HAS;
    AppCbr "app cbr":                                     HAS,                 HAS,               HAS;
    AppProbe "app probe":                                 HAS,                 HAS,               HAS;
    AppRequestResponse "app request_response":            HAS,                 HAS,               HAS;
    AppShortFlows "app short_flows":                      HAS,                 HAS,               HAS;
    AppStreaming "app streaming":                         HAS,                 HAS,               HAS;
    AppVideo "app video":                                 HAS,                 PLAYER,            PLAYER;
    AppIperf3 "app iperf3":                               NEEDS_KERNEL,        HAS,               HAS;
    AppCommand "app command":                             NEEDS_KERNEL,        HAS,               HAS;
    InterfaceDown "action interface_down":                HAS,                 HAS,               HAS;
    InterfaceUp "action interface_up":                    HAS,                 HAS,               HAS;
    LinkDown "action link_down":                          HAS,                 HAS,               HAS;
    LinkUp "action link_up":                              HAS,                 HAS,               HAS;
    SetLink "action set_link":                            HAS,                 HAS,               HAS;
    Handover "action handover":                           HAS,                 HAS,               HAS;
    Roam "action roam":                                   HAS,                 HAS,               HAS;
    SetSignal "action set_signal":                        HAS,                 HAS,               HAS;
    AddressAdd "action address_add":                      HAS,                 HAS,               HAS;
    AddressRemove "action address_remove":                HAS,                 HAS,               HAS;
    SetBackup "action set_backup":                        HAS,                 HAS,               HAS;
    Reroute "action reroute":                             HAS,                 HAS,               HAS;
    SetRecovery "action set_recovery":                    HAS,                 HAS,               HAS;
    Exec "action exec":                                   NEEDS_KERNEL,        HAS,               HAS;
    DropTail "queue drop_tail":                           HAS,                 HAS,               HAS;
    Codel "queue codel":                                  HAS,                 HAS,               HAS;
    FqCodel "queue fq_codel":                             HAS,                 HAS,               HAS;
    Red "queue red":                                      HAS,                 HAS,               HAS;
    Pie "queue pie":                                      HAS,                 HAS,               HAS;
    Bernoulli "loss bernoulli":                           HAS,                 HAS,               HAS;
    GilbertElliott "loss gilbert_elliott":                HAS,                 HAS,               HAS;
    ListOfLosses "loss list":                             HAS,                 HAS,               HAS;
    Trace "trace":                                        HAS,                 HAS,               HAS;
    Medium "medium":                                      HAS,                 HAS,               HAS;
    Wifi "access wifi":                                   HAS,                 HAS,               HAS;
    Cellular "access cellular":                           HAS,                 HAS,               HAS;
    Leo "access leo":                                     HAS,                 HAS,               HAS;
    Cable "access cable":                                 HAS,                 HAS,               HAS;
    EcmpL3 "next_hop ecmp_l3":                            HAS,                 FOLLOWS_PATHS,     FOLLOWS_PATHS;
    EcmpL4 "next_hop ecmp_l4":                            HAS,                 FOLLOWS_PATHS,     FOLLOWS_PATHS;
    RandomNextHop "next_hop random":                      HAS,                 FOLLOWS_PATHS,     FOLLOWS_PATHS;
    NextHopByPort "next_hop by_port":                     HAS,                 FOLLOWS_PATHS,     FOLLOWS_PATHS;
    Router "kind router":                                 HAS,                 HAS,               HAS;
    Switch "kind switch":                                 HAS,                 HAS,               HAS;
    Ap "kind ap":                                         HAS,                 HAS,               HAS;
    Openflow "kind openflow":                             HAS,                 HAS,               HAS;
    InstallProactive "install proactive":                 HAS,                 HAS,               HAS;
    InstallReactive "install reactive":                   NO_CONTROLLER,       HAS,               HAS;
    OwnController "control command":                      NO_CONTROLLER,       HAS,               HAS;
    Discovery "control discover":                         NO_CONTROLLER,       HAS,               HAS;
    StripOptions "middlebox strip_options":               HAS,                 HAS,               HAS;
    DropOptions "middlebox drop_options":                 HAS,                 HAS,               HAS;
    RewriteSequence "middlebox rewrite_sequence":         HAS,                 HAS,               HAS;
    Nat "middlebox nat":                                  HAS,                 HAS,               HAS;
    Split "middlebox split":                              HAS,                 HAS,               HAS;
    Coalesce "middlebox coalesce":                        HAS,                 HAS,               HAS;
    ChangeBytes "middlebox change_bytes":                 HAS,                 HAS,               HAS;
    InsertBytes "middlebox insert_bytes":                 HAS,                 HAS,               HAS;
    Duplicate "middlebox duplicate":                      HAS,                 HAS,               HAS;
    AcknowledgeEarly "middlebox acknowledge_early":       HAS,                 HAS,               HAS;
    Captures "captures":                                  HAS,                 HAS,               HAS;
    StackOfBackEnd "stack backend":                       HAS,                 HAS,               HAS;
    StackOfKernel "stack kernel":                         NO_KERNEL,           HAS,               HAS;
    StackInUserspace "stack userspace":                   VIRTUAL_TIME,        OTHER_BACKEND,     HAS;
    FallbackRfc "fallback rfc":                           HAS,                 HAS,               HAS;
    FallbackStrict "fallback strict":                     HAS,                 KERNELS_FALLBACK,  HAS;
    NoHostJitter "host_jitter none":                      HAS,                 TAKES_ITS_TIME,    TAKES_ITS_TIME;
    HostJitterOfLinux "host_jitter linux":                HAS,                 HAS,               HAS;
    HostJitterQuantiles "host_jitter quantiles":          HAS,                 TAKES_ITS_TIME,    TAKES_ITS_TIME;
    FirstHopNetwork "first_hop network":                  HAS,                 HAS,               HAS;
    FirstHopHost "first_hop host":                        HAS,                 HAS,               HAS;
    HandshakeRace "handshake race":                       HAS,                 ONE_ADDRESS,       HAS;
    OnMachine "on":                                       HAS,                 HAS,               KERNELS_ONLY;
    RealLink "real":                                      EMULATED,            HAS,               KERNELS_DEVICES;
    OneAtATime "one_at_a_time":                           HAS,                 ALL_SUBFLOWS,      HAS;
    BehaviourMainline "behaviour mainline":               HAS,                 HAS,               HAS;
    BehaviourMainline612 "behaviour mainline-6.12":       HAS,                 ONE_KERNEL,        HAS;
    BehaviourMainline618 "behaviour mainline-6.18":       HAS,                 ONE_KERNEL,        HAS;
    BehaviourMainline73 "behaviour mainline-7.3":         HAS,                 ONE_KERNEL,        HAS;
    BehaviourOot "behaviour oot":                         HAS,                 NOT_IN_MAINLINE,   HAS;
    MptcpVersion "behaviour.mptcp_version":               HAS,                 KERNELS_VERSION,   HAS;
    FailedAfter "behaviour.failed_after":                 HAS,                 ONE_VALUE,         HAS;
    StaleIntervals "behaviour.stale_intervals":           HAS,                 HAS,               HAS;
    Reinjection "behaviour.reinjection":                  HAS,                 ONE_VALUE,         HAS;
    ReinjectWholeQueue "behaviour.reinject_whole_queue":  HAS,                 ONE_VALUE,         HAS;
    PathManagerDelay "behaviour.path_manager_delay":      HAS,                 HAS,               HAS;
    Recreation "behaviour.recreation":                    HAS,                 HAS,               HAS;
    RecreationFirst "behaviour.recreation_first":         HAS,                 HAS,               HAS;
    RecreationLongest "behaviour.recreation_longest":     HAS,                 HAS,               HAS;
    SubflowOrder "behaviour.subflow_order":               HAS,                 ONE_VALUE,         HAS;
    Timers "behaviour.timers":                            HAS,                 ONE_VALUE,         HAS;
    OwnClass "own class":                                 CLASSES_ELSEWHERE,   NO_CLASSES,        NO_CLASSES;
    OwnObject "own object":                               NOWHERE_TO_REGISTER, HAS,               HAS;
    OwnSimulator "own simulator":                         OWN_PROGRAM,         OWN_PROGRAM,       OWN_PROGRAM;
}

impl Feature {
    /// Returns the features of a kind, as `transport` of `transport udp`.
    pub fn of_kind(kind: &str) -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(move |one| {
            one.name()
                .split_once(' ')
                .is_some_and(|(its, _)| its == kind)
        })
    }

    /// Returns the name without the kind, or the kind if there is no name.
    pub fn short_name(self) -> &'static str {
        let name = self.name();
        name.split_once(' ').map_or(name, |(_, short)| short)
    }

    /// Returns the feature of a loss model; `None` if nothing is lost.
    pub fn of_loss(loss: &Loss) -> Option<Self> {
        match loss {
            Loss::None {} => None,
            Loss::Bernoulli { .. } => Some(Self::Bernoulli),
            Loss::GilbertElliott(_) => Some(Self::GilbertElliott),
            Loss::List { .. } => Some(Self::ListOfLosses),
        }
    }

    /// Returns the feature of host jitter; `None` if the experiment is older than it.
    pub fn of_host_jitter(jitter: HostJitter) -> Option<Self> {
        match jitter {
            HostJitter::Unstated {} => None,
            HostJitter::None {} => Some(Self::NoHostJitter),
            HostJitter::Linux(_) => Some(Self::HostJitterOfLinux),
            HostJitter::Quantiles(_) => Some(Self::HostJitterQuantiles),
        }
    }

    /// Returns the features of a controller beyond the time of installation.
    pub fn of_control(control: &Control) -> impl Iterator<Item = Self> {
        let own = control.command.is_some().then_some(Self::OwnController);
        let discovery = control.discover.then_some(Self::Discovery);
        own.into_iter().chain(discovery)
    }

    /// Returns the feature of a handshake; `None` for the usual one.
    pub fn of_handshake(handshake: Handshake) -> Option<Self> {
        match handshake {
            Handshake::Primary => None,
            Handshake::Race => Some(Self::HandshakeRace),
        }
    }
}

impl From<&Access> for Feature {
    fn from(access: &Access) -> Self {
        match access {
            Access::Wifi(_) => Self::Wifi,
            Access::Cellular(_) => Self::Cellular,
            Access::Leo(_) => Self::Leo,
            Access::Cable(_) => Self::Cable,
        }
    }
}

impl From<BehaviourName> for Feature {
    fn from(name: BehaviourName) -> Self {
        match name {
            BehaviourName::Mainline => Self::BehaviourMainline,
            BehaviourName::Mainline612 => Self::BehaviourMainline612,
            BehaviourName::Mainline618 => Self::BehaviourMainline618,
            BehaviourName::Mainline73 => Self::BehaviourMainline73,
            BehaviourName::Oot => Self::BehaviourOot,
        }
    }
}

impl From<NodeKind> for Feature {
    fn from(kind: NodeKind) -> Self {
        match kind {
            NodeKind::Router => Self::Router,
            NodeKind::Switch => Self::Switch,
            NodeKind::Ap => Self::Ap,
            NodeKind::Openflow => Self::Openflow,
        }
    }
}

impl From<Install> for Feature {
    fn from(install: Install) -> Self {
        match install {
            Install::Proactive => Self::InstallProactive,
            Install::Reactive => Self::InstallReactive,
        }
    }
}

impl From<Transport> for Feature {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Udp => Self::TransportUdp,
            Transport::Tcp => Self::TransportTcp,
            Transport::Mptcp => Self::TransportMptcp,
        }
    }
}

impl From<&Application> for Feature {
    fn from(app: &Application) -> Self {
        match app {
            Application::Bulk { .. } => Self::AppBulk,
            Application::Cbr { .. } => Self::AppCbr,
            Application::Probe { .. } => Self::AppProbe,
            Application::RequestResponse { .. } => Self::AppRequestResponse,
            Application::ShortFlows { .. } => Self::AppShortFlows,
            Application::Streaming { .. } => Self::AppStreaming,
            Application::Video(_) => Self::AppVideo,
            Application::Iperf3 { .. } => Self::AppIperf3,
            Application::Command { .. } => Self::AppCommand,
        }
    }
}

impl From<&Action> for Feature {
    fn from(action: &Action) -> Self {
        match action {
            Action::InterfaceDown { .. } => Self::InterfaceDown,
            Action::InterfaceUp { .. } => Self::InterfaceUp,
            Action::LinkDown { .. } => Self::LinkDown,
            Action::LinkUp { .. } => Self::LinkUp,
            Action::SetLink { .. } => Self::SetLink,
            Action::Handover { .. } => Self::Handover,
            Action::Roam { .. } => Self::Roam,
            Action::SetSignal { .. } => Self::SetSignal,
            Action::AddressAdd { .. } => Self::AddressAdd,
            Action::AddressRemove { .. } => Self::AddressRemove,
            Action::SetBackup { .. } => Self::SetBackup,
            Action::Reroute { .. } => Self::Reroute,
            Action::SetRecovery { .. } => Self::SetRecovery,
            Action::Exec { .. } => Self::Exec,
        }
    }
}

impl From<&Queue> for Feature {
    fn from(queue: &Queue) -> Self {
        match queue {
            Queue::DropTail(_) => Self::DropTail,
            Queue::Codel(_) => Self::Codel,
            Queue::FqCodel(_) => Self::FqCodel,
            Queue::Red(_) => Self::Red,
            Queue::Pie(_) => Self::Pie,
        }
    }
}

impl From<&Element> for Feature {
    fn from(element: &Element) -> Self {
        match element {
            Element::StripOptions(_) => Self::StripOptions,
            Element::DropOptions(_) => Self::DropOptions,
            Element::RewriteSequence {} => Self::RewriteSequence,
            Element::Nat(_) => Self::Nat,
            Element::Split(_) => Self::Split,
            Element::Coalesce(_) => Self::Coalesce,
            Element::ChangeBytes(_) => Self::ChangeBytes,
            Element::InsertBytes(_) => Self::InsertBytes,
            Element::Duplicate(_) => Self::Duplicate,
            Element::AcknowledgeEarly(_) => Self::AcknowledgeEarly,
        }
    }
}

impl From<NextHop> for Feature {
    fn from(next_hop: NextHop) -> Self {
        match next_hop {
            NextHop::EcmpL3 => Self::EcmpL3,
            NextHop::EcmpL4 => Self::EcmpL4,
            NextHop::Random => Self::RandomNextHop,
            NextHop::ByPort => Self::NextHopByPort,
        }
    }
}

impl From<Stack> for Feature {
    fn from(stack: Stack) -> Self {
        match stack {
            Stack::Backend => Self::StackOfBackEnd,
            Stack::Kernel => Self::StackOfKernel,
            Stack::Userspace => Self::StackInUserspace,
        }
    }
}

impl From<Fallback> for Feature {
    fn from(fallback: Fallback) -> Self {
        match fallback {
            Fallback::Rfc => Self::FallbackRfc,
            Fallback::Strict => Self::FallbackStrict,
        }
    }
}

impl From<FirstHop> for Feature {
    fn from(first_hop: FirstHop) -> Self {
        match first_hop {
            FirstHop::Network => Self::FirstHopNetwork,
            FirstHop::Host => Self::FirstHopHost,
        }
    }
}

impl From<Origin> for Feature {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Class => Self::OwnClass,
            Origin::Crate => Self::OwnSimulator,
            Origin::Object => Self::OwnObject,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_name_of_its_own_and_a_back_end() {
        for (index, feature) in Feature::ALL.iter().enumerate() {
            let earlier = &Feature::ALL[..index];
            assert!(earlier.iter().all(|one| one.name() != feature.name()));
            let is_users = feature.name().starts_with("own ");
            let somewhere = BackEnd::ALL.iter().any(|on| feature.lacking(*on).is_none());
            assert!(somewhere || is_users, "{} runs nowhere", feature.name());
        }
    }
}
