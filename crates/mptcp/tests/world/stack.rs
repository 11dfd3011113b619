//! The parts of an endpoint of a test.

use mptcp::connection::{Algorithms, Config};
use mptcp::endpoint::Profile;
use mptcp::{cc, pm, sched};

use super::promises;

/// The names of the algorithms, and the parameters.
#[derive(Clone, Debug)]
pub struct Stack {
    pub config: Config,
    pub congestion_control: &'static str,
    pub scheduler: &'static str,
    pub path_manager: &'static str,
    pub of_path_manager: pm::Parameters,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            config: Config::default(),
            congestion_control: "reno",
            scheduler: "min_rtt",
            path_manager: "full_mesh",
            of_path_manager: pm::Parameters::default(),
        }
    }
}

impl Stack {
    /// Returns a stack for plain TCP.
    pub fn plain() -> Self {
        let config = Config {
            is_multipath: false,
            ..Config::default()
        };
        Self {
            config,
            ..Self::default()
        }
    }

    /// Returns the profile with which an endpoint creates connections.
    pub fn profile(&self) -> Profile {
        let names = (self.congestion_control, self.scheduler, self.path_manager);
        let of_path_manager = pm::Parameters {
            recreation: self.config.behaviour.recreation,
            ..self.of_path_manager.clone()
        };
        Profile {
            config: self.config.clone().into(),
            algorithms: Box::new(move |connection| Algorithms {
                congestion_control: promises::control(names.0, &cc::Parameters::default()),
                scheduler: sched::by_name(names.1).expect("a scheduler")(
                    &sched::Parameters::default(),
                ),
                path_manager: pm::by_name(names.2).expect("a path manager")(
                    connection,
                    &of_path_manager,
                ),
            }),
        }
    }
}
