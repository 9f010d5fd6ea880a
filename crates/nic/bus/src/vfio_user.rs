//! vfio-user 0.1: a PCI device that lives in another process. VFIO's ioctls
//! are messages on a unix socket; DMA memory, mapped registers and interrupts
//! are file descriptors sent along.
//!
//! Both ends stand on one [`message`] module: [`client`] is a
//! [`Backend`](crate::Backend), [`server`] serves a device model. Not here:
//! migration, dirty pages, device features, `twin_socket`.

pub mod client;
mod dma;
pub mod message;
mod served;
pub mod server;
mod session;
pub(crate) mod transport;
