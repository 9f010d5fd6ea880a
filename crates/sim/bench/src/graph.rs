//! Routers: what their graph and their elements cost.
//!
//! Packets come from memory (`FlowSource`, 4,096 random flows of 60-byte frames) and
//! end in a `Discard`, so that nothing is measured but the graph, its elements and
//! the pool; or they come from and go to 82599s, minimal ones, that step between the
//! router's polls and whose steps are not counted on one thread. Each window runs a
//! number of packets through a fresh router.

pub mod stepped;
pub mod window;
pub mod workload;
