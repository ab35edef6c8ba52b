//! The peer of the interoperation tests: an HTTP file server and client on the engine behind TUN
//! devices, whose connections can be steered while they run. It is not part of the product.

pub mod control;
pub mod http;
